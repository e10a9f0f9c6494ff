"""Compiled entry points of a grid machine: one event, or a whole stream, in one call.

numba's disk cache only watches the file in which a loop is written, not the files of the rules that the
loop calls. Each loop here therefore captures a stamp of those sources: change a rule and the loop is
compiled anew.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onlinecal.forecasters import dyadic, uniform
from onlinecal.forecasters.cells import LOWER, NO_HINT, SCALE, STEP, report

FULL = -1.0
"""What an entry point answers when the table has no room; nothing was changed then."""


class Machine(NamedTuple):
    """The rules of a grid machine (see `cells`) and the entry points compiled from them.

    advance(memory, outcome) -> next forecast: charge the current cell. FULL if there is no room.
    issue(memory, hint) -> (lower, step, forecast): the cell to report.
    settle(memory, lower, step, outcome, forecast) -> next forecast: charge that cell, or FULL.
    replay(memory, outcomes, hints, forecasts, charged, start) -> rounds done: fills forecasts (and the
    charged points, unless that array is empty) from `start` until the end or until there is no room.
    """

    rules: ModuleType
    advance: Callable[..., float]
    issue: Callable[..., tuple[int, int, float]]
    settle: Callable[..., float]
    replay: Callable[..., int]


def source_stamp(*modules: ModuleType) -> int:
    """A number that changes when the sources change: all files of a package, the one of a plain module."""
    stamp = 0
    for module in modules:
        if not getattr(module, "__file__", None):
            continue
        path = Path(str(module.__file__))
        files = sorted(path.parent.glob("*.py")) if hasattr(module, "__path__") else [path]
        for file in files:
            stamp = zlib.crc32(file.read_bytes(), stamp)
    return stamp


def compile_machine(rules: ModuleType) -> Machine:
    """The entry points of a machine; each is compiled, or loaded from the cache, at its first call."""
    stamp = source_stamp(sys.modules[__package__])
    propose, charge, has_room = rules.propose, rules.charge, rules.has_room

    @njit(cache=True)
    def advance(memory: NDArray[np.int64], outcome: int) -> float:
        if stamp < 0 or not has_room(memory):
            return FULL
        lower, step = memory[LOWER], memory[STEP]
        charge(memory, lower, step, outcome, report(memory, lower, step, NO_HINT))
        return report(memory, memory[LOWER], memory[STEP], NO_HINT)

    @njit(cache=True)
    def issue(memory: NDArray[np.int64], hint: float) -> tuple[int, int, float]:
        if stamp < 0:
            return 0, 0, 0.0
        lower, step = propose(memory, hint)
        return lower, step, report(memory, lower, step, hint)

    @njit(cache=True)
    def settle(memory: NDArray[np.int64], lower: int, step: int, outcome: int, forecast: float) -> float:
        if stamp < 0 or not has_room(memory):
            return FULL
        charge(memory, lower, step, outcome, forecast)
        return report(memory, memory[LOWER], memory[STEP], NO_HINT)

    @njit(cache=True)
    def replay(
        memory: NDArray[np.int64],
        outcomes: NDArray[np.uint8],
        hints: NDArray[np.float64],
        forecasts: NDArray[np.float64],
        charged: NDArray[np.float64],
        start: int,
    ) -> int:
        hinted, traced = len(hints) > 0, len(charged) > 0
        scale = memory[SCALE]
        for t in range(start, len(outcomes)):
            if stamp < 0 or not has_room(memory):
                return t
            hint = hints[t] if hinted else NO_HINT
            lower, step = propose(memory, hint)
            forecast = report(memory, lower, step, hint)
            forecasts[t] = forecast
            if traced:
                charged[t] = (lower + step * outcomes[t]) / scale
            charge(memory, lower, step, np.int64(outcomes[t]), forecast)
        return len(outcomes)

    return Machine(rules, advance, issue, settle, replay)


MACHINES = {
    uniform.FORMAT_UNIFORM: compile_machine(uniform),
    dyadic.FORMAT_DYADIC: compile_machine(dyadic),
}
"""The machine that a memory belongs to, by the FORMAT in its header."""
