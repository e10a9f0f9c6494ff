"""A duel: one forecaster against one adversary, in one compiled loop per pair of rules.

Look-ahead on the certificate: how much the best continuation of a few rounds could make it rise.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adversaries import Adversary, MulticlassAdversary, Step
from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.instructions import borrowed
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import Playable, Rules, check_expected
from onlinecal.validation import check_choice, check_probabilities

MEDIAN = 0.5
"""The draw that is imagined where it cannot be known."""
SPARE = 64
"""Room beyond the memory for the points that imagined rounds may add."""


@cache
def foresight(rules: Rules) -> Callable[..., tuple[float, float]]:
    """foresee(memory, a, b, forecast, seen, depth) -> (rise_zero, rise_one), which can be compiled.

    The rises of the certificate over `depth` rounds, this one included, for each first outcome and the worst
    sequel to it. The rounds are played on copies of the memory: 2^depth sequences of them. Draws that are not
    seen, and those of the rounds ahead, are imagined to be the median.
    """
    announce, settle, certificate = rules.announce, rules.settle, rules.certificate
    certificate_rises = rules.certificate_rises

    @kernel_part
    def foresee(
        memory: NDArray[Any], a: int, b: int, forecast: float, seen: bool, depth: int
    ) -> tuple[float, float]:
        zero, one = certificate_rises(memory, a, b, forecast, seen)
        if not seen:
            a, b, forecast, _ = announce(memory, NO_HINT, MEDIAN)
        scratch = np.empty(len(memory) + SPARE, memory.dtype)
        for first in range(2):
            best, after = -np.inf, 0.0
            for sequel in range(1 << (depth - 1)):
                scratch[: len(memory)] = memory
                settle(scratch, a, b, first, forecast)
                after = certificate(scratch)
                for i in range(depth - 1):
                    c, d, p, _ = announce(scratch, NO_HINT, MEDIAN)
                    settle(scratch, c, d, (sequel >> i) & 1, p)
                best = max(best, certificate(scratch))
            if first == 0:
                zero += best - after
            else:
                one += best - after
        return zero, one

    return foresee


ROUNDS_AT_A_TIME = 1 << 18
"""Rounds per call of a compiled loop: how often progress is shown and an interrupt is heard."""


@dataclass(frozen=True, eq=False)
class Duel:
    """What happened in a duel of T rounds.

    Attributes
    ----------
    forecasts, outcomes, charged
        Round by round, shape (T,): what was announced, what came, and the value that the round was charged
        to, which for most forecasters is the forecast. With k classes forecasts and charged points have the
        shape (T, k), and outcomes are class numbers.
    checkpoints
        Rounds of the duel after which the certificate was read, ascending, the last is T; shape (C,).
    certificates, guarantees
        The certificate and the a-priori bound (NaN if there is none) after so many rounds, shape (C,), sums.
    """

    forecasts: NDArray[np.float64]
    outcomes: NDArray[Any]
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


DRAWS = ("hidden", "seen")


def play(
    forecaster: Playable,
    adversary: Adversary,
    rounds: int,
    hints: NDArray[np.float64] | None = None,
    n_checkpoints: int = 200,
    progress: Callable[[int], None] | None = None,
    draw: str = "hidden",
) -> Duel:
    """Let a forecaster play so many rounds against an adversary.

    Parameters
    ----------
    forecaster
        Plays on from its present state, and is changed; its window, if it has one, holds the last rounds.
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
    draw
        Whether the adversary sees what a randomised forecaster has drawn before it chooses the outcome
        ("seen"), or the mean forecast and expected rises ("hidden").

    Raises
    ------
    ValueError
        If the adversary has fewer outcomes than that, or the hints are not T probabilities.
    """
    check_choice(draw, DRAWS, "draw")
    check_rounds(rounds, adversary)
    guide = np.empty(0) if hints is None else check_probabilities(hints, "hints")
    if hints is not None and len(guide) != rounds:
        raise ValueError(f"hints must be one for each of the {rounds} rounds, got {len(guide)}")
    windowed = None
    if isinstance(forecaster, AlmostOneStepAhead) and forecaster.window is not None:
        windowed, forecaster = forecaster, deepcopy(forecaster)
    if hints is not None:
        check_expected(getattr(forecaster, "hints", True), "hints")
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
        depth = phase.depth if phase.power == "internal" else 0
        loop = duel_loop(forecaster.rules, phase.step, depth)
        while done < end:
            stop = min(end, done + ROUNDS_AT_A_TIME)
            theirs, ours = rng.random(stop - done), forecaster.draws(stop - done)
            first = done
            while done < stop:
                shared = phase.state, begin, theirs, ours, first, guide, draw == "seen"
                place = int(np.searchsorted(checkpoints, done + 1))
                done = loop(forecaster.memory, *shared, *tape, place, done)
                if done < stop:
                    forecaster.grow()
            if progress is not None:
                progress(stop - first)
    forecaster.resume()
    if windowed is not None:
        # the loop keeps no windows: a replay of the same rounds does
        windowed.replay(tape.outcomes, hints)
    return Duel(*tape, np.array([forecaster.promise(played_before + int(t)) for t in checkpoints]))


def check_rounds(rounds: int, adversary: Adversary | MulticlassAdversary) -> None:
    """Refuse a number of rounds below 1, or more of them than the adversary has."""
    available = adversary.rounds
    if rounds < 1 or (available is not None and available < rounds):
        most = "" if available is None else f" and at most the {available} that {adversary.name} has"
        raise ValueError(f"rounds must be at least 1{most}, got {rounds}")


def log_spaced(rounds: int, number: int) -> NDArray[np.int64]:
    """About `number` distinct rounds from 1 to `rounds`, evenly spread on a logarithmic axis."""
    return np.unique([*np.geomspace(1, rounds, number).round().astype(np.int64), rounds])


@cache
def duel_loop(rules: Rules, step: Step, depth: int) -> Callable[..., int]:
    """The loop for a forecaster's rules and an adversary's step: compiled once, then kept on disk.

    It plays rounds `start`, `start` + 1, ... as far as there are draws (theirs[0] and ours[0] belong to
    round `first`), writes certificates from `place` on, and returns the round it reached: less
    than all of them if the forecaster's memory has no room.
    With depth 0 the adversary is not told by how much the certificate would rise, with 1 it is, with more
    it is told the largest rise that so many rounds can bring.
    """
    has_room, announce, settle = rules.has_room, rules.announce, rules.settle
    point, certificate_rises, certificate = rules.point, rules.certificate_rises, rules.certificate
    foresee = foresight(rules)

    @compiled
    def loop(
        memory: NDArray[Any],
        state: NDArray[np.float64],
        begin: int,
        theirs: NDArray[np.float64],
        ours: NDArray[np.float64],
        first: int,
        hints: NDArray[np.float64],
        seen: bool,
        forecasts: NDArray[np.float64],
        outcomes: NDArray[np.uint8],
        charged: NDArray[np.float64],
        checkpoints: NDArray[np.int64],
        certificates: NDArray[np.float64],
        place: int,
        start: int,
    ) -> int:
        # around whatever the loop cannot see through, numba would count references: two atomic operations
        # a time
        memory, state, theirs, ours = borrowed(memory), borrowed(state), borrowed(theirs), borrowed(ours)
        hints, forecasts, charged = borrowed(hints), borrowed(forecasts), borrowed(charged)
        hinted, drawn = len(hints) > 0, len(ours) > 0
        told = seen or not drawn
        for t in range(start, first + len(theirs)):
            if not has_room(memory):
                return t
            u = ours[t - first] if drawn else 0.0
            a, b, forecast, shown = announce(memory, hints[t] if hinted else NO_HINT, u)
            if told:
                shown = forecast
            rise_zero, rise_one = 0.0, 0.0
            if depth == 1:
                rise_zero, rise_one = certificate_rises(memory, a, b, forecast, told)
            elif depth > 1:
                rise_zero, rise_one = foresee(memory, a, b, forecast, told, depth)
            outcome = np.int64(step(state, t - begin, shown, rise_zero, rise_one, theirs[t - first]))
            forecasts[t] = forecast
            outcomes[t] = outcome
            charged[t] = point(memory, a, b, outcome, forecast)
            settle(memory, a, b, outcome, forecast)
            if t + 1 == checkpoints[place]:
                certificates[place] = certificate(memory)
                place += 1
        return first + len(theirs)

    return loop
