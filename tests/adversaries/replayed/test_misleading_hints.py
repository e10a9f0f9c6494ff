"""What the nearest valid cell cannot promise, and what other cells can: docs/theory.md, section 6."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from adversaries import misleading_hints
from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import HIGH, LOW, REPORTS
from onlinecal.forecasters.binary.fixed import FREED


def brier(forecasts, outcomes):
    return float(np.sum((forecasts - outcomes) ** 2))


def regret_of(forecaster, stream):
    """How far the forecaster's Brier score is above that of the hints it is given, a sum."""
    forecasts = forecaster.replay(stream.outcomes, stream.hints)
    return brier(forecasts, stream.outcomes) - brier(stream.hints, stream.outcomes)


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("slack", [0.5, 0.7, 1.0, 2.0, 8.0, 50.0])
@pytest.mark.parametrize("m", [3, 10, 51, 100])
def test_the_nearest_cell_falls_behind_by_an_eighth_a_round(m, slack, report):
    rounds = 30_000
    forecaster = AlmostOneStepAhead(n_cells=m, slack=slack, report=report, hints=True)
    if slack < 1 - 1 / m:
        # the statement is of points that are never free
        forecaster.memory[FREED] = 0
        forecaster.memory[[HIGH, LOW]] = int(slack * m), m - int(slack * m)
    regret = regret_of(forecaster, misleading_hints(rounds, m, slack))
    assert regret >= rounds / 8 - rounds / m - slack * (m / 8 + 0.5) - 1 / 8


def test_with_free_points_with_the_grid_for_the_horizon_and_one_that_tunes_itself_it_falls_behind_too():
    follows = {"report": "hint", "hints": True}
    free = AlmostOneStepAhead(n_cells=100, **follows)
    assert regret_of(free, misleading_hints(30_000, 100, 0.5)) > 0.11 * 30_000
    for rounds in (10**4, 10**5):
        stream = misleading_hints(rounds, math.isqrt(rounds - 1) + 1)
        regret = regret_of(AlmostOneStepAhead(horizon=rounds, slack=1.0, **follows), stream)
        assert regret / rounds == pytest.approx(1 / 8, abs=0.002)
    assert regret_of(AlmostOneStepAhead(slack=1.0, **follows), misleading_hints(100_000, 317)) >= 5_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 4), "rounds must be a whole number of at least 1, got 0"),
        ((10, 2), "n_cells must be a whole number of at least 3, got 2"),
        ((10, 4, 0.4), "slack must be a number from 0.5 to 1000, got 0.4"),
    ],
)
def test_bad_requests(arguments, message):
    with pytest.raises(ValueError, match=message):
        misleading_hints(*arguments)


def bucketed(hints, outcomes, buckets, m):
    """Forecasts by one forecaster of slack 1/2 a bucket, and every cell with what it was charged for."""
    tables = [AlmostOneStepAhead(n_cells=m) for _ in range(buckets)]
    forecasts, charges = [], []
    for hint, y in zip(hints.tolist(), outcomes.tolist(), strict=True):
        token = (table := tables[min(int(hint * buckets), buckets - 1)]).forecast()
        forecasts.append(token.probability)
        charges.append((token.cell[0], y))
        table.observe(token, y)
    return np.array(forecasts), charges


@pytest.mark.parametrize("buckets", [1, 2, 5])
@pytest.mark.parametrize("kind", ["misleading", "random", "turns"])
def test_the_forecasters_of_buckets_choose_among_the_valid_cells_of_one_table(kind, buckets):
    """With slack B/2 there is a choice that falls behind by less: no statement holds for every choice."""
    rounds, m, rng = 4000, 40, np.random.default_rng(0)
    if kind == "misleading":
        stream = misleading_hints(rounds, m, buckets / 2)
        hints, outcomes = stream.hints, stream.outcomes
    else:
        hints = rng.random(rounds)
        outcomes = (rng.random(rounds) < hints).astype(int) if kind == "random" else np.arange(rounds) % 2
    forecasts, charges = bucketed(hints, outcomes, buckets, m)
    bias = np.zeros(m + 1, dtype=int)  # in units of 1/m, doubled where it meets the slack
    for cell, y in charges:
        assert 2 * (bias[cell] + cell) <= buckets * m
        assert 2 * (bias[cell + 1] + cell + 1 - m) >= -buckets * m
        bias[cell + y] += cell + y - m * y
    within = rounds / (2 * buckets) + rounds / m + buckets * (m - 1)
    assert brier(forecasts, outcomes) <= brier(hints, outcomes) + within


def test_the_stream_is_the_one_of_the_page_at_any_length():
    hints = misleading_hints(5000, 100, 1.0).hints
    prelude = list(itertools.takewhile(lambda hint: hint < 1.0, hints))
    assert len(prelude) == sum(100 // k for k in range(50, 100)) <= 100
    assert set(hints[len(prelude) :]) == {1.0, 0.5025}
    for rounds in range(1, 12):
        stream = misleading_hints(rounds, 4)
        assert len(stream) == len(stream.hints) == rounds
