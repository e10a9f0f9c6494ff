from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from onlinecal.measures import calibration_distance


def distance_by_integer_program(p, y):
    """Each round picks one value; for every value the labels of its rounds average to it."""
    n_rounds = len(p)
    values = sorted({Fraction(s, n) for n in range(1, n_rounds + 1) for s in range(n + 1)})
    n_values = len(values)
    cost = np.abs(np.subtract.outer(p, [float(v) for v in values])).ravel()
    one_value = np.kron(np.eye(n_rounds), np.ones(n_values))
    balance = np.zeros((n_values, n_rounds * n_values))
    for k, v in enumerate(values):
        for t in range(n_rounds):
            balance[k, t * n_values + k] = v.denominator * int(y[t]) - v.numerator
    answer = milp(
        cost,
        constraints=[LinearConstraint(one_value, 1, 1), LinearConstraint(balance, 0, 0)],
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    assert answer.success
    return answer.fun


@pytest.mark.parametrize(
    ("n_rounds", "grid", "seed"), [(10, 4, 0), (12, 1000, 1), (12, 5, 2), (14, 8, 3), (14, 1000, 4)]
)
def test_exact_equals_an_integer_program(n_rounds, grid, seed):
    rng = np.random.default_rng(seed)
    p, y = rng.integers(0, grid + 1, n_rounds) / grid, rng.integers(0, 2, n_rounds)
    assert calibration_distance(p, y, "exact").exact == pytest.approx(
        distance_by_integer_program(p, y), abs=1e-6
    )
