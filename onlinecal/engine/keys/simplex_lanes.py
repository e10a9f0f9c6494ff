"""Lanes of kind "simplex", which forecast by `SimplexRun`."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

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
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.almost_one_step_ahead import Grid, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.input import MOST_CLASSES, MOST_PARTS, outcome_of, soft_of
from onlinecal.forecasters.simplex.machine.cells import Cell, check_cell
from onlinecal.forecasters.simplex.machine.memory import USED
from onlinecal.forecasters.simplex.machine.windows import certificate_of_last, most_of_window
from onlinecal.forecasters.simplex.run import SimplexRun

NO_HINT = np.empty(0)
NO_MOMENTS = np.empty(0, np.int64)
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


class SimplexKind(ClassLabels):
    """Makes and checks lanes of kind "simplex"; with `shared`, a key may have several."""

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
        grid: Grid = "adaptive" if tuned else "nested"
        self.model = SimplexAlmostOneStepAhead(labels=classes, hints=hints, grid=grid, **parameters)

    def hint_of(self, hint: Any) -> dict[str, float] | None:
        """A hint, checked: probabilities by class; ValueError if it is none, or the key takes no hints."""
        if hint is not None:
            check_hints_allowed(self.model.hints)
        return super().hint_of(hint)

    def new(self) -> SimplexLane:
        """A lane before its first round."""
        return self._lane(self.model.new_run(), NO_MOMENTS)

    def _lane(self, run: SimplexRun, moments: NDArray[np.int64]) -> SimplexLane:
        shares = self.shared and run.window is not None
        return SimplexLane(run, deque(moments.tolist(), run.window) if shares else None, self.most)

    def load(self, data: bytes) -> SimplexLane:
        """The lane that was dumped; ValueError if it makes no sense."""
        state = msgspec.msgpack.decode(data, type=SimplexState)
        run = self.model.new_run()
        if run.fixed and list(run.numbers) != state.labels:
            raise ValueError(f"its classes are {state.labels!r}, not those of its configuration")
        run.numbers = self.numbered(state.labels)
        run.memory = inflated(state.memory, MOST_NUMBERS, np.int64)
        if not state.past.replace("/", "", 1).isdecimal():
            raise ValueError(f"its distance must be a fraction, got {state.past[:40]!r}")
        require(type(state.parts) is int and 1 <= state.parts <= MOST_PARTS, "its parts")
        run.late, run.parts = state.late, state.parts
        if run.window is not None:
            run.table = inflated(state.window, most_of_window(run.memory, run.window), np.int64)
        run.past, run.since = Fraction(state.past), state.since
        run.newcomers, run.grids = state.newcomers, state.grids
        run.check()
        most = min(run.rounds, run.window or 0)
        return self._lane(run, inflated(state.moments, most, np.int64) if state.moments else NO_MOMENTS)


class SimplexLane(Lane):
    """A lane that forecasts by a `SimplexRun`; a forecast's cell is what `announce` returned.

    Attributes
    ----------
    simplex_run
        The run.
    moments
        The moments of its last rounds, if it shares its key's window with other lanes; else None.
    """

    __slots__ = ("moments", "simplex_run")

    def __init__(self, run: SimplexRun, moments: deque[int] | None, most: int) -> None:
        super().__init__(run.numbers, most)
        self.simplex_run, self.moments = run, moments

    @property
    def most_open(self) -> int:
        """How many forecasts may be open."""
        return self.simplex_run.most_open

    @property
    def size(self) -> int:
        """An upper estimate of the bytes that it takes of a state: frames, points and window."""
        memory, k = self.simplex_run.memory, len(self.labels)
        points = int(memory[USED]) if len(memory) else 0
        return 512 + 3 * k * k + (32 + 6 * k) * points + 4 * len(self.simplex_run.table)

    @property
    def rounds_left(self) -> int:
        """How many more rounds its integers bear, whatever the outcomes."""
        return self.simplex_run.rounds_left

    @property
    def rounds(self) -> int:
        """How many rounds were settled."""
        return self.simplex_run.rounds

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of the settled rounds in l1, a sum."""
        return self.simplex_run.certificate

    def promise(self, late: int) -> float:
        """What the certificate cannot exceed, at the horizon if it has not passed, else at present."""
        return self.simplex_run.guarantee

    def window_certificate(self, now: int) -> float:
        """A bound on the distance of its rounds in the window that ends with the key's round `now`."""
        run, moments = self.simplex_run, self.moments
        if run.window is None or moments is None:
            return run.window_certificate or 0.0
        while moments and moments[0] <= now - run.window:
            moments.popleft()
        return certificate_of_last(run.memory, run.table, len(moments))

    def window_promise(self, rounds: int) -> float:
        """What the distance of any so many of its consecutive rounds cannot exceed.

        With 0 rounds it is the part of the bound that does not depend on their number.
        """
        return float(self.simplex_run.window_promise(rounds))

    def dump(self) -> bytes:
        """The state in bytes: the memory and the run's account."""
        run = self.simplex_run
        account = str(run.past), run.since, run.newcomers, run.grids, run.late
        window = deflated(run.table) if len(run.table) else b""
        moments = b"" if self.moments is None else deflated(np.array(self.moments, np.int64))
        state = SimplexState(list(run.numbers), deflated(run.memory), *account, window, run.parts, moments)
        return msgspec.msgpack.encode(state)

    def admits(self, outcome: ClassOutcome) -> None:
        """Make an outcome's classes known; ValueError if they, or its parts, are too many for the grid."""
        if self.depends_on_steps(outcome):
            run = self.simplex_run
            if not isinstance(outcome, str):
                run.parts_for(len(soft_of(outcome, run.numbers, run.fixed, "value").vector))
            run.check_bears_classes(len(self.labels.union(class_shares(outcome))))
        super().admits(outcome)

    def depends_on_steps(self, outcome: ClassOutcome) -> bool:
        """Whether the outcome is a soft label or has new classes: then the grid must not be too fine."""
        return not isinstance(outcome, str) or outcome not in self.labels

    def check_open(self, waiting: list[ClassForecast]) -> None:
        """ValueError unless each has a cell of the grid, or no cell since no class was known."""
        for forecast in waiting:
            forecasts = list(forecast.probability.values())
            if forecast.cell is not None:
                check_cell(forecast.cell, forecasts, self.simplex_run.memory)
            elif forecasts:
                raise ValueError("a forecast without a cell cannot be that of any run")

    def run(self, steps: list[LaneStep]) -> list[float]:
        """Take the steps one by one; returns the certificate after each."""
        run, certificates = self.simplex_run, []
        for forecast, outcome, hint, number in steps:
            if outcome is None:
                run.note_late(number)
                known = run.numbers
                guide = shared_out(hint, known) if hint is not None and known else NO_HINT
                cell, vector = run.announce(guide)
                forecast.cell = None if cell is None else cell.data
                forecast.probability = dict(zip(known, vector, strict=True))
            else:
                cell = None if forecast.cell is None else Cell(forecast.cell)
                announced = tuple(forecast.probability.values())
                run.observe(cell, announced, outcome_of(outcome, run.numbers, run.fixed, "value"))
                if self.moments is not None:
                    self.moments.append(number)
            certificates.append(self.certificate)
        return certificates
