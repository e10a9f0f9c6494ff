"""The patching algorithms, on grids and without: counts, falls, what holds at the end, order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import GroupRecalibrator, multicalibration_error
from onlinecal.recalibration.groups.patches import PATCH, replay_moves
from onlinecal.recalibration.groups.start import held_out_rows
from tests.properties import examples
from tests.recalibration.groups.reference import grid, tables, value_patches, violation

ALPHAS = [1.0, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01]


def as_outcomes(rng, truth):
    return (rng.random(len(truth)) < truth).astype(int)


@settings(deadline=None, max_examples=examples(200))
@given(tables(), st.sampled_from(ALPHAS))
def test_value_patches_keep_every_promise(table, alpha):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha).fit(p, y, members)
    after = model.predict(p, members)
    assert (multicalibration_error(after, y, members) <= alpha + 1e-12).all()
    assert model.violations_ == pytest.approx(multicalibration_error(after, y, members), abs=1e-12)
    assert model.n_patches_ <= model.max_patches_ <= 4 / alpha**2
    assert (model.history_["fall"] >= alpha**2 / 4 - 1e-12).all()
    start = np.mean((grid(p, model.n_levels_) - y) ** 2)
    assert start - model.history_["fall"].sum() == pytest.approx(np.mean((after - y) ** 2), abs=1e-12)


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.sampled_from([0.3, 0.1, 0.03, 0.01]))
def test_value_patches_are_those_of_the_plain_algorithm(table, alpha):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha).fit(p, y, members)
    _, story = value_patches(p, y, members, alpha, model.n_levels_)
    for patch, (v, g, worst, fall) in zip(model.history_, story, strict=False):
        assert patch["violation"] == pytest.approx(worst, abs=1e-12)
        if (patch["forecast"], patch["group"]) != (pytest.approx(v), g):
            return  # a tie: from here on the two may differ
        assert patch["fall"] == pytest.approx(fall, abs=1e-12)
    assert model.n_patches_ == len(story)


@pytest.mark.parametrize("n_groups", [62, 63, 64, 65, 130])
def test_more_groups_than_fit_into_a_word(n_groups):
    rng = np.random.default_rng(n_groups)
    members = rng.random((300, n_groups)) < 0.3
    p, y = rng.random(300), rng.integers(0, 2, 300)
    model = GroupRecalibrator.as_in_paper(0.03).fit(p, y, members)
    expected, story = value_patches(p, y, members, 0.03, model.n_levels_)
    assert model.n_patches_ == len(story) > 10
    assert model.predict(p, members) == pytest.approx(expected)


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.sampled_from(ALPHAS), st.integers(1, 8))
def test_coarser_grids_keep_the_promise_with_fewer_patches(table, alpha, extra):
    p, y, members = table
    m = int(0.5 / alpha**0.5) + extra
    model = GroupRecalibrator.as_in_paper(alpha, n_levels=m).fit(p, y, members)
    after = model.predict(p, members)
    assert (multicalibration_error(after, y, members) <= alpha + 1e-12).all()
    assert (model.history_["fall"] >= (alpha - 0.25 / m**2) / (m + 1) - 1e-12).all()
    assert model.n_patches_ <= model.max_patches_


@settings(deadline=None, max_examples=examples(200))
@given(tables(), st.sampled_from(ALPHAS), st.sampled_from([None, 1, 7]))
def test_shift_patches_keep_every_promise(table, alpha, m):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, "shift", n_levels=m).fit(p, y, members)
    after = model.predict(p, members)
    assert ((after >= 0) & (after <= 1)).all()
    assert (multicalibration_error(after, y, members, n_levels=model.n_levels_) <= alpha + 1e-12).all()
    assert model.n_patches_ <= model.max_patches_
    if m is None:
        assert model.max_patches_ <= 4 / alpha**2
        assert (model.history_["fall"] >= alpha**2 / 4 - 1e-9).all()
    assert (model.history_["fall"] > 0.75 * alpha / (model.n_levels_ + 1) - 1e-9).all()
    falls = model.history_["fall"].sum()
    assert np.mean((after - y) ** 2) <= np.mean((p - y) ** 2) - falls + 1e-9


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.sampled_from([0.1, 0.01, 0.001]), st.randoms(use_true_random=False))
def test_the_order_of_shifts_does_not_change_a_bit(table, alpha, random):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, "shift", n_levels=10).fit(p, y, members)
    forecasts = p.copy()
    for epoch in range(int(model.history_["epoch"].max(initial=-1)) + 1):
        level = np.floor(forecasts * 10 + 0.5)
        total = np.zeros(len(p))
        patches = [patch for patch in model.history_ if patch["epoch"] == epoch]
        random.shuffle(patches)
        for patch in patches:
            total += np.where((level == patch["level"]) & members[:, patch["group"]], patch["shift"], 0.0)
        forecasts = np.clip(forecasts + total, 0.0, 1.0)
    assert (forecasts == model.predict(p, members)).all()


def test_the_order_of_value_patches_does_matter():
    members = np.array([[1, 0], [1, 1], [0, 1]], np.uint8)
    # the row in both groups goes where the first patch sends it
    patches = np.zeros(2, PATCH)
    patches["value"], patches["group"], patches["patched"] = 0.5, [0, 1], [0.2, 0.8]
    ends = [replay_moves(np.full(3, 0.5), members, patches[order], 10) for order in ([0, 1], [1, 0])]
    assert np.array(ends).tolist() == [[0.2, 0.2, 0.8], [0.2, 0.8, 0.8]]


@settings(deadline=None, max_examples=examples(100))
@given(tables(), st.sampled_from([0.3, 0.01, 0.0001]))
def test_means_alone(table, alpha):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, "shift", target="means").fit(p, y, members)
    after = model.predict(p, members)
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
    assert model.predict(q, groups) == pytest.approx(expected, abs=1e-12)


def test_early_stopping_keeps_the_best_prefix():
    rng = np.random.default_rng(3)
    n = 4000
    members = rng.random((n, 6)) < 0.3
    p = rng.random(n)
    y = as_outcomes(rng, np.clip(p + 0.2 * members[:, 0] - 0.2 * members[:, 1], 0, 1))
    for patch in ("value", "shift"):
        free = GroupRecalibrator.as_in_paper(0.0003, patch, n_levels=40)
        stopped = GroupRecalibrator.as_in_paper(0.0003, patch, n_levels=40, validation_fraction=0.3, seed=1)
        stopped.fit(p, y, members)
        assert stopped.n_taken_back_ > 0
        held = np.zeros(n, bool)
        held[np.random.default_rng(1).permutation(n)[:1200]] = True
        error = np.mean((stopped.predict(p[held], members[held]) - y[held]) ** 2)
        curve = stopped.history_["validation_error"]
        assert error == pytest.approx(curve[-1], abs=1e-12)
        assert curve[-1] == curve.min()
        full = free.fit(p[~held], y[~held], members[~held])
        assert full.n_patches_ == stopped.n_patches_ + stopped.n_taken_back_
        assert error <= np.mean((full.predict(p[held], members[held]) - y[held]) ** 2)


FINE_ALPHAS = [0.5, 0.1, 0.03, 0.01, 0.001]


@settings(deadline=None, max_examples=examples(150))
@given(tables(), st.sampled_from(FINE_ALPHAS))
def test_unrounded_patches_keep_every_promise(table, alpha):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, patch="unrounded").fit(p, y, members)
    after = model.predict(p, members)
    assert (multicalibration_error(after, y, members) <= alpha + 1e-12).all()
    assert model.violations_ == pytest.approx(multicalibration_error(after, y, members), abs=1e-12)
    n, n_values, start = len(p), len(np.unique(p)), float(np.mean((p - y) ** 2))
    falls = model.history_["fall"]
    # the level sets in use are at most those at first and one more a patch, and never more than rows
    levels = np.minimum(n_values + np.arange(len(falls)), n)
    assert (falls >= alpha / levels - 1e-12).all()
    assert start - falls.sum() == pytest.approx(np.mean((after - y) ** 2), abs=1e-12)
    assert model.n_patches_ <= model.max_patches_
    assert model.max_patches_ <= min(n_values * math.expm1(min(start / alpha, 700.0)), n * start / alpha)


@settings(deadline=None, max_examples=examples(60))
@given(tables(), st.sampled_from(FINE_ALPHAS))
def test_unrounded_patches_are_those_of_the_plain_algorithm(table, alpha):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, patch="unrounded").fit(p, y, members)
    expected, story = value_patches(p, y, members, alpha)
    for patch, (v, g, worst, _) in zip(model.history_, story, strict=False):
        assert patch["violation"] == pytest.approx(worst, abs=1e-12)
        if (patch["forecast"], patch["group"]) != (v, g):
            return  # a tie: from here on the two may differ
    assert model.n_patches_ == len(story)
    np.testing.assert_array_equal(model.predict(p, members), expected)


def test_one_forecast_becomes_many_level_sets():
    rng = np.random.default_rng(0)
    members = rng.random((500, 12)) < 0.4
    p = np.full(500, 0.5)
    y = (rng.random(500) < 0.2 + 0.05 * members.sum(axis=1)).astype(int)
    model = GroupRecalibrator.as_in_paper(0.0005, patch="unrounded").fit(p, y, members)
    after = model.predict(p, members)
    assert len(np.unique(after)) > 10
    assert max(violation(after, y, members[:, g]) for g in range(12)) <= 0.0005 + 1e-12
    assert np.mean((p - y) ** 2) - model.history_["fall"].sum() == pytest.approx(np.mean((after - y) ** 2))


def test_a_forecast_that_fit_has_not_seen_stays_and_others_are_exact():
    p, y = [0.5] * 6, [1, 0, 0, 1, 1, 0]
    groups = np.array([[1, 0]] * 3 + [[0, 1]] * 3)
    model = GroupRecalibrator.as_in_paper(0.001, patch="unrounded").fit(p, y, groups)
    answer = model.predict([0.5, 0.5, 0.25, 0.5], [[1, 0], [0, 1], [1, 0], [0, 0]])
    assert answer.tolist() == [1 / 3, 2 / 3, 0.25, 0.5]
    assert model.history_["level"].tolist() == [-1, -1]
    assert model.n_levels_ == 0
    # the report looks at the same level sets
    assert model.report(p, y, groups).after.worst.violation == 0.0


def test_held_out_rows_take_patches_back():
    rng = np.random.default_rng(1)
    members = rng.random((400, 6)) < 0.5
    p, y = rng.integers(0, 5, 400) / 4, rng.integers(0, 2, 400)
    model = GroupRecalibrator.as_in_paper(1e-5, patch="unrounded", validation_fraction=0.3).fit(p, y, members)
    assert model.n_taken_back_ > 0
    kept = model.history_["validation_error"]
    assert np.argmin(kept) == len(kept) - 1
    held = held_out_rows(400, 0.3, 0)
    after = model.predict(p[held], members[held])
    assert kept[-1] == pytest.approx(np.mean((after - y[held]) ** 2), abs=1e-12)


@settings(deadline=None, max_examples=examples(150))
@given(tables(), st.sampled_from(FINE_ALPHAS))
def test_unrounded_shifts_keep_every_promise(table, alpha):
    p, y, members = table
    model = GroupRecalibrator.as_in_paper(alpha, "unrounded shift").fit(p, y, members)
    after = model.predict(p, members)
    assert ((after >= 0) & (after <= 1)).all()
    assert (multicalibration_error(after, y, members) <= alpha + 1e-9).all()
    falls, start = model.history_["fall"], float(np.mean((p - y) ** 2))
    assert (falls >= 0.75 * alpha / len(p) - 1e-12).all()
    assert np.mean((after - y) ** 2) <= start - falls.sum() + 1e-9
    assert model.n_patches_ <= model.max_patches_ <= 4 / 3 * len(p) * start / alpha
    assert (model.n_levels_, set(model.history_["level"])) in ((0, {-1}), (0, set()))


def test_unrounded_shifts_add_up_in_overlapping_groups_and_leave_new_forecasts():
    """Values take turns, as the first patch decides; shifts of one epoch do not."""
    p, groups = np.full(8, 0.5), np.array([[1, 0]] * 2 + [[1, 1]] * 4 + [[0, 1]] * 2)
    y = [0, 1, 1, 1, 0, 1, 1, 1]
    model = GroupRecalibrator.as_in_paper(0.001, "unrounded shift").fit(p, y, groups)
    first = model.history_[model.history_["epoch"] == 0]
    sums = np.array([first["shift"][first["group"] == g].sum() for g in (0, 1)])
    assert (np.abs(sums) > 0.01).all()
    one = next(model.staged_predict(p, groups, [len(first)]))
    assert one == pytest.approx(np.clip(0.5 + groups @ sums, 0, 1), abs=1e-9)
    assert model.predict([0.25], [[1, 1]]).tolist() == [0.25]
    held = GroupRecalibrator.as_in_paper(0.001, "unrounded shift", validation_fraction=0.25, seed=3)
    held.fit(np.tile(p, 50), np.tile(y, 50), np.tile(groups, (50, 1)))
    rows = held_out_rows(400, 0.25, 3)
    after = held.predict(np.tile(p, 50)[rows], np.tile(groups, (50, 1))[rows])
    assert held.history_["validation_error"][-1] == pytest.approx(
        np.mean((after - np.tile(y, 50)[rows]) ** 2)
    )


def test_a_grid_is_refused():
    with pytest.raises(ValueError, match="n_levels must be None for the patch 'unrounded', got 10"):
        GroupRecalibrator.as_in_paper(patch="unrounded", n_levels=10).fit([0.5], [1], [[1]])
    with pytest.raises(ValueError, match="n_levels must be None for the patch 'unrounded shift', got 10"):
        GroupRecalibrator.as_in_paper(patch="unrounded shift", n_levels=10).fit([0.5], [1], [[1]])
    with pytest.raises(ValueError, match="patch must be"):
        GroupRecalibrator.as_in_paper(patch="exact").fit([0.5], [1], [[1]])
