"""Value patches without a grid: the theorem of docs/recalibrate-groups.md, and the algorithm as written."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import GroupRecalibrator, multicalibration_error
from tests.properties import examples
from tests.recalibration.groups.reference import tables, value_patches, violation

ALPHAS = [0.5, 0.1, 0.03, 0.01, 0.001]


@settings(deadline=None, max_examples=examples(150))
@given(tables(), st.sampled_from(ALPHAS))
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
@given(tables(), st.sampled_from(ALPHAS))
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
    from onlinecal.recalibration.groups.start import held_out_rows

    held = held_out_rows(400, 0.3, 0)
    after = model.predict(p[held], members[held])
    assert kept[-1] == pytest.approx(np.mean((after - y[held]) ** 2), abs=1e-12)


def test_a_grid_is_refused():
    with pytest.raises(ValueError, match="n_levels must be None for the patch 'unrounded', got 10"):
        GroupRecalibrator.as_in_paper(patch="unrounded", n_levels=10).fit([0.5], [1], [[1]])
    with pytest.raises(ValueError, match="patch must be"):
        GroupRecalibrator.as_in_paper(patch="exact").fit([0.5], [1], [[1]])
