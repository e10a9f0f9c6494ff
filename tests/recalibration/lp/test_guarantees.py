"""Sample sizes, separate pools with noise, what the guarantee says of the source; real networks."""

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from onlinecal import LpRecalibrator
from onlinecal.measures.lp.level_sets import levels_of, norm
from onlinecal.recalibration import SampleSizeWarning, epsilon_for, lp_sample_complexity
from onlinecal.recalibration.lp.algorithm import contradicts, round_bound
from onlinecal.recalibration.lp.statistics import (
    Statistics,
    error_bound,
    laplace_scale,
    mass_pool_size,
    noisy_pools,
    sample_sizes,
)
from onlinecal.remarks import LabelWarning

inf = math.inf


def test_the_numbers_of_the_lemmas():
    needs = lp_sample_complexity(inf, 0.1, 0.05, 10)
    beta, d = 0.1, 0.05 / 3
    assert (needs.beta, needs.n_levels, needs.most_bins) == (0.1, 10, 60)
    assert needs.n_level_sets == math.comb(20, 10) - 1
    a = beta / 12
    assert needs.masses == math.ceil(
        max(math.log(4 / (a * d)) / (2 * a**2), 8 * math.log(2 * needs.n_level_sets / d) / (3 * a))
    )
    assert [pool.group_size for pool in needs.pools] == [1, 2, 4, 8, 16, 32]
    accuracy = beta / (36 * 6)
    assert needs.accuracy == pytest.approx(accuracy)
    third = needs.pools[2]
    assert third.masses == math.ceil(32 * math.log(4 * 15 / (d / 6)) / accuracy**2)
    assert third.labels == math.ceil(32 * math.log(4 * 15 * 10 / (d / 6)) / accuracy**2)
    assert needs.needed("pools") == needs.masses + sum(pool.masses + pool.labels for pool in needs.pools)
    assert needs.needed("plug-in") == needs.plug_in
    with pytest.raises(ValueError, match="estimation must be one of plug-in, pools, got 'both'"):
        needs.needed("both")
    with pytest.raises(ValueError, match=r"p must be larger, got 1\.01: even for epsilon 1"):
        epsilon_for(1000, 1.01)
    # at the asked size the noise is the lemma's 8/(m a)
    noise = laplace_scale(third.labels, 15, 10, d / 6)
    assert noise == pytest.approx(8 / (third.labels * accuracy), rel=1e-6)
    # beta and levels are coupled, and all unions at once need fewer rows than pools for every practical beta
    needs = lp_sample_complexity(2, 0.1, 0.05, 10)
    assert (needs.beta, needs.n_levels) == (pytest.approx(0.1**2 / 2), 200)
    for p in (1.2, 1.5, 2, 4, inf):
        assert error_bound(lp_sample_complexity(p, 0.3, 0.05, 3).beta, p) == pytest.approx(0.3)
    for beta in (0.5, 0.1, 0.01, 1e-4, 1e-7):
        needs = sample_sizes(beta, math.ceil(1 / beta), 0.05, 10)
        assert needs.plug_in < needs.total


def test_rows_for_many_level_sets_are_what_bernsteins_inequality_asks_for():
    """Of |V| level sets of mass at most a, none is taken for one of 2a: |V| exp(-m a^2/(2 (a + a/3)))."""
    beta, delta, n_level_sets = 0.1, 0.01, 10**400
    a = beta / 12
    rows = mass_pool_size(beta, n_level_sets, delta)

    def log_failure(m):
        return math.log(n_level_sets) - m * a**2 / (2 * (a + a / 3))

    assert log_failure(rows) <= math.log(delta / 2) < log_failure(rows - 1)


