"""The baselines that every claim is tried on, played in the interpreter, and the tree of all their games."""

import numpy as np

from onlinecal.forecasters import baselines
from onlinecal.forecasters.baselines.mixing import LISTS, POINTS, SUPPORT_SIZE
from onlinecal.forecasters.binary.cells import NO_HINT

RANDOMISED = (
    baselines.FosterForecaster,
    baselines.FosterHartForecaster,
    baselines.FosterVohraForecaster,
    baselines.LinearOptimisationForecaster,
    baselines.MinimaxForecaster,
)
DETERMINISTIC = (baselines.ConstantForecaster, baselines.RunningMean, baselines.DriftCorrectedHalf)
BASELINES = (*DETERMINISTIC, *RANDOMISED, baselines.PowerOfTwoChoices)


def parameters(kind, cells=None):
    """Arguments for a forecaster of this kind, on so many cells if it has a grid."""
    if kind in DETERMINISTIC:
        return {}
    return {"horizon": 200} if kind is baselines.UCalibratedForecaster else {"horizon": 200, "n_cells": cells}


def in_the_interpreter(forecaster, outcomes):
    """Forecasts, charged values and memory when the interpreter plays on a list; uses up the draws."""
    rules, memory = forecaster._rules, forecaster.memory.tolist()
    draws = forecaster._draws(len(outcomes)).tolist() or [0.0] * len(outcomes)
    forecasts, charged = [], []
    for y, u in zip(outcomes, draws, strict=True):
        a, b, forecast, _ = rules.announce(memory, NO_HINT, u)
        forecasts.append(forecast)
        charged.append(rules.point(memory, a, b, int(y), forecast))
        rules.settle(memory, a, b, int(y), forecast)
    return forecasts, charged, memory


def book(memory):
    """The values, how often each was forecast, and how often a 1 came then."""
    n = int(memory[POINTS])
    return np.array(memory[LISTS : LISTS + 3 * n]).reshape(3, n)


def mixture(memory):
    """The pairs (place, probability) of the coming round."""
    n, support = int(memory[POINTS]), int(memory[SUPPORT_SIZE])
    places = [int(place) for place in memory[LISTS + 3 * n : LISTS + 3 * n + support]]
    weights = [1.0] if support == 1 else memory[LISTS + 4 * n : LISTS + 4 * n + support]
    return list(zip(places, weights, strict=True))


def mixed(forecaster, memory):
    """That memory once the mixture of its coming round is known."""
    forecaster._rules.announce(memory, NO_HINT, 0.5)
    return memory


def settled(forecaster, memory, place, outcome):
    """A copy of the memory after a round that was forecast at that place, and the next mixture."""
    after = list(memory)
    values = book(memory)[0]
    forecaster._rules.settle(after, place, 0, outcome, values[place])
    return mixed(forecaster, after)


def errors(memory):
    """Sum of (y - value) at each value."""
    values, counts, ones = book(memory)
    return ones - values * counts


def leans(memory):
    """What of each error half a cell a round does not excuse, with its sign."""
    values, counts, _ = book(memory)
    off = errors(memory)
    return np.sign(off) * np.maximum(np.abs(off) - counts / (2 * (len(values) - 1)), 0.0)


def ece(memory):
    return float(np.abs(errors(memory)).sum())
