"""What the nearest valid cell cannot promise, and what other cells can: docs/theory.md, section 6."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.adversaries import misleading_hints
from onlinecal.forecasters.binary.cells import HIGH, LOW, REPORTS
from onlinecal.forecasters.binary.uniform import FREED


def brier(forecasts, outcomes):
    return float(np.sum((forecasts - outcomes) ** 2))


def regret_of(forecaster, stream):
    """How far the forecaster's Brier score is above that of the hints it is given, a sum."""
    forecasts = forecaster.replay(stream.outcomes, stream.hints)
    return brier(forecasts, stream.outcomes) - brier(stream.hints, stream.outcomes)


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("slack", [0.5, 0.7, 1.0, 8.0])
@pytest.mark.parametrize("m", [3, 10, 51])
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


def test_the_stream_is_the_one_of_the_page_at_any_length():
    hints = misleading_hints(5000, 100, 1.0).hints
    prelude = list(itertools.takewhile(lambda hint: hint < 1.0, hints))
    assert len(prelude) == sum(100 // k for k in range(50, 100)) <= 100
    assert set(hints[len(prelude) :]) == {1.0, 0.5025}
    assert [len(misleading_hints(rounds, 4).hints) for rounds in range(1, 12)] == [*range(1, 12)]
    for bad, message in (((0, 4), "rounds"), ((10, 2), "n_cells"), ((10, 4, 0.4), "slack")):
        with pytest.raises(ValueError, match=f"{message} must be"):
            misleading_hints(*bad)