@pytest.mark.parametrize("estimation", ["plug-in", "pools"])
@pytest.mark.parametrize("p", [1.5, 2, 4, inf])
def test_what_n_rows_buy_is_what_they_pay_for(p, estimation):
    best = [
        epsilon_for(n, p, delta=0.05, n_classes=10, estimation=estimation) for n in (10**7, 10**10, 10**13)
    ]
    assert best == sorted(best, reverse=True)
    for n, epsilon in zip((10**7, 10**10, 10**13), best, strict=True):
        if epsilon < inf:
            assert lp_sample_complexity(p, epsilon, 0.05, 10).needed(estimation) <= n
            assert lp_sample_complexity(p, 0.999 * epsilon, 0.05, 10).needed(estimation) > 0.98 * n
    assert epsilon_for(10, p, delta=0.05, n_classes=10, estimation=estimation) == inf
    few, many = (epsilon_for(10**6, 2, n_classes=10, n_levels=levels) for levels in (2, 10**9))
    assert few <= epsilon_for(10**6, 2, n_classes=10) <= many


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lp_sample_complexity(1, 0.1, 0.05, 3), "p must be a number above 1, or inf, got 1"),
        (
            lambda: lp_sample_complexity(2, 0.0, 0.05, 3),
            r"epsilon must be a number between 0 and 1, got 0\.0",
        ),
        (lambda: lp_sample_complexity(2, 0.1, 1.5, 3), r"delta must be a number between 0 and 1, got 1\.5"),
        (lambda: lp_sample_complexity(2, 0.1, 0.05, 0), "n_classes must be a whole number"),
        (lambda: lp_sample_complexity(1.05, 0.1, 0.05, 3), r"p = 1\.05 and epsilon = 0\.1 make beta"),
        (lambda: epsilon_for(0, 2), "n must be a whole number of at least 1, got 0"),
        (
            lambda: epsilon_for(10, 2, estimation="both"),
            "estimation must be one of plug-in, pools, got 'both'",
        ),
    ],
)
def test_bad_numbers_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def error_of(mapped, truth, masses, p, n_levels):
    """Err_p with the labels' probabilities in place of labels: no chance is left but the forecasts."""
    _, of = np.unique(levels_of(mapped, n_levels), axis=0, return_inverse=True)
    sums = np.zeros((of.max() + 1, mapped.shape[1]))
    np.add.at(sums, of.ravel(), masses[:, None] * (mapped - truth))
    return norm(sums.ravel(), float(p))


class Source:
    """A predictor with finitely many forecasts, their masses, and the truth after each."""

    def __init__(self, k, n_levels, seed, n_forecasts=14, sharpness=0.3):
        rng = np.random.default_rng(seed)
        drawn = rng.dirichlet(np.full(k, sharpness), 20 * n_forecasts)
        _, first = np.unique(levels_of(drawn, n_levels), axis=0, return_index=True)
        self.forecasts = drawn[np.sort(first)[:n_forecasts]]
        n = len(self.forecasts)
        # half the mass on the forecast that is most sure of itself
        self.masses = 0.5 * rng.dirichlet(np.full(n, 0.7))
        self.masses[self.forecasts.max(axis=1).argmax()] += 0.5
        # what is promised to a class happens to the next one
        self.truth = np.roll(self.forecasts, 1, axis=1)

    def error(self, map_, p, n_levels):
        return error_of(map_(self.forecasts), self.truth, self.masses, p, n_levels)

    def squared_error(self, map_):
        mapped = map_(self.forecasts)
        return self.masses @ (1 + (mapped**2).sum(axis=1) - 2 * (mapped * self.truth).sum(axis=1))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("p", "epsilon", "k"), [(inf, 0.2, 3), (inf, 0.1, 10), (2, 0.4, 4), (4, 0.3, 5)])
def test_pools_of_the_asked_sizes_keep_the_promise(p, epsilon, k, seed):
    """10^10 rows are drawn as counts, pool by pool; noise and re-estimates included."""
    needs = lp_sample_complexity(p, epsilon, 0.05, k)
    source = Source(k, needs.n_levels, seed)
    rng = np.random.default_rng(seed)
    found = rng.multinomial(needs.masses, source.masses) / needs.masses
    bins = np.flatnonzero(found >= needs.beta / 6)
    sizes = len(bins).bit_length()
    masses = np.empty((sizes, len(bins)))
    labels = np.empty((sizes, len(bins), k))
    for i, pool in enumerate(needs.pools[:sizes]):
        masses[i] = rng.multinomial(pool.masses, source.masses)[bins]
        joint = (source.masses[:, None] * source.truth).ravel()
        labels[i] = rng.multinomial(pool.labels, joint / joint.sum()).reshape(-1, k)[bins]
    rows = np.array([[pool.masses, pool.labels] for pool in needs.pools[:sizes]], float)
    pools = noisy_pools(masses, labels, rows[:, 0], rows[:, 1], 0.05, rng)
    statistics = Statistics(levels_of(source.forecasts[bins], needs.n_levels), None, pools)
    model = LpRecalibrator.as_in_paper(p, epsilon, estimation="pools")
    assert model._settings_for(k) == needs
    model._fit_statistics(statistics)
    assert source.error(lambda f: f, p, needs.n_levels) > epsilon
    assert source.error(model.predict_proba, p, needs.n_levels) <= epsilon
    assert 0 < model.n_rounds_ <= round_bound(needs.beta, needs.n_levels)
    rise = source.squared_error(model.predict_proba) - source.squared_error(lambda f: f)
    assert rise <= 4 / math.ceil(1 / needs.beta) * (1 + math.log2(36 / needs.beta))
    in_group = np.bincount(model.group_of_level_set_, weights=source.masses[bins])
    assert np.abs(model.masses_ - in_group).max() <= needs.beta / 36


