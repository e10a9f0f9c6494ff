"""What corrections start from and how much of them is given out: what that does to losses and biases."""

import numpy as np
import pytest

from onlinecal import DecisionRecalibrator, LpRecalibrator
from onlinecal.measures.decision.losses import residuals
from onlinecal.measures.scores import class_brier, class_scores
from onlinecal.recalibration import (
    DirichletCalibration,
    TemperatureScaling,
    gaussian_losses,
)
from onlinecal.recalibration.flooring import limited
from onlinecal.recalibration.starting import (
    LIMIT_CHOICES,
    SHARE_CHOICES,
    START_MODELS,
    STARTS,
    TEMPERATURE_PULL,
    StartedRows,
    chosen_mixture,
    chosen_start,
    fitted_start,
    fold_numbers,
    squared_rises,
    started,
)


def source(n=400, n_classes=4, seed=0, power=2.0, lean=0.1):
    """Probabilities that are too sure and lean to the first class."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(n_classes), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    table = truth**power + lean * np.eye(n_classes)[0]
    return table / table.sum(axis=1, keepdims=True), labels


def log_loss(table, labels):
    return class_scores(table, labels).log_loss


def models(**parameters):
    yield LpRecalibrator(n_levels=2, **parameters)
    yield DecisionRecalibrator(n_actions=2, max_rounds=3, cv=2, **parameters)


@pytest.mark.parametrize(
    ("start", "share"), [*((start, 0.6) for start in STARTS), ("temperature", None), ("isotonic", None)]
)
def test_what_is_true_on_the_fitted_rows_whatever_start_and_share_are(start, share):
    table, labels = source(250)
    for model in models(start=start, share=share, limit=None if share is None else 3.0):
        answers = model.fit(table, labels).predict_proba(table)
        begun = started(model.start_, table)
        assert class_brier(begun, labels) <= class_brier(table, labels)
        if share is None:
            assert class_brier(answers, labels) <= class_brier(begun, labels) + 1e-12
        a, least = model.share_, max(model.keep_, 1.0 / model.limit_)
        assert (answers >= (1.0 - a * (1.0 - least)) * begun - 1e-12).all()
        if a == 0.0:
            assert np.array_equal(answers, begun)
            continue
        assert (answers <= (1.0 - a + a * model.limit_) * begun + 1e-12).all()
        # f of h = (1 - a) s + a f: the bias of h on any rows is the mixture of theirs, the squared error less
        limit = (answers - (1.0 - a) * begun) / a
        for rows in (table[:, 0] > 0.5, answers.argmax(axis=1) == 2, labels == 1):
            own, first, last = (residuals(each, labels)[rows].sum(axis=0) for each in (answers, begun, limit))
            assert (np.abs(own) <= (1.0 - a) * np.abs(first) + a * np.abs(last) + 1e-9).all()
        mixed = (1.0 - a) * class_brier(begun, labels) + a * class_brier(limit, labels)
        lost = a * (1.0 - a) * ((limit - begun) ** 2).sum(axis=1).mean()
        assert class_brier(answers, labels) == pytest.approx(mixed - lost)


@pytest.mark.parametrize("start", ["temperature", "vector", "beta", "isotonic"])
def test_without_a_correction_the_answers_are_the_starts(start):
    table, labels = source(250)
    alone = START_MODELS[start]().fit(table, labels).predict_proba(table)
    if start == "isotonic":
        alone = (1.0 - 4 / (4 * 251)) * alone + 1 / (4 * 251)
    for model in models(start=start, share=0):
        assert np.array_equal(model.fit(table, labels).predict_proba(table), alone)


def test_no_start_is_kept_that_raises_the_squared_error_nor_a_temperature_of_faultless_rows():
    table, labels = source()
    sure = np.full((60, 3), 0.1) + 0.7 * np.eye(3)[np.arange(60) % 3]
    for model in models():
        assert model.fit(table, labels).start_ is not None
        faultless = model.fit(sure, np.arange(60) % 3)
        assert faultless.start_ is None
        assert faultless.inverse_temperature_ == 1.0
        assert (faultless.predict_proba(sure) > 0.01).all()


def test_a_start_with_less_log_loss_is_left_out_where_its_squared_error_is_higher():
    """One sure mistake costs the log loss more than all the rows that the map then takes for doubtful."""
    table = np.tile([[0.99, 0.01], [0.01, 0.99]], (50, 1))
    labels = np.arange(100) % 2
    table[0], labels[0] = [1 - 1e-11, 1e-11], 1
    mapped = TemperatureScaling().fit(table, labels).predict_proba(table)
    assert log_loss(mapped, labels) < log_loss(table, labels)
    assert class_brier(mapped, labels) > class_brier(table, labels)
    for model in models(start="temperature", share=0):
        assert model.fit(table, labels).start_ is None
        assert np.array_equal(model.predict_proba(table), table)


def skewed(n, seed, leans):
    """Probabilities that are too sure, lean to some classes or take two for one another."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(4, 0.5), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    table = truth if leans == "none" else truth**2
    if leans == "vector":
        table = table * [1.0, 2.0, 4.0, 8.0]
    if leans == "dirichlet":
        table = table[:, [0, 1, 2, 2]] ** 0.5 * table ** [0.3, 0.3, 0.3, 0.1]
    table = table + 1e-9
    return table / table.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize("best", ["none", "temperature", "vector", "dirichlet"])
