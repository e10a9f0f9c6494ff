"""The patching algorithms, on grids and without: counts, falls, what holds at the end, order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import GroupRecalibrator, multicalibration_error
from onlinecal.recalibration.groups.patches import EventRows
from onlinecal.recalibration.groups.recalibrator import merged
from onlinecal.recalibration.groups.start import copied_rows, set_apart
from tests.properties import examples
from tests.recalibration.groups.reference import grid, tables, value_patches

ALPHAS = [1.0, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01]
TIELESS_ALPHAS = [alpha - 1e-9 * math.pi for alpha in (0.3, 0.1, 0.03, 0.01)]
"""Violations of few rows are fractions, and none of these is one: a last bit decides nothing."""
FINE_ALPHAS = [0.5, 0.1, 0.03, 0.01, 0.001]


def patched(table, alpha, patch, **settings):
    """The fitted model, and what it makes of the forecasts: within alpha, as it says itself."""
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, patch, **settings).fit(p, y, members)
    after = model.predict_proba(p, members)
    assert ((after >= 0) & (after <= 1)).all()
    found = multicalibration_error(after, y, members, n_bins=model.n_levels_ or None)
    if settings.get("target") != "means":
        assert (found <= alpha + 1e-9).all()
        assert model.violations_ == pytest.approx(found, abs=1e-9)
    assert model.n_patches_ <= model.max_patches_
    return model, after


@settings(deadline=None, max_examples=examples(200))
@given(tables(), st.sampled_from(ALPHAS), st.sampled_from([None, 1, 2, 5, 8]))
def test_value_patches_keep_every_promise(table, alpha, extra):
    """On the default grid, and on coarser ones with fewer patches."""
    p, y, _ = table
    m = None if extra is None else int(0.5 / alpha**0.5) + extra
    model, after = patched(table, alpha, "value", n_levels=m)
    falls, m = model.history_["fall"], model.n_levels_
    assert (multicalibration_error(after, y, table[2]) <= alpha + 1e-12).all()
    if extra is None:
        assert model.max_patches_ <= 4 / alpha**2
        assert (falls >= alpha**2 / 4 - 1e-12).all()
    assert (falls >= (alpha - 0.25 / m**2) / (m + 1) - 1e-12).all()
    start = np.mean((grid(p, m) - y) ** 2)
    assert start - falls.sum() == pytest.approx(np.mean((after - y) ** 2), abs=1e-12)


@settings(deadline=None, max_examples=examples(150))
@given(tables(), st.sampled_from(TIELESS_ALPHAS), st.sampled_from(["value", "unrounded"]))
def test_value_patches_are_those_of_the_plain_algorithm(table, alpha, patch):
    model, after = patched(table, alpha, patch)
    expected, story = value_patches(*table, alpha, model.n_levels_ or None)
    for made, (v, g, worst, fall) in zip(model.history_, story, strict=False):
        assert made["violation"] == pytest.approx(worst, abs=1e-12)
        if (made["forecast"], made["group"]) != (pytest.approx(v), g):
            return  # a tie: from here on the two may differ
        assert made["fall"] == pytest.approx(fall, abs=1e-12)
    assert model.n_patches_ == len(story)
    assert after == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "n_groups", [64, 65, pytest.param(63, marks=pytest.mark.slow), pytest.param(130, marks=pytest.mark.slow)]
)
def test_more_groups_than_fit_into_a_word(n_groups):
    rng = np.random.default_rng(n_groups)
    members = rng.random((80, n_groups)) < 0.3
    p, y = rng.random(80), rng.integers(0, 2, 80)
    model, after = patched((p, y, members), 0.03, "value")
    expected, story = value_patches(p, y, members, 0.03, model.n_levels_)
    assert model.n_patches_ == len(story) > 10
    assert after == pytest.approx(expected)


@settings(deadline=None, max_examples=examples(200))
@given(tables(), st.sampled_from(ALPHAS), st.sampled_from([None, 1, 7]))
def test_shift_patches_keep_every_promise(table, alpha, m):
    p, y, _ = table
    model, after = patched(table, alpha, "shift", n_levels=m)
    falls = model.history_["fall"]
    if m is None:
        assert model.max_patches_ <= 4 / alpha**2
        assert (falls >= alpha**2 / 4 - 1e-9).all()
    assert (falls > 0.75 * alpha / (model.n_levels_ + 1) - 1e-9).all()
    assert np.mean((after - y) ** 2) <= np.mean((p - y) ** 2) - falls.sum() + 1e-9


@settings(deadline=None, max_examples=examples(150))
@given(tables(), st.sampled_from(FINE_ALPHAS), st.sampled_from(["unrounded", "unrounded shift"]))
def test_unrounded_patches_keep_every_promise(table, alpha, patch):
    p, y, _ = table
    model, after = patched(table, alpha, patch)
    n, n_values, start = len(p), len(np.unique(p)), float(np.mean((p - y) ** 2))
    falls, left = model.history_["fall"], np.mean((after - y) ** 2)
    assert (model.n_levels_, set(model.history_["level"])) in ((0, {-1}), (0, set()))
    if patch == "unrounded":
        # the level sets in use are at most those at first and one more a patch, and never more than rows
        levels = np.minimum(n_values + np.arange(len(falls)), n)
        assert (falls >= alpha / levels - 1e-12).all()
        assert start - falls.sum() == pytest.approx(left, abs=1e-12)
        most = min(n_values * math.expm1(min(start / alpha, 700.0)), n * start / alpha)
    else:
        assert (falls >= 0.75 * alpha / n - 1e-12).all()
        assert left <= start - falls.sum() + 1e-9
        most = 4 / 3 * n * start / alpha
    # a bound that is a whole number may be rounded down
    assert model.max_patches_ <= most * (1 + 1e-12)


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.sampled_from([0.3, 0.01, 0.0001]))
def test_means_alone(table, alpha):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, "shift", target="means").fit(p, y, members)
    after = model.predict_proba(p, members)
    for g in range(members.shape[1]):
        inside = members[:, g]
        if inside.any():
            assert inside.mean() * (after[inside].mean() - y[inside].mean()) ** 2 <= alpha + 1e-12
    assert model.n_patches_ <= model.max_patches_
    # what the predictor knew inside a group is kept: one shift for rows of the same groups
    key = members @ (1 << np.arange(members.shape[1]))
    free = (after > 0) & (after < 1)
    if model.history_["epoch"].max(initial=0) == 0:
        for k in np.unique(key[free]):
            assert np.ptp((after - p)[free & (key == k)]) < 1e-9


@settings(deadline=None, max_examples=examples(60))
@given(tables(), tables(), st.sampled_from(["value", "shift"]))
def test_replay_on_new_rows_is_patch_by_patch(table, other, patch):
    p, y, members = table
    q, _, groups = other
    groups = np.resize(groups, (len(q), members.shape[1]))
    model = GroupRecalibrator.as_in_paper(0.005, patch, n_levels=12).fit(p, y, members)
    f = grid(q, 12) if patch == "value" else q.copy()
    start, total, epoch = np.floor(f * 12 + 0.5), np.zeros(len(f)), 0
    for made in model.history_:
        if patch == "value":
            f = np.where((np.rint(f * 12) == made["level"]) & groups[:, made["group"]], made["patched"], f)
            continue
        if made["epoch"] > epoch:
            f, total, epoch = np.clip(f + total, 0, 1), np.zeros(len(f)), made["epoch"]
            start = np.floor(f * 12 + 0.5)
        total += np.where((start == made["level"]) & groups[:, made["group"]], made["shift"], 0.0)
    expected = f if patch == "value" else np.clip(f + total, 0, 1)
    assert model.predict_proba(q, groups) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("patch", ["value", "shift", "unrounded"])
def test_early_stopping_keeps_the_best_prefix(patch):
    rng = np.random.default_rng(3)
    n = 4000
    members = rng.random((n, 6)) < 0.3
    p = rng.random(n) if patch != "unrounded" else rng.integers(0, 5, n) / 4
    y = (rng.random(n) < np.clip(p + 0.2 * members[:, 0] - 0.2 * members[:, 1], 0, 1)).astype(int)
    settings = {"alpha": 0.0003, "patch": patch, "n_levels": None if patch == "unrounded" else 40}
    stopped = GroupRecalibrator.as_in_paper(**settings, validation_fraction=0.3, random_state=1).fit(
        p, y, members
    )
    assert stopped.n_taken_back_ > 0
    rows = merged(EventRows(p, y, members.view(np.uint8), np.ones(n)))
    rest, held = set_apart(rows, 0.3, 1)
    assert held.weights.sum() == pytest.approx(0.3 * n, rel=0.08)
    rest, held = copied_rows(rest), copied_rows(held)
    error = np.mean((stopped.predict_proba(held.p, held.members) - held.y) ** 2)
    curve = stopped.history_["validation_error"]
    assert error == pytest.approx(curve[-1], abs=1e-12)
    assert curve[-1] == curve.min()
    full = GroupRecalibrator.as_in_paper(**settings).fit(rest.p, rest.y, rest.members)
    assert full.n_patches_ == stopped.n_patches_ + stopped.n_taken_back_
    assert error <= np.mean((full.predict_proba(held.p, held.members) - held.y) ** 2)


def test_a_forecast_that_fit_has_not_seen_stays_and_others_are_exact():
    p, y = [0.5] * 6, [1, 0, 0, 1, 1, 0]
    groups = np.array([[1, 0]] * 3 + [[0, 1]] * 3)
    model = GroupRecalibrator.as_in_paper(0.001, patch="unrounded").fit(p, y, groups)
    answer = model.predict_proba([0.5, 0.5, 0.25, 0.5], [[1, 0], [0, 1], [1, 0], [0, 0]])
    assert answer.tolist() == [1 / 3, 2 / 3, 0.25, 0.5]
    # the report looks at the same level sets
    assert model.report(p, y, groups).after.worst.violation == 0.0


def test_unrounded_shifts_add_up_in_overlapping_groups_and_leave_new_forecasts():
    """Values take turns, as the first patch decides; shifts of one epoch do not."""
    p, groups = np.full(8, 0.5), np.array([[1, 0]] * 2 + [[1, 1]] * 4 + [[0, 1]] * 2)
    y = [0, 1, 1, 1, 0, 1, 1, 1]
    model = GroupRecalibrator.as_in_paper(0.001, "unrounded shift").fit(p, y, groups)
    first = model.history_[model.history_["epoch"] == 0]
    sums = np.array([first["shift"][first["group"] == g].sum() for g in (0, 1)])
    assert (np.abs(sums) > 0.01).all()
    one = next(model.staged_predict_proba(p, groups, [len(first)]))
    assert one == pytest.approx(np.clip(0.5 + groups @ sums, 0, 1), abs=1e-9)
    assert model.predict_proba([0.25], [[1, 1]]).tolist() == [0.25]
