"""The multiclass bracket holds the truth, and its witness is calibrated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onlinecal import calibration_distance
from onlinecal.measures import multiclass_calibration_distance


def partitions(items):
    """Every way to cut a list into groups."""
    if not items:
        yield []
        return
    first, *rest = items
    for part in partitions(rest):
        yield [[first], *part]
        for i in range(len(part)):
            yield [*part[:i], [first, *part[i]], *part[i + 1 :]]


def distance_by_brute_force(p, y):
    """The least l1 movement over all groupings of the rounds."""
    k = p.shape[1]
    return min(
        sum(np.abs(p[g] - np.bincount(y[g], minlength=k) / len(g)).sum() for g in groups)
        for groups in partitions(list(range(len(p))))
    )


@st.composite
def games(draw):
    """Short histories: forecasts in tenths, three or four classes."""
    k, rounds = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    cuts = draw(arrays(np.int64, (rounds, k - 1), elements=st.integers(0, 10)))
    cuts = np.sort(cuts, axis=1)
    edges = np.hstack([np.zeros((rounds, 1)), cuts, np.full((rounds, 1), 10)])
    return np.diff(edges, axis=1) / 10, draw(arrays(np.int64, rounds, elements=st.integers(0, k - 1)))


@given(games())
@settings(deadline=None)
def test_the_bracket_holds_the_truth(game):
    p, y = game
    found = multiclass_calibration_distance(p, y)
    truth = distance_by_brute_force(p, y)
    assert found.lower <= truth + 1e-9
    assert found.upper >= truth - 1e-9


@given(games())
@settings(deadline=None)
def test_the_witness_is_calibrated_and_as_far_as_stated(game):
    p, y = game
    found = multiclass_calibration_distance(p, y)
    assert np.abs(p - found.witness).sum() == pytest.approx(found.upper, abs=1e-12)
    for vector in np.unique(found.witness, axis=0):
        rounds = (found.witness == vector).all(axis=1)
        frequencies = np.bincount(y[rounds], minlength=p.shape[1]) / rounds.sum()
        assert np.allclose(frequencies, vector, atol=1e-12)


def test_two_classes_are_twice_the_binary_distance():
    rng = np.random.default_rng(3)
    p, y = rng.random(40).round(1), rng.integers(0, 2, 40)
    found = multiclass_calibration_distance(np.column_stack([1 - p, p]), y, budget=1.0)
    exact = calibration_distance(p, y, method="exact").exact
    assert found.lower == pytest.approx(2 * exact, rel=1e-9)
    assert found.upper == pytest.approx(2 * exact, rel=1e-9)


def test_a_look_ahead_and_the_average():
    rng = np.random.default_rng(4)
    ahead = rng.dirichlet(np.ones(3), 5)[rng.integers(0, 5, 3000)]
    y = (rng.random((3000, 1)) > np.cumsum(ahead, axis=1)[:, :2]).sum(axis=1)
    p = np.abs(ahead + rng.normal(0, 0.02, ahead.shape))
    p /= p.sum(axis=1, keepdims=True)
    plain = multiclass_calibration_distance(p, y, normalize=True)
    guided = multiclass_calibration_distance(p, y, normalize=True, look_ahead=ahead)
    assert guided.upper < 0.1 < plain.upper * 3
    assert guided.lower == plain.lower
    assert multiclass_calibration_distance(p, y, look_ahead=ahead).upper == pytest.approx(guided.upper * 3000)


@pytest.mark.parametrize(
    ("p", "y", "match"),
    [
        ([[0.5, 0.6]], [0], "sum to 1 in every row, got 1.1 at row 0"),
        ([[0.5, 0.5]], [2], r"labels must be class numbers 0\.\.1, got 2 at row 0"),
        ([[0.5, 0.5]], [0, 1], "same length, got 1 and 2"),
        ([0.5, 0.5], [0, 1], "two-dimensional"),
        ([[1.5, -0.5]], [0], r"lie in \[0, 1\], got 1.5 at row 0, class 0"),
        ([[np.nan, 0.5]], [0], r"lie in \[0, 1\], got nan at row 0, class 0"),
    ],
)
def test_bad_input_is_named(p, y, match):
    with pytest.raises(ValueError, match=match):
        multiclass_calibration_distance(p, y)
