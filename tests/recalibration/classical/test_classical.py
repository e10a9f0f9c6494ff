"""Temperatures, Dirichlet maps, isotonic top labels, averages; a set probability stays on top if it can."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onlinecal.measures.scores import class_scores
from onlinecal.recalibration import (
    AveragedCalibration,
    DirichletCalibration,
    TemperatureScaling,
    TopLabelIsotonic,
    VectorScaling,
)
from onlinecal.recalibration.classical.linear import PRIOR_ROWS, best_shares
from onlinecal.recalibration.flooring import spread_rest
from tests.recalibration.test_starting import source

drawn = partial(source, power=2.5, lean=0.0)


def test_temperature_scaling_needs_no_label_of_every_class_and_takes_certain_rows():
    model = TemperatureScaling().fit([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]], [0, 0, 1])
    assert np.isfinite(model.predict_proba([[0.0, 0.0, 1.0]])).all()


def test_dirichlet_calibration_finds_the_map_that_spoilt_the_truth():
    table, labels = drawn(20_000)
    model = DirichletCalibration(off_diagonal=0.0, intercept=0.0).fit(table, labels)
    # probabilities are truth^2.5 up to a factor per row, so W = 0.4 I up to a constant row
    found = model.coef_ - model.coef_.mean(axis=0)
    assert np.abs(found - 0.4 * (np.eye(4) - 0.25)).max() < 0.05
    tied = DirichletCalibration(off_diagonal=1e4, intercept=1e4).fit(table, labels)
    assert np.abs(tied.coef_ - np.diag(np.diag(tied.coef_))).max() < 1e-3


def test_top_label_isotonic_calibrates_the_confidence_and_keeps_the_others_proportions_below_it():
    table, labels = drawn(1500)
    model = TopLabelIsotonic().fit(table, labels)
    top, rows = table.argmax(axis=1), np.arange(len(table))
    mapped = model.predict_proba(table)
    confidence, right = mapped[rows, top], top == labels
    for value in np.unique(confidence):
        share = right[confidence == value].mean()
        # never quite sure: 1500 rows
        assert np.clip(share, 1 / 1501, 1500 / 1501) == pytest.approx(value)
    second = table.argsort(axis=1)[:, -2:-3:-1].ravel()
    third = table.argsort(axis=1)[:, -3:-4:-1].ravel()
    full = mapped[rows, second] == np.nextafter(confidence, 0.0)
    assert 0.0 < full.mean() < 0.5
    kept = mapped[rows, second] * table[rows, third], mapped[rows, third] * table[rows, second]
    assert np.allclose(kept[0][~full], kept[1][~full])
    assert np.allclose(model.predict_proba([[1.0, 0.0, 0.0, 0.0]]).sum(), 1.0)


def test_shares_have_the_least_log_loss_with_their_prior():
    rng = np.random.default_rng(0)
    said, counts = rng.uniform(0.01, 1.0, (3, 60)), rng.integers(1, 4, 60).astype(float)
    shares = best_shares(said, counts)
    assert shares.sum() == pytest.approx(1.0)

    def objective(w):
        return (counts * np.log(w @ said)).sum() + PRIOR_ROWS * np.log(w).sum()

    for away in rng.dirichlet(np.ones(3), 200):
        assert objective(0.9 * shares + 0.1 * away) < objective(shares)
    again = np.repeat(said, counts.astype(int), axis=1)
    assert best_shares(again, np.ones(again.shape[1])) == pytest.approx(shares)


def test_an_average_leans_to_what_held_out_rows_prefer():
    table, labels = drawn(1500)
    model = AveragedCalibration([TemperatureScaling(), TopLabelIsotonic()]).fit(table, labels)
    assert model.shares_[0] > 2 / 3
    fresh, came = drawn(3000, seed=1)
    parts = [one.predict_proba(fresh) for one in model.recalibrators_]
    assert np.allclose(model.predict_proba(fresh), np.tensordot(model.shares_, parts, 1))
    plain = AveragedCalibration(model.recalibrators, cv=0).fit(table, labels)
    assert plain.shares_.tolist() == [0.5, 0.5]
    scores, own, *each = (
        class_scores(one, came) for one in (model.predict_proba(fresh), plain.predict_proba(fresh), *parts)
    )
    assert scores.log_loss < own.log_loss
    # never worse than the mean of the scores of its parts: both losses are convex
    assert (np.array(own[:2]) <= np.mean(each, axis=0)[:2]).all()
    few = AveragedCalibration([TemperatureScaling(), VectorScaling()]).fit(table[:119], np.arange(119) % 4)
    assert few.shares_.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        *((AveragedCalibration(cv=bad), f"cv must be .*, got {bad!r}") for bad in (1, 2.5, "a")),
        (AveragedCalibration([]), "recalibrators must be at least one"),
        (AveragedCalibration(3), r"such as TemperatureScaling\(\), got 3"),
        (AveragedCalibration([TemperatureScaling(), 3]), "recalibrators must be .* of tables, .* got 3"),
        (DirichletCalibration(off_diagonal=-1), "off_diagonal must be a number of at least 0, got -1"),
        (DirichletCalibration(pull=-1), "pull must be a number of at least 0, got -1"),
    ],
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*drawn(60))


MASSES = st.lists(
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-300, 0.3, 0.3])), min_size=1, max_size=12
)


@given(MASSES, st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])))
@example([0.5, 0.5], 1 / 3)
@example([0.0] * 48, 1 / 49)
@example([1.0, 1e-17, 1e-17], 0.4)
def test_what_stays_for_every_mass_and_probability(masses, p):
    shares = spread_rest(masses, p)
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert math.fsum(shares) == pytest.approx(1.0 - p, abs=1e-11)
    # who has more mass never gets less
    ranked = [share for _, share in sorted(zip(masses, shares, strict=True))]
    assert all(small <= large + 1e-15 for small, large in pairwise(ranked))
    if p * (len(masses) + 1) >= 1.0 - 1e-12:
        assert max(shares) < p or p == 0.0
        free = [(m, s) for m, s in zip(masses, shares, strict=True) if s < math.nextafter(p, 0.0)]
        assert all(a * t == pytest.approx(b * s, abs=1e-9) for a, s in free for b, t in free)
    else:
        # no distribution has p on top: some other share exceeds it whatever the rule
        assert max(shares) > p


@pytest.mark.parametrize(
    ("masses", "p", "shares"),
    [
        ([6.0, 2.0, 1.0], 0.4, [0.4, 0.2 * 2 / 3, 0.2 / 3]),
        ([6.0, 0.0, 0.0], 0.4, [0.4, 0.1, 0.1]),
        ([6.0, 2.0], 0.2, [0.6, 0.2]),
    ],
)
def test_water_that_overflows_goes_to_the_others_in_their_proportions(masses, p, shares):
    assert spread_rest(masses, p) == pytest.approx(shares)