def test_auto_starts_with_the_simplest_map_that_is_as_good_as_any(best):
    table, labels = skewed(1500, 1, best)
    fresh, truth = skewed(4000, 2, best)
    model = LpRecalibrator(share=0).fit(table, labels)
    assert model.start_name_ == best
    losses = [
        log_loss(LpRecalibrator(share=0, start=start).fit(table, labels).predict_proba(fresh), truth)
        for start in ("none", "temperature", "vector", "dirichlet")
    ]
    assert log_loss(model.predict_proba(fresh), truth) <= 1.003 * min(losses)
    # a class that comes less than five times, fewer than two rows a fold, no folds
    rare = np.flatnonzero(labels == 0)[4:]
    few = LpRecalibrator(share=0).fit(np.delete(table, rare, 0), np.delete(labels, rare))
    assert few.start_name_ in ("none", "temperature")
    # near a temperature where rows are few
    for n, pull in ((400, TEMPERATURE_PULL), (600, 0.0)) if best == "dirichlet" else ():
        assert LpRecalibrator(share=0).fit(*skewed(n, 1, "dirichlet")).start_.pull == pull
    assert LpRecalibrator().fit(table[:9], labels[:9]).start_ is None
    assert LpRecalibrator(cv=0).fit(table, labels).start_name_ in ("temperature", "none")


def test_a_pulled_map_is_taken_exactly_where_it_is_ahead_by_two_and_a_half_standard_errors():
    """By the log loss of held-out rows, against the best of the simpler starts."""
    leads = []
    for seed in range(4):
        table, labels = skewed(320, seed, "dirichlet")
        # between a table that a temperature suits and one that it does not
        table = 0.5 * table + 0.5 * skewed(320, seed, "temperature")[0]
        held_out, pulled = (
            np.empty((2, 320)),
            DirichletCalibration(off_diagonal=0.0, intercept=0.0, pull=TEMPERATURE_PULL),
        )
        simple = chosen_start(5, 0, table[:299], labels[:299], np.ones(299))
        for fold in range(5):
            out = fold_numbers(320, 5, 0) == fold
            for each, model in zip(held_out, (simple, pulled), strict=True):
                start, _ = fitted_start(model, table[~out], labels[~out], np.ones((~out).sum()))
                each[out] = -np.log(started(start, table[out])[np.arange(out.sum()), labels[out]])
        gains = held_out[0] - held_out[1]
        leads.append(gains.mean() / (gains.std() / np.sqrt(320)))
        chosen = chosen_start(5, 0, table, labels, np.ones(320))
        assert (getattr(chosen, "pull", 0.0) > 0.0) == (leads[-1] > 2.5)
    assert any(0.5 < lead < 2.5 for lead in leads)


def test_a_share_that_raises_what_the_correction_is_for_is_none():
    table, labels = source(300, power=4.0)
    begun = np.full_like(table, 0.25)
    rows = StartedRows(begun, 0.5 * begun + 0.5 * np.eye(4)[labels], labels, np.ones(300), np.ones(300))
    fitted = lambda: [rows]  # noqa: E731
    assert chosen_mixture([rows], fitted, 0.2, None, lambda *rows: 0.0)[0] > 0.0
    assert chosen_mixture([rows], fitted, 0.2, None, lambda table, *rest: table.max())[0] == 0.0


def test_losses_of_the_defaults_do_not_rise_on_fresh_rows():
    """Of a table with nothing to correct, and of one with much."""
    for power, gain, start in ((1.0, 0.0, "temperature"), (4.0, 0.002, "temperature"), (4.0, 0.0, "auto")):
        table, labels = source(600, seed=4, power=power)
        fresh, truth = source(4000, seed=9, power=power)
        for model in models(start=start):
            answers, begun = model.fit(table, labels).predict_proba(fresh), started(model.start_, fresh)
            assert log_loss(answers, truth) <= log_loss(begun, truth) + 0.001
            assert class_brier(answers, truth) <= class_brier(begun, truth) - gain


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_share_that_costs_nothing_is_chosen(seed):
    rng = np.random.default_rng(seed)
    begun, corrected = rng.dirichlet(np.ones(3), (2, 80))
    corrected = 0.6 * begun + 0.4 * corrected
    truth = (0.5, 0.5, 0.5, -0.2)[seed] * corrected + (0.5, 0.5, 0.5, 1.2)[seed] * begun
    truth = truth.clip(0.0) / truth.clip(0.0).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < rng.random((80, 1))).sum(axis=1)
    weights = rng.integers(1, 4, 80).astype(float) if seed % 2 else np.ones(80)
    rows = StartedRows(begun, corrected, labels, weights, np.minimum(weights, 1.0))
    parts = [StartedRows(*(each[i::2] for each in rows)) for i in (0, 1)]
    found = chosen_mixture(parts, lambda: parts, 0.2, None, lambda *rows: 0.0)
    again = weights.astype(int)
    at = np.arange(80), labels
    best = (0.0, np.inf)
    for limit in LIMIT_CHOICES:
        allowed = [0.0]
        for share in SHARE_CHOICES[1:]:
            mixed = (1 - share) * begun + share * limited(corrected, begun, 0.2, limit)
            logs = np.log(begun[at]) - np.log(mixed[at])
            squares = (residuals(mixed, labels) ** 2 - residuals(begun, labels) ** 2).sum(axis=1)
            rises = [np.repeat(each, again) for each in (logs, squares)]
            if all(each.mean() + each.std() / np.sqrt(len(each)) <= 0 for each in rises):
                allowed.append(float(share))
        if max(allowed) > best[0]:
            best = (max(allowed), limit)
    assert found == best