def drawn(n, k, seed, favour=0.9):
    """A Dirichlet predictor that promises the first class too often, labels, and their probabilities.

    What happens most is the second class.
    """
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet([0.3 / k, 0.5, *[0.3 / k] * (k - 2)], n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    promised = (1 - favour) * truth
    promised[:, 0] += favour
    return promised, labels, truth


@pytest.mark.parametrize(
    ("p", "epsilon", "k"),
    [
        (inf, 0.2, 10),
        (2, 0.5, 10),
        (1.5, 0.8, 3),
        (4, 0.25, 5),
        *(pytest.param(inf, *each, marks=pytest.mark.slow) for each in ((0.1, 3), (0.2, 30), (0.1, 100))),
    ],
)
@pytest.mark.parametrize("n_fresh", [40_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_fresh_rows_have_a_small_error_with_the_asked_number_of_rows(p, epsilon, k, n_fresh):
    needs = lp_sample_complexity(p, epsilon, 0.05, k)
    promised, labels, _ = drawn(needs.plug_in, k, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # the predictor is bad on purpose, in some cases worse than chance
        warnings.simplefilter("ignore", LabelWarning)
        model = LpRecalibrator.as_in_paper(p, epsilon).fit(promised, labels)
    fresh, _, truth = drawn(n_fresh, k, 1)
    mapped, share = model.predict_proba(fresh), np.full(n_fresh, 1 / n_fresh)
    error, before = (error_of(one, truth, share, p, needs.n_levels) for one in (mapped, fresh))
    assert error <= epsilon
    assert error < before
    rise = ((mapped - truth) ** 2).sum(axis=1).mean() - ((fresh - truth) ** 2).sum(axis=1).mean()
    assert rise <= 4 / needs.n_levels * (1 + math.log2(36 / needs.beta))


@pytest.mark.filterwarnings("error::onlinecal.recalibration.SampleSizeWarning")
def test_fit_says_what_its_rows_guarantee_where_there_is_a_guarantee():
    promised, labels, _ = drawn(4_000, 3, 0)
    needed = lp_sample_complexity(inf, 0.1, 0.05, 3).plug_in
    with pytest.warns(SampleSizeWarning) as caught:
        LpRecalibrator.as_in_paper(inf).fit(promised, labels)
    warned = next(each for each in caught if each.category is SampleSizeWarning)
    assert warned.filename == __file__
    assert (
        str(warned.message) == f"4,000 rows guarantee less for the source (epsilon_for), 0.1 takes {needed:,}"
    )
    # none of these says anything about the source
    LpRecalibrator().fit(promised, labels)
    LpRecalibrator.as_in_paper(inf, within="shift").fit(promised, labels)
    LpRecalibrator.as_in_paper(inf, start="temperature").fit(promised, labels)
    LpRecalibrator.as_in_paper(inf).fit(promised, labels, np.full(len(labels), 2.0))


@pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")
def test_pools_are_dealt_by_the_seed_and_estimates_that_contradict_each_other_end_with_a_warning():
    promised, labels, _ = drawn(20_000, 3, 0)
    first, again, other = (
        LpRecalibrator.as_in_paper(inf, 0.3, estimation="pools", n_levels=3, random_state=seed)
        .fit(promised, labels)
        .predict_proba(promised[:500])
        for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
    assert first.sum(axis=1) == pytest.approx(1.0)
    model = LpRecalibrator.as_in_paper(inf, estimation="pools", n_levels=3, tolerance=0.02)
    with pytest.warns(ConvergenceWarning, match="too few rows") as caught:
        model.fit(promised[:60], labels[:60])
    assert {each.filename for each in caught if each.category is ConvergenceWarning} == {__file__}
    with pytest.raises(
        ValueError, match=r"X must have at least \d+ rows with estimation='pools' here, got 2"
    ):
        model.fit(np.repeat(promised[:1], 2, axis=0), [0, 1])
    with pytest.raises(ValueError, match="sample_weight must be None with estimation='pools'"):
        model.fit(promised, labels, labels + 1)


@pytest.mark.parametrize(
    ("labels", "enough", "too_little"),
    [((0.1, 0.4), 0.0, None), ((0.1, 0.3), 0.06, 0.04), ((0.4, 0.3), 0.11, 0.09), ((0.7, 0.0), 0.21, 0.1)],
)
def test_what_contradicts_itself(labels, enough, too_little):
    assert not contradicts(0.5, np.array(labels), enough)
    assert too_little is None or contradicts(0.5, np.array(labels), too_little)
