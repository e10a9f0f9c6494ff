"""The mathematics behind boosting: two lemmas, and when multicalibrated means Bayes-optimal."""

from itertools import product

import numpy as np
import pytest

from onlinecal.measures import functional_multicalibration_error


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
