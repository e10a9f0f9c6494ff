"""A tape: forecasts asked for and outcomes that settle them, mixed as they came, in one compiled call.

Where a replay settles every round before the next begins, a tape has the questions and the labels in any
order: a label may be late. Each step names a *slot* in which a question leaves its forecast and in which a
label finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onlinecal.forecasters.rules import Rules

OUTCOME, SLOT, A, B = range(4)
HINT, FORECAST, CERTIFICATE = range(3)
ASK = -1
"""In place of an outcome: the step asks for a forecast."""


def compile_tape(rules: Rules) -> Callable[..., int]:
    """play(memory, integers, numbers, start) -> steps done; all of them unless there is no room.

    integers
        int64 of shape (4, n). Rows OUTCOME (0, 1 or ASK) and SLOT go by step; A and B, what `settle` wants
        back of a turn, by slot.
    numbers
        float64 of shape (3, n). Rows HINT (below 0: none) and CERTIFICATE (filled in, after the step) go by
        step; FORECAST goes by slot.
    """
    stamp, has_room, turn = rules.stamp, rules.has_room, rules.turn
    settle, certificate = rules.settle, rules.certificate

    @njit(cache=True)
    def play(
        memory: NDArray[Any], integers: NDArray[np.int64], numbers: NDArray[np.float64], start: int
    ) -> int:
        for i in range(start, integers.shape[1]):
            slot, outcome = integers[SLOT, i], integers[OUTCOME, i]
            if outcome == ASK:
                a, b, forecast, _ = turn(memory, numbers[HINT, i], 0.0)
                integers[A, slot], integers[B, slot] = a, b
                numbers[FORECAST, slot] = forecast
            else:
                if stamp < 0 or not has_room(memory):
                    return i
                settle(memory, integers[A, slot], integers[B, slot], outcome, numbers[FORECAST, slot])
            numbers[CERTIFICATE, i] = certificate(memory)
        return integers.shape[1]

    return play
