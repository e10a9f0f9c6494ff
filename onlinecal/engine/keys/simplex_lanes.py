"""Lanes of kind "simplex", which forecast by `SimplexRun`.

A lane is a `SimplexRun`, and learns as any other run does: `run` takes the steps of a batch by `note_late`,
`announce` and `observe`. `lanes.py` says what a lane is, who calls it, and in which order.

Beside what every `Lane` has, `moments` is all that it adds to a run. `run` appends to it, and `take` fills
it. `window_certificate_at` drops the rounds that have left the window, so a question changes what `dump`
makes of a lane. `ClassKey` therefore asks for the bounds before each dump: equal histories give equal bytes,
whoever asked in between.

The fields of a `SimplexState`, in their order, are a saved format, with the numbers of the memory and of the
window in them.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.engine.keys.lanes import (
    ClassForecast,
    ClassLabels,
    ClassOutcome,
    Lane,
    LaneStep,
    check_hints_allowed,
    class_shares,
    deflated,
    inflated,
    shared_out,
)
from onlinecal.forecasters.simplex.almost_one_step_ahead import SimplexAlmostOneStepAhead, SimplexGrid
from onlinecal.forecasters.simplex.input import MOST_CLASSES, MOST_PARTS, outcome_of, soft_of
from onlinecal.forecasters.simplex.machine.cells import Cell, check_cell
from onlinecal.forecasters.simplex.machine.memory import RECORDS_USED
from onlinecal.forecasters.simplex.machine.windows import certificate_of_last, most_of_window
from onlinecal.forecasters.simplex.run import SimplexRun
from onlinecal.restoring import require

NO_HINT = np.empty(0)
"""In the place of a vector of hints."""
MOST_NUMBERS = 1 << 25
"""The most integers of a memory that a state can hold: more than its bytes allow."""


class SimplexState(Struct, array_like=True):
    """All that is stored of a lane; its parameters are in the configuration.

    `past` is a fraction as text, since it may be long. `late` is the number of forecasts that were late,
    `window` the window's table, `parts` the number of parts that rounds are divided into. `moments` are those
    of the lane's rounds, where several lanes share a window.
    """

    labels: list[str]
    memory: bytes
    past: str
    since: int
    newcomers: int
    grids: list[tuple[int, int]]
    late: int
    window: bytes
    parts: int
    moments: bytes


class SimplexLane(SimplexRun, Lane):
    """A run that is a lane, too; a forecast's cell is what `announce` returned.

    Attributes
    ----------
    moments
        If it shares its key's window with other lanes, the numbers that its last rounds have among the
        rounds of the key, the oldest first; else None.
    """

    def __init__(self, kind: SimplexKind) -> None:
        SimplexRun.__init__(self, kind.model._known, kind.model)
        Lane.__init__(self, self.numbers, kind)
        shares = kind.shared and self.window is not None
        self.moments: deque[int] | None = deque(maxlen=self.window) if shares else None

    @property
    def size(self) -> int:
        """An upper estimate of the bytes that it takes of a state: frames, points and window."""
        k, points = len(self.labels), int(self.memory[RECORDS_USED]) if len(self.memory) else 0
        return 512 + 3 * k * k + (32 + 6 * k) * points + 4 * len(self.table)

    def window_certificate_at(self, now: int) -> float:
        """A bound on the distance of its rounds in the window that ends with the key's round `now`, a sum.

        It forgets the moments that are before this window, so `now` must not decrease.
        """
        moments = self.moments
        if self.window is None or moments is None:
            return self.window_certificate or 0.0
        while moments and moments[0] <= now - self.window:
            moments.popleft()
        return certificate_of_last(self.memory, self.table, len(moments))

    def dump(self) -> bytes:
        """The state in bytes: the memory and the run's account."""
        account = str(self.past), self.since, self.newcomers, self.grids, self.late
        window = deflated(self.table) if len(self.table) else b""
        moments = b"" if self.moments is None else deflated(np.array(self.moments, np.int64))
        state = SimplexState(list(self.numbers), deflated(self.memory), *account, window, self.parts, moments)
        return msgspec.msgpack.encode(state)

    def take(self, data: bytes) -> None:
        """Take up what was dumped, in a new lane; ValueError if it makes no sense."""
        state = msgspec.msgpack.decode(data, type=SimplexState)
        if self.fixed and list(self.numbers) != state.labels:
            raise ValueError(
                f"it has the classes {state.labels!r}, and the key's configuration {list(self.numbers)!r}"
            )
        self.numbers = self.kind.numbered(state.labels)
        self.know(self.numbers)
        self.memory = inflated(state.memory, MOST_NUMBERS, np.int64)
        if not state.past.replace("/", "", 1).isdecimal():
            raise ValueError(f"its distance must be a fraction, got {state.past[:40]!r}")
        require(type(state.parts) is int and 1 <= state.parts <= MOST_PARTS, "its parts")
        self.late, self.parts = state.late, state.parts
        if self.window is not None:
            self.table = inflated(state.window, most_of_window(self.memory, self.window), np.int64)
        self.past, self.since = Fraction(state.past), state.since
        self.newcomers, self.grids = state.newcomers, state.grids
        self.check()
        if state.moments:
            moments = inflated(state.moments, min(self.rounds, self.window or 0), np.int64)
            if self.moments is not None:
                self.moments.extend(moments.tolist())

    def admits(self, outcome: ClassOutcome) -> None:
        """Make an outcome's classes known; ValueError if they, or its parts, are too many for the grid."""
        if self.depends_on_steps(outcome):
            if not isinstance(outcome, str):
                self.parts_for(len(soft_of(outcome, self.numbers, self.fixed, "value").vector))
            self.check_bears_classes(len(self.labels.union(class_shares(outcome))))
        super().admits(outcome)

    def depends_on_steps(self, outcome: ClassOutcome) -> bool:
        """Whether the outcome is a soft label or has new classes: then the grid must not be too fine."""
        return not isinstance(outcome, str) or outcome not in self.labels

    def check_open(self, waiting: list[ClassForecast]) -> None:
        """ValueError unless each has a cell of the grid, or no cell since no class was known."""
        for forecast in waiting:
            forecasts = list(forecast.probability.values())
            if forecast.cell is not None:
                check_cell(forecast.cell, forecasts, self.memory)
            elif forecasts:
                raise ValueError("an open forecast has no cell")

    def run(self, steps: list[LaneStep]) -> list[float]:
        """Take the steps one by one; returns the certificate after each."""
        known, certificates = self.numbers, []
        for forecast, outcome, hint, number in steps:
            if outcome is None:
                self.note_late(number)
                guide = shared_out(hint, known) if hint is not None and known else NO_HINT
                cell, vector = self.announce(guide)
                forecast.cell = None if cell is None else cell.data
                forecast.probability = dict(zip(known, vector, strict=True))
            else:
                cell = None if forecast.cell is None else Cell(forecast.cell)
                announced = tuple(forecast.probability.values())
                self.observe(cell, announced, outcome_of(outcome, known, self.fixed, "value"))
                if self.moments is not None:
                    self.moments.append(number)
            certificates.append(self.certificate)
        return certificates


class SimplexKind(ClassLabels):
    """Makes and checks lanes of kind "simplex"; with `shared`, a key may have several."""

    lane = SimplexLane

    def __init__(
        self,
        classes: tuple[str, ...] | None,
        shared: bool = False,
        hints: bool = True,
        most: int = MOST_CLASSES,
        **parameters: Any,
    ) -> None:
        super().__init__(classes, most)
        self.shared = shared
        tuned = hints and not {"report", "n_cells", "horizon", "window"}.intersection(parameters)
        grid: SimplexGrid = "adaptive" if tuned else "nested"
        self.model = SimplexAlmostOneStepAhead(labels=classes, hints=hints, grid=grid, **parameters)

    def hint_of(self, hint: Any) -> dict[str, float] | None:
        """A hint, checked: probabilities by class; ValueError if it is none, or the key takes no hints."""
        if hint is not None:
            check_hints_allowed(self.model.hints, hint)
        return super().hint_of(hint)
