"""A duel of several classes: one forecaster against one adversary, in one compiled loop per pair of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from adversaries import MulticlassAdversary
from onlinecal.arrays import Floats
from onlinecal.compiling import compiled
from onlinecal.forecasters.rules import check_expected
from onlinecal.forecasters.simplex.machine.rules import MulticlassRules
from onlinecal.forecasters.simplex.replaying import replayed
from onlinecal.forecasters.simplex.run import SimplexRun
from onlinecal.validation import check_probability_rows
from simulations.games.duel import ROUNDS_AT_A_TIME, check_rounds, log_spaced


class MulticlassForecaster(Protocol):
    """A forecaster of k classes as the duel sees it: a `SimplexRun` is one."""

    rules: MulticlassRules

    @property
    def memory(self) -> NDArray[Any]:
        """Its state, changed in place by the rules."""

    @property
    def certificate(self) -> float:
        """What it can prove of its distance to calibration so far, a sum; NaN if nothing."""

    def grow(self) -> None:
        """Make room for at least one more round."""

    def promise(self, rounds: int) -> SupportsFloat:
        """What the certificate cannot exceed after so many rounds; NaN if nothing is promised."""


@dataclass(frozen=True, eq=False)
class MulticlassDuel:
    """What happened in a duel of T rounds with k classes.

    Attributes
    ----------
    forecasts, charged
        What was announced and the point that the round was charged to, shape (T, k); for a forecaster
        without look-ahead they are the same.
    outcomes
        Class numbers, shape (T,).
    checkpoints
        Rounds after which the certificate was read, ascending, the last is T; shape (C,).
    certificates, guarantees
        The certificate and the a-priori bound after so many rounds, sums, shape (C,); NaN if there is none.
    """

    forecasts: Floats
    outcomes: NDArray[np.int64]
    charged: Floats
    checkpoints: NDArray[np.int64]
    certificates: Floats
    guarantees: Floats


def play_multiclass(
    forecaster: MulticlassForecaster,
    adversary: MulticlassAdversary,
    rounds: int,
    hints: Floats | None = None,
    n_checkpoints: int = 200,
    progress: Callable[[int], None] | None = None,
) -> MulticlassDuel:
    """Let a fresh forecaster play so many rounds against an adversary.

    Parameters
    ----------
    forecaster
        For as many classes as the adversary has; it is changed, and its window, if it has one, holds the
        last rounds.
    adversary
        Its phases are played from round 0; the object itself is left as it is.
    rounds
        T, at least 1.
    hints
        Class probabilities for each round, shape (T, k), or None.
    n_checkpoints
        About how many rounds, evenly spread on a logarithmic axis, get their certificate recorded.
    progress
        Called with the number of rounds played since the last call.

    Raises
    ------
    ValueError
        If the adversary has fewer outcomes than that, or the hints are not T rows of k probabilities.
    """
    check_rounds(rounds, adversary)
    k = adversary.n_classes
    guide = np.empty((0, k)) if hints is None else check_probability_rows(hints, "hints")
    if hints is not None and guide.shape != (rounds, k):
        raise ValueError(f"hints must have the shape {(rounds, k)}, got {guide.shape}")
    if hints is not None:
        check_expected(getattr(forecaster, "hints", True), "hints")
    windowed = None
    if isinstance(forecaster, SimplexRun) and forecaster.window is not None:
        windowed, forecaster = forecaster, forecaster.without_window()
    rng = adversary.generator()
    checkpoints = log_spaced(rounds, max(n_checkpoints, 2))
    forecasts, charged = np.empty((rounds, k)), np.empty((rounds, k))
    outcomes, certificates = np.empty(rounds, np.int64), np.empty(len(checkpoints))
    done = place = 0
    for phase in adversary.phases:
        begin = done
        end = rounds if phase.rounds is None else min(rounds, begin + phase.rounds)
        loop = multiclass_loop(forecaster.rules, phase.step, phase.power == "internal")
        while done < end:
            first, stop = done, min(end, done + ROUNDS_AT_A_TIME)
            draws = rng.random(stop - first)
            while done < stop:
                until = min(stop, int(checkpoints[place]))
                shared = phase.state, begin, draws, first, guide, forecasts, outcomes, charged
                done = loop(forecaster.memory, *shared, done, until)
                if done < until:
                    forecaster.grow()
                elif done == checkpoints[place]:
                    certificates[place] = forecaster.certificate
                    place += 1
            if progress is not None:
                progress(stop - first)
    if windowed is not None:
        # the loop keeps no windows: a replay of the same rounds does
        replayed(windowed, outcomes, {}, guide, charged=False)
    guarantees = np.array([float(forecaster.promise(int(t))) for t in checkpoints])
    return MulticlassDuel(forecasts, outcomes, charged, checkpoints, certificates, guarantees)


@cache
def multiclass_loop(rules: MulticlassRules, step: Callable[..., int], told: bool) -> Callable[..., int]:
    """The loop for a forecaster's rules and an adversary's step: compiled once, then kept on disk.

    It plays rounds `start`, `start` + 1, ..., `stop` - 1 (draws[0] belongs to round `first`) and returns the
    round it reached: less than `stop` if the forecaster's memory has no room. Only if it is `told`, the
    adversary learns by how much each outcome would raise the certificate.
    """
    has_room, announce, certificate_rises, point, settle = rules

    @compiled
    def loop(
        memory: NDArray[Any],
        state: Floats,
        begin: int,
        draws: Floats,
        first: int,
        hints: Floats,
        forecasts: Floats,
        outcomes: NDArray[np.int64],
        charged: Floats,
        start: int,
        stop: int,
    ) -> int:
        hinted, rises, no_hint = len(hints) > 0, np.zeros(forecasts.shape[1]), np.empty(0)
        for t in range(start, stop):
            if not has_room(memory):
                return t
            forecast = forecasts[t]
            frame = announce(memory, hints[t] if hinted else no_hint, forecast)
            if told:
                certificate_rises(memory, frame, forecast, rises)
            outcome = step(state, t - begin, forecast, rises, draws[t - first])
            outcomes[t] = outcome
            point(memory, frame, forecast, outcome, charged[t])
            settle(memory, frame, forecast, outcome)
        return stop

    return loop
