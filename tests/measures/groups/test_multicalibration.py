"""Multicalibration errors against sums written out, and what relates them to each other."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import multicalibration_error
from onlinecal.measures import (
    functional_multicalibration_error,
    group_mean_error,
    multicalibration_report,
)

histories = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0]), min_size=n, max_size=n),
        st.lists(st.integers(0, 1), min_size=n, max_size=n),
        st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=n, max_size=n),
    )
)


@settings(deadline=None)
@given(histories, st.sampled_from([None, 2]))
def test_both_errors_are_their_definitions(history, n_levels):
    """Level set by level set: of groups, and of functions, those of the groups and a real one among them."""
    p, y, members = (np.array(part) for part in history)
    functions = np.column_stack([members, p - y**2 + 0.3])
    keys = p if n_levels is None else np.floor(p * n_levels + 0.5)
    sets = [keys == key for key in set(keys.tolist())]
    by_group = [
        sum(m.mean() * (p[m].mean() - y[m].mean()) ** 2 for m in (one & group for one in sets) if m.any())
        for group in members.T
    ]
    by_function = [
        sum(one.mean() * (h[one] * (y[one] - p[one].mean())).mean() ** 2 for one in sets) for h in functions.T
    ]
    found = multicalibration_error(p, y, members, n_bins=n_levels)
    assert found == pytest.approx(by_group, abs=1e-12)
    of_functions = functional_multicalibration_error(p, y, functions, n_bins=n_levels)
    assert of_functions == pytest.approx(by_function, abs=1e-12)
    if n_levels is None:
        # both are 0 together: no P(g | f = v) that is not 0 is below 1/n
        assert (of_functions[:3] <= found + 1e-12).all()
        assert (found / len(p) <= of_functions[:3] + 1e-12).all()


@settings(deadline=None)
@given(histories)
def test_the_report_holds_the_same_errors_and_the_worst_level_set(history):
    p, y, members = (np.array(part) for part in history)
    report = multicalibration_report(p, y, members)
    assert [line.violation for line in report.lines] == pytest.approx(multicalibration_error(p, y, members))
    means = group_mean_error(p, y, members)
    for inside, mean, line in zip(members.T, means, report.lines, strict=True):
        assert line.count == inside.sum()
        if line.count == 0:
            assert line.worst is None
            assert np.isnan(mean)
            continue
        assert line.forecast - line.outcome == pytest.approx(mean, abs=1e-12)
        assert line.squared_error == pytest.approx(np.mean((p - y)[inside] ** 2))
        cells = [inside & (p == v) for v in set(p[inside])]
        parts = [cell.sum() * (p[cell].mean() - y[cell].mean()) ** 2 / len(p) for cell in cells]
        assert line.worst.violation == pytest.approx(max(parts), abs=1e-12)
        cell = inside & np.isclose(p, line.worst.forecast)
        assert line.worst.count == cell.sum()
        assert line.worst.outcome == pytest.approx(y[cell].mean())


def test_chance_alone_is_what_the_noise_column_says():
    rng = np.random.default_rng(0)
    grid, members = np.linspace(0, 1, 21), np.ones((2000, 1), bool)
    found, expected = [], []
    for _ in range(200):
        p = rng.choice(grid, 2000)
        line = multicalibration_report(p, rng.random(2000) < p, members).lines[0]
        found.append(line.violation)
        expected.append(line.noise)
    assert np.mean(found) == pytest.approx(np.mean(expected), rel=0.1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_name_the_groups(frame):
    p, y = [0.5, 0.5, 0.2], [0, 1, 1]
    groups = frame({"young": [True, False, True], "old": [False, True, False]})
    assert multicalibration_error(p, y, groups).shape == (2,)
    report = multicalibration_report(p, y, groups)
    assert [row["name"] for row in report.rows()] == ["young", "old"]
    assert report.worst.name == "young"
    _, first, _ = str(report).splitlines()
    figures = " ".join(first.split())
    assert figures == "young 2 0.667 0.3500 0.5000 0.4450 0.296667 0.136667 0.200 -> 1.000 in 1"


def test_a_group_whose_rounds_weigh_nothing_is_as_one_without_rounds():
    p, y, weights = [0.1, 0.4, 0.4], [0, 1, 0], [2, 0, 1]
    groups = [[1, 0], [0, 1], [1, 0]]
    assert multicalibration_error(p, y, groups, sample_weight=weights)[1] == 0.0
    assert np.isnan(group_mean_error(p, y, groups, sample_weight=weights)[1])
    assert multicalibration_report(p, y, groups, sample_weight=weights).lines[1].worst is None
