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


def written_out(p, y, members):
    total = 0.0
    for v in set(p.tolist()):
        inside = (p == v) & members
        if inside.any():
            total += inside.mean() * (v - y[inside].mean()) ** 2
    return total


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
    assert multicalibration_error(p, y, members, n_levels) == pytest.approx(by_group, abs=1e-12)
    found = functional_multicalibration_error(p, y, functions, n_levels)
    assert found == pytest.approx(by_function, abs=1e-12)


@settings(deadline=None)
@given(histories)
def test_the_two_definitions_agree_on_zero_and_are_ordered(history):
    p, y, members = (np.array(part) for part in history)
    by_group = multicalibration_error(p, y, members)
    by_function = functional_multicalibration_error(p, y, members.astype(float))
    assert (by_function <= by_group + 1e-12).all()
    smallest = 1.0 / len(p)  # no P(g | f = v) that is not 0 is below it
    assert (by_group * smallest <= by_function + 1e-12).all()


@settings(deadline=None)
@given(histories)
def test_the_report_holds_the_same_errors_and_the_worst_level_set(history):
    p, y, members = (np.array(part) for part in history)
    report = multicalibration_report(p, y, members)
    assert [line.violation for line in report.lines] == pytest.approx(multicalibration_error(p, y, members))
    means = group_mean_error(p, y, members)
    for g, line in enumerate(report.lines):
        inside = members[:, g]
        assert line.count == inside.sum()
        if line.count == 0:
            assert line.worst is None
            assert np.isnan(means[g])
            continue
        assert line.forecast - line.outcome == pytest.approx(means[g], abs=1e-12)
        assert line.squared_error == pytest.approx(np.mean((p - y)[inside] ** 2))
        parts = {v: written_out(p[p == v], y[p == v], inside[p == v]) * np.mean(p == v) for v in set(p)}
        assert line.worst.violation == pytest.approx(max(parts.values()), abs=1e-12)
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


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.ones((2, 1)), "groups must have a row for each of the 3 forecasts, got 2"),
        (np.full((3, 1), 2), "groups must be boolean or 0/1, got .*2.* at row 0, group 0"),
        (np.array([[0], [1], [np.nan]]), "groups must be boolean or 0/1, got .*nan.* at row 2, group 0"),
        (np.array([[0], [1], [None]]), "groups must be boolean or 0/1, got None at row 2, group 0"),
        (np.empty((3, 0)), "groups must be a table"),
        ([[1], [1, 0], [1]], "ragged"),
        (np.array([["a"], ["b"], ["c"]]), "groups must be boolean or 0/1, got values like"),
    ],
)
def test_bad_groups_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        multicalibration_error([0.1, 0.2, 0.3], [0, 1, 0], groups)


def test_bad_functions_and_outcomes_are_named():
    with pytest.raises(ValueError, match=r"functions must be finite, got .*inf.* at row 1, column 0"):
        functional_multicalibration_error([0.5, 0.5], [0, 1], [0.0, np.inf])
    with pytest.raises(ValueError, match="functions must be a table"):
        functional_multicalibration_error([0.5, 0.5], [0, 1], [0.0])
    with pytest.raises(ValueError, match="outcomes must be 0/1"):
        multicalibration_error([0.5, 0.5], [0, 0.5], [[1], [1]])
    with pytest.raises(ValueError, match="n_levels must be a whole number"):
        multicalibration_error([0.5, 0.5], [0, 1], [[1], [1]], n_levels=0)
    with pytest.raises(ValueError, match="names must be one for each of the 1 groups, got 2"):
        multicalibration_report([0.5, 0.5], [0, 1], [[1], [1]], names=["a", "b"])
