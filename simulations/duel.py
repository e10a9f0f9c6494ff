"""A duel: one forecaster against one adversary, in one compiled loop per pair of rules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

import adversaries
from adversaries import Adversary, Step
from onlinecal import forecasters
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.cells import NO_HINT, SCALE, certificate, report
from onlinecal.forecasters.compiled import source_stamp
from onlinecal.validation import check_probabilities

ROUNDS_AT_A_TIME = 1 << 18
"""Rounds per call of a compiled loop: how often progress is shown and an interrupt is heard."""


@dataclass(frozen=True, eq=False)
class Duel:
    """What happened in a duel of T rounds.

    Attributes
    ----------
    forecasts, outcomes, charged
        Round by round, shape (T,): what was announced, what came, the look-ahead point charged.
    checkpoints
        Rounds of the duel after which the certificate was read, ascending, the last is T; shape (C,).
    certificates, guarantees
        The certificate and the a-priori bound after so many rounds, shape (C,), sums.
    """

    forecasts: NDArray[np.float64]
    outcomes: NDArray[np.uint8]
    charged: NDArray[np.float64]
    checkpoints: NDArray[np.int64]
    certificates: NDArray[np.float64]
    guarantees: NDArray[np.float64]


class Tape(NamedTuple):
    """The arrays a loop writes to, in the order in which it takes them."""

    forecasts: NDArray[np.float64]
    outcomes: NDArray[np.uint8]
    charged: NDArray[np.float64]
    checkpoints: NDArray[np.int64]
    certificates: NDArray[np.float64]


def play(
    forecaster: AlmostOneStepAhead,
    adversary: Adversary,
    rounds: int,
    hints: NDArray[np.float64] | None = None,
    n_checkpoints: int = 200,
    progress: Callable[[int], None] | None = None,
) -> Duel:
    """Let a fresh forecaster play so many rounds against an adversary.

    Parameters
    ----------
    forecaster
        Plays on from its present state, and is changed.
    adversary
        Its phases are played from round 0; the object itself is left as it is.
    rounds
        T, at least 1.
    hints
        A hint for each round, in [0, 1], shape (T,), or None.
    n_checkpoints
        About how many rounds, evenly spread on a logarithmic axis, get their certificate recorded.
    progress
        Called with the number of rounds played since the last call.

    Raises
    ------
    ValueError
        If the adversary has fewer outcomes than that, or the hints are not T probabilities.
    """
    available = adversary.rounds
    if rounds < 1 or (available is not None and available < rounds):
        most = "" if available is None else f" and at most the {available} that {adversary.name} has"
        raise ValueError(f"rounds must be at least 1{most}, got {rounds}")
    guide = np.empty(0) if hints is None else check_probabilities(hints, "hints")
    if hints is not None and len(guide) != rounds:
        raise ValueError(f"hints must be one for each of the {rounds} rounds, got {len(guide)}")
    rng = adversary.generator()
    played_before = forecaster.n_rounds
    checkpoints = log_spaced(rounds, n_checkpoints)
    tape = Tape(
        np.empty(rounds),
        np.empty(rounds, np.uint8),
        np.empty(rounds),
        checkpoints,
        np.empty(len(checkpoints)),
    )
    done = 0
    for phase in adversary.phases:
        begin = done
        end = rounds if phase.rounds is None else min(rounds, begin + phase.rounds)
        loop = duel_loop(forecaster.machine.rules, phase.step, phase.power == "internal")
        while done < end:
            stop = min(end, done + ROUNDS_AT_A_TIME)
            draws = rng.random(stop - done)
            first = done
            while done < stop:
                done = loop(forecaster.memory, phase.state, begin, draws, first, guide, *tape, done)
                if done < stop:
                    forecaster.grow()
            if progress is not None:
                progress(stop - first)
    forecaster.resume()
    return Duel(*tape, np.array([forecaster.promise(played_before + int(t)) for t in checkpoints]))


def log_spaced(rounds: int, number: int) -> NDArray[np.int64]:
    """About `number` distinct rounds from 1 to `rounds`, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, rounds, number).round().astype(np.int64))


@cache
def duel_loop(rules: ModuleType, step: Step, internal: bool) -> Callable[..., int]:
    """The loop for a grid machine and an adversary's step: compiled once, then kept on disk.

    It plays rounds `start`, `start` + 1, ... as far as there are draws (draws[0] belongs to round
    `first`) and returns the round it reached: less than that if the forecaster's memory has no room.
    """
    propose, charge, rises, has_room = rules.propose, rules.charge, rules.rises, rules.has_room
    stamp = source_stamp(forecasters, adversaries, sys.modules[step.__module__])

    @njit(cache=True)
    def loop(
        memory: NDArray[np.int64],
        state: NDArray[np.float64],
        begin: int,
        draws: NDArray[np.float64],
        first: int,
        hints: NDArray[np.float64],
        forecasts: NDArray[np.float64],
        outcomes: NDArray[np.uint8],
        charged: NDArray[np.float64],
        checkpoints: NDArray[np.int64],
        certificates: NDArray[np.float64],
        start: int,
    ) -> int:
        hinted = len(hints) > 0
        scale = memory[SCALE]
        place = np.searchsorted(checkpoints, start + 1)
        for t in range(start, first + len(draws)):
            if stamp < 0 or not has_room(memory):
                return t
            hint = hints[t] if hinted else NO_HINT
            lower, width = propose(memory, hint)
            forecast = report(memory, lower, width, hint)
            rise_zero, rise_one = 0.0, 0.0
            if internal:
                rise_zero, rise_one = rises(memory, lower, width, forecast)
            outcome = np.int64(step(state, t - begin, forecast, rise_zero, rise_one, draws[t - first]))
            forecasts[t] = forecast
            outcomes[t] = outcome
            charged[t] = (lower + width * outcome) / scale
            charge(memory, lower, width, outcome, forecast)
            if t + 1 == checkpoints[place]:
                certificates[place] = certificate(memory)
                place += 1
        return first + len(draws)

    return loop
