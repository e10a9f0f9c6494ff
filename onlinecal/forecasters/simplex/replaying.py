"""Whole sequences through a run: round by round what events play, in compiled loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.forecasters.simplex.input import over_known
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine.compiled import MACHINE

if TYPE_CHECKING:
    from onlinecal.forecasters.simplex.run import SimplexRun


def replayed(
    run: SimplexRun, numbers: Ints, newcomers: dict[object, int], hints: Floats, charged: bool
) -> tuple[Floats, Floats]:
    """Play class numbers (T,) with hints (T, k) or none; `newcomers` has those that are met on the way.

    The forecasts (T, k), and the charged points if wanted (else empty).
    """
    memories.check_bears(run.memory, run.changing, len(numbers))
    rounds, k = len(numbers), len(run.numbers) + len(newcomers)
    forecasts, points = np.zeros((rounds, k)), np.zeros((rounds if charged else 0, k))
    if run.notes_parts:
        if charged:
            raise ValueError(
                "return_look_ahead=True: its window has had soft labels, and keeps no single points"
            )
        run.play_labels(numbers, hints, forecasts)
        return forecasts, points
    done = 0
    for label, number in newcomers.items():
        first = int(np.argmax(numbers == number))
        replay_until(run, first, done, numbers, hints, forecasts, points)
        now = run.current()
        forecasts[first, : len(now)] = now
        points[first : first + 1, number] = 1.0
        run.welcome(label)
        done = first + 1
    replay_until(run, rounds, done, numbers, hints, forecasts, points)
    return forecasts, points


def replayed_with_certificates(run: SimplexRun, numbers: Ints, hints: Floats) -> tuple[Floats, Floats]:
    """Play known classes (T,) with hints (T, k): the forecasts, and the certificate after each round."""
    memories.check_bears(run.memory, run.changing, len(numbers))
    forecasts, certificates, no_points = np.zeros(hints.shape), np.empty(len(numbers)), np.zeros((0, 0))
    for row in range(len(numbers)):
        replay_until(run, row + 1, row, numbers, hints, forecasts, no_points)
        certificates[row] = run.certificate
    return forecasts, certificates


def replay_until(
    run: SimplexRun, stop: int, done: int, numbers: Ints, hints: Floats, forecasts: Floats, points: Floats
) -> None:
    """Play the rounds done..stop-1, all of known classes; weight of hints on others is shared out."""
    k = len(run.numbers)
    guide = hints[:stop]
    if len(guide) and k and k < guide.shape[1]:
        guide = over_known(guide[:, :k])
    while done < stop:
        done = MACHINE.replay(run.memory, run.table, numbers[:stop], guide, forecasts, points, done)
        if done < stop:
            run.grow()
