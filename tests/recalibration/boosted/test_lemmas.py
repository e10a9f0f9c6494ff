"""The mathematics behind boosting: two lemmas, and when multicalibrated means Bayes-optimal."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onlinecal.measures import functional_multicalibration_error
from tests.properties import examples

seeds = st.integers(0, 2**32 - 1)


def level_set(seed):
    """A level set with mean outcome v, and a test function on it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    y = rng.random(n) if rng.random() < 0.5 else rng.integers(0, 2, n).astype(float)
    return y, rng.normal(rng.normal(), rng.exponential(), n) + rng.normal() * y


@settings(max_examples=examples(500))
@given(seeds)
def test_lower_squared_error_on_a_level_set_is_a_violation(seed):
    y, h = level_set(seed)
    v = y.mean()
    gain = np.mean((v - y) ** 2 - (h - y) ** 2)
    assert np.mean(h * (y - v)) >= gain / 2 - 1e-12


@settings(max_examples=examples(500))
@given(seeds, st.floats(0, 1))
def test_without_calibration_the_bias_comes_in(seed, v):
    y, h = level_set(seed)
    gain = np.mean((v - y) ** 2 - (h - y) ** 2)
    assert np.mean(h * (y - v)) >= gain / 2 + v * (y.mean() - v) - 1e-12


def test_calibration_is_needed_for_the_first_lemma():
    y, h, v = np.array([0.0, 0.0]), np.array([0.0, 0.0]), 0.5
    assert np.mean((v - y) ** 2 - (h - y) ** 2) == 0.25
    assert np.mean(h * (y - v)) == 0.0


@settings(max_examples=examples(500))
@given(seeds, st.floats(0, 1))
def test_a_violation_gives_a_step_that_lowers_the_squared_error(seed, v):
    y, h = level_set(seed)
    square, alpha = np.mean(h**2), np.mean(h * (y - v))
    assume(square > 1e-9)
    better = v + alpha / square * h  # of either sign
    fall = np.mean((v - y) ** 2 - (better - y) ** 2)
    assert fall == pytest.approx(alpha**2 / square, abs=1e-9)


def partitions(items):
    """All set partitions of a list."""
    if not items:
        yield []
        return
    first, *rest = items
    for partition in partitions(rest):
        for k, block in enumerate(partition):
            yield [*partition[:k], [first, *block], *partition[k + 1 :]]
        yield [[first], *partition]


def domain(truth):
    """A finite domain with exact frequencies: 12 rows a point, of which 12 truth have outcome 1."""
    x = np.repeat(np.arange(len(truth)), 12)
    y = np.concatenate([np.arange(12) < round(12 * t) for t in truth]).astype(float)
    return x, y


def calibrated_predictors(truth):
    """Every calibrated predictor on the domain: the mean of the truth on each block of a partition."""
    for partition in partitions(list(range(len(truth)))):
        f = np.empty(len(truth))
        for block in partition:
            f[block] = np.mean(np.asarray(truth)[block])
        yield f


def violations(f, truth, functions):
    x, y = domain(truth)
    values = np.column_stack([np.asarray(h, float)[x] for h in functions])
    return functional_multicalibration_error(np.round(f, 12)[x], y, values)


def learns_weakly(truth, functions):
    """Whether on every set where the truth varies some affine image of a function beats constants."""
    truth = np.asarray(truth)
    for chosen in product([False, True], repeat=len(truth)):
        inside = np.array(chosen)
        if inside.any() and np.ptp(truth[inside]) > 0:
            part = truth[inside] - truth[inside].mean()
            if all(abs(np.dot(np.asarray(h)[inside], part)) < 1e-12 for h in functions):
                return False
    return True


TRUTHS = {
    "rising": [1 / 12, 2 / 12, 5 / 12, 8 / 12, 11 / 12],
    "steps": [2 / 12, 2 / 12, 6 / 12, 6 / 12, 9 / 12],
    "valley": [9 / 12, 4 / 12, 1 / 12, 4 / 12, 9 / 12],
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_multicalibrated_means_bayes_optimal_exactly_under_weak_learning(name, degree):
    truth = np.array(TRUTHS[name])
    functions = [np.arange(5.0) ** k for k in range(1, degree + 1)]
    others = [
        f
        for f in calibrated_predictors(truth)
        if np.abs(f - truth).max() > 1e-9 and violations(f, truth, functions).max() < 1e-12
    ]
    assert violations(truth, truth, functions).max() < 1e-12  # the Bayes predictor always is
    assert (not others) == learns_weakly(truth, functions)


def test_both_cases_occur():
    line = [np.arange(5.0)]
    assert learns_weakly(TRUTHS["rising"], line)
    assert learns_weakly(TRUTHS["steps"], line)
    assert not learns_weakly(TRUTHS["valley"], line)