@pytest.mark.parametrize(("keep", "limit"), [(0.2, np.inf), (0.2, 20.0), (0.5, 3.0), (0.0, 1.25)])
def test_limited_rows_are_the_nearest_within_their_limits(keep, limit):
    rng = np.random.default_rng(0)
    begun, corrected = rng.dirichlet(np.full(5, 0.4), 300), rng.dirichlet(np.full(5, 0.2), 300)
    corrected[:20] = begun[:20]
    begun[20] = corrected[21] = [1.0, 0.0, 0.0, 0.0, 0.0]
    out = limited(corrected, begun, keep, limit)
    low, high = max(keep, 1 / limit) * begun, np.minimum(limit, 1e9) * begun + np.isinf(limit)
    assert np.abs(out.sum(axis=1) - 1).max() < 1e-12
    assert ((out >= low - 1e-15) & (out <= high + 1e-15)).all()
    assert np.array_equal(out[:20], corrected[:20])
    # moving mass between two classes, as far as their limits let it, never brings a row nearer
    for i in range(5):
        for j in range(5):
            step = np.minimum(high[:, i] - out[:, i], out[:, j] - low[:, j]).clip(0) * 0.01
            slope = (out[:, i] - corrected[:, i]) - (out[:, j] - corrected[:, j])
            assert (step * slope >= -1e-9).all()


@pytest.mark.parametrize("start", STARTS)
def test_saved_decision_recalibrators_map_to_the_same_bits_with_every_start(start, tmp_path):
    table, labels = source(200)
    model = DecisionRecalibrator(n_actions=2, start=start, max_rounds=2, cv=2).fit(table, labels)
    model.save(tmp_path / "model.npz")
    back = DecisionRecalibrator.load(tmp_path / "model.npz")
    assert np.array_equal(back.predict_proba(table), model.predict_proba(table))
    assert (back.share_, back.keep_, back.limit_) == (model.share_, model.keep_, model.limit_)


def test_decisions_that_do_not_depend_on_the_share_have_mixed_gaps():
    table, labels = source(300)
    model = DecisionRecalibrator(n_actions=2, share=0.5, max_rounds=4, cv=0, keep=0).fit(table, labels)
    whole = DecisionRecalibrator(n_actions=2, share=1.0, max_rounds=4, cv=0, keep=0).fit(table, labels)
    begun, corrected = started(model.start_, table), whole.predict_proba(table)
    for loss in gaussian_losses(2, 4, 20):
        decisions = (begun @ loss.T).argmin(axis=1)
        gaps = [
            (residuals(each, labels) * loss[decisions]).sum(axis=1).mean()
            for each in (model.predict_proba(table), begun, corrected)
        ]
        assert gaps[0] == pytest.approx((gaps[1] + gaps[2]) / 2)


def test_means_and_errors_of_rises_are_those_of_each_row():
    rng = np.random.default_rng(0)
    start, corrected = rng.dirichlet(np.ones(3), (2, 40))
    labels, weights = rng.integers(0, 3, 40), rng.integers(0, 3, 40).astype(float)
    blocks = np.minimum(weights, rng.integers(1, 3, 40))
    found = squared_rises([StartedRows(start, corrected, labels, weights, blocks)], 0.0, np.inf)
    truth = np.eye(3)[labels]
    for share, mean, spread in zip(SHARE_CHOICES[1:], found.means[1:], found.spreads[1:], strict=True):
        mixed = start + share * (corrected - start)
        rises = (((mixed - truth) ** 2).sum(axis=1) - ((start - truth) ** 2).sum(axis=1)) / share
        assert mean == pytest.approx(np.average(rises, weights=weights))
        away = np.average((rises - mean) ** 2 * blocks, weights=weights)
        assert spread == pytest.approx(np.sqrt(away / weights.sum()))
