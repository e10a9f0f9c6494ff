"""The running l_p error against the one of a whole history, and its bound when level sets are too many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinecal import lp_calibration_error
from onlinecal.measures.lp import level_sets
from onlinecal.measures.lp.level_sets import RunningLpError, levels_of
from onlinecal.recalibration.lp.online import level_set_of


def settled(table, labels, p, n_levels):
    error = RunningLpError(p)
    for row, label in zip(table, labels.tolist(), strict=True):
        error.add(level_set_of(row, n_levels), dict(enumerate(row.tolist())), label)
    return error


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 120), st.integers(2, 5), st.sampled_from([1.0, 2.0, 7.5, 100.0])
)
def test_it_is_the_error_of_the_history_and_never_below_it(seed, rounds, k, p):
    rng = np.random.default_rng(seed)
    table = rng.multinomial(20, rng.dirichlet(np.full(k, 0.5), rounds)) / 20
    labels, n_levels = rng.integers(0, k, rounds), int(rng.integers(1, 12))
    exact = rounds * lp_calibration_error(table, labels, p, n_levels)
    assert exact <= settled(table, labels, p, n_levels).value + 1e-13 <= exact + 1e-9 * rounds + 1e-12


def test_level_sets_beyond_the_room_are_bounded(monkeypatch):
    monkeypatch.setattr(level_sets, "MOST_LEVEL_SETS", 5)
    rng = np.random.default_rng(0)
    table, labels = rng.dirichlet([1.0, 1.0, 1.0], 300), rng.integers(0, 3, 300)
    error = settled(table, labels, 2.0, 4)
    assert len(error.biases) == 5
    exact = 300 * lp_calibration_error(table, labels, 2, 4)
    assert exact < error.value <= exact + 2.0 * error.rest + 1e-6


@pytest.mark.parametrize("p", [1.0, 2.0, 5.0])
def test_no_deterministic_forecaster_can_promise_less_than_a_share_of_all_rounds(p):
    # of two classes on an even number of levels the one comes that is promised at most a half
    rng, rounds, n_levels = np.random.default_rng(1), 500, 4
    first = rng.random(rounds)
    first[:50] = 0.5 - 5e-8
    table = np.column_stack([first, 1.0 - first])
    labels = (levels_of(table, n_levels)[:, 0] >= n_levels // 2).astype(int)
    least = (0.5 - 1e-7) * 2.0 ** (1.0 / p) * (2.0 * n_levels + 1.0) ** (1.0 / p - 1.0)
    assert lp_calibration_error(table, labels, p, n_levels) >= least
