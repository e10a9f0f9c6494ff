"""Lanes of several classes: the engine's face of `SimplexRun`."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from onlinecal.engine.keys.lanes import (
    ClassLabels,
    ClassOutcome,
    Issued,
    Lane,
    Step,
    check_wanted,
    parts_of,
    shared_out,
)
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.account import Cell
from onlinecal.forecasters.simplex.almost_one_step_ahead import Grid, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.input import MOST_CLASSES
from onlinecal.forecasters.simplex.machine.table import HEADER, USED
from onlinecal.forecasters.simplex.machine.windows import most_of_window
from onlinecal.forecasters.simplex.run import SimplexRun
from onlinecal.forecasters.simplex.soft import observe_soft
from onlinecal.forecasters.simplex.soft_labels import MOST_PARTS, soft_of
from onlinecal.forecasters.simplex.soundness import check_simplex_cell, length_of

NO_HINT = np.empty(0)
NO_MOMENTS = np.empty(0, np.int64)


class SimplexState(Struct, array_like=True):
    """What a run is made of besides its parameters.

    `past` is a fraction as text, since it may be long; `late` the number of forecasts that were late;
    `window` the window's table; `parts` what rounds are divided into; `moments` those of its rounds, where
    several lanes share a window.
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


class SimplexLanes(ClassLabels):
    """Forecasters of several classes that share their parameters; with `shared` several may be of one key."""

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
        """Probabilities by class; ValueError if they are none, or there are to be none."""
        if hint is not None:
            check_wanted(self.model.hints)
        return super().hint_of(hint)

    def new(self) -> SimplexLane:
        """A lane before its first round."""
        return self._lane(self.model.new_run(), NO_MOMENTS)

    def _lane(self, run: SimplexRun, moments: NDArray[np.int64]) -> SimplexLane:
        shares = self.shared and run.window is not None
        return SimplexLane(run, deque(moments.tolist(), run.window) if shares else None, self.most)

    def load(self, data: bytes) -> SimplexLane:
        """The lane that was dumped; ValueError if it cannot be played on."""
        state = msgspec.msgpack.decode(data, type=SimplexState)
        run = self.model.new_run()
        if run.fixed and list(run.numbers) != state.labels:
            raise ValueError(f"its classes are {state.labels!r}, not those of its configuration")
        run.numbers = self.numbered(state.labels)
        run.memory = unpacked(state.memory, len(run.numbers))
        if not state.past.replace("/", "", 1).isdecimal():
            raise ValueError(f"its distance must be a fraction, got {state.past[:40]!r}")
        require(type(state.parts) is int and 1 <= state.parts <= MOST_PARTS, "its parts")
        run.restore_late(state.late)
        run.parts = state.parts
        if run.window is not None:
            run.table = inflated(state.window, most_of_window(run.memory, run.window, run.parts))
        run.restore_account(Fraction(state.past), state.since, state.newcomers, state.grids)
        run.check()
        moments = inflated(state.moments, min(run.rounds, run.window or 0)) if state.moments else NO_MOMENTS
        return self._lane(run, moments)


def unpacked(data: bytes, classes: int) -> NDArray[np.int64]:
    """The memory that was compressed, and not more than its header and the number of classes allow for."""
    inflate, size = zlib.decompressobj(), 8 * HEADER
    head = inflate.decompress(data, size)
    if len(head) == size and classes:
        rest = 8 * length_of(np.frombuffer(head, "<i8").tolist(), classes) - size
        # one byte more, so that what is too long is not cut to fit
        head += inflate.decompress(inflate.unconsumed_tail, rest + 1)
    return np.frombuffer(head, "<i8").astype(np.int64)


def inflated(data: bytes, size: int) -> NDArray[np.int64]:
    """So many integers that were compressed, or fewer; ValueError if there are more."""
    inflate = zlib.decompressobj()
    found = inflate.decompress(data, 8 * size) if size else b""
    require(not inflate.unconsumed_tail and len(found) % 8 == 0, "its window")
    return np.frombuffer(found, "<i8").astype(np.int64)


class SimplexLane(Lane):
    """One run; a forecast's cell is what `SimplexRun.announce` answered.

    Attributes
    ----------
    run_state
        The run.
    moments
        Those of its last rounds, of a lane that shares its key's window with others; else None.
    """

    __slots__ = ("moments", "run_state")

    def __init__(self, run: SimplexRun, moments: deque[int] | None, most: int) -> None:
        super().__init__(run.numbers, most)
        self.run_state, self.moments = run, moments

    @property
    def most_open(self) -> int:
        """How many forecasts may be open."""
        return self.run_state.most_open

    @property
    def size(self) -> int:
        """About how many bytes it takes of a state, at most: frames, points, window."""
        memory, k = self.run_state.memory, len(self.labels)
        points = int(memory[USED]) if len(memory) else 0
        return 512 + 3 * k * k + (32 + 6 * k) * points + 4 * len(self.run_state.table)

    @property
    def rounds_left(self) -> int:
        """So many more rounds fit its integers, whatever they are."""
        return self.run_state.rounds_left

    @property
    def rounds(self) -> int:
        """How many rounds were settled."""
        return self.run_state.rounds

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of those rounds in l1, a sum."""
        return self.run_state.certificate

    def promise(self, late: int) -> float:
        """At the horizon if there is one and it has not passed, else at the present round."""
        return self.run_state.guarantee

    def window_certificate(self, now: int) -> float:
        """Of its rounds in the key's window of that moment; 0 if it keeps none."""
        run, moments = self.run_state, self.moments
        if run.window is None or moments is None:
            return run.window_certificate or 0.0
        while moments and moments[0] <= now - run.window:
            moments.popleft()
        return run.certificate_of_last(len(moments))

    def window_promise(self, late: int, rounds: int) -> float | None:
        """What the distance of any so many of its consecutive rounds cannot exceed.

        With 0 the part of it that does not depend on how many they are.
        """
        return float(self.run_state.window_promise(rounds))

    def dump(self) -> bytes:
        """The memory and the run's account."""
        run = self.run_state
        memory = zlib.compress(run.memory.astype("<i8").tobytes(), 1)
        past, since, newcomers, grids = run.account()
        window = zlib.compress(run.table.astype("<i8").tobytes(), 1) if len(run.table) else b""
        moments = b""
        if self.moments is not None:
            moments = zlib.compress(np.array(self.moments, "<i8").tobytes(), 1)
        account = str(past), since, newcomers, grids, run.late
        return msgspec.msgpack.encode(
            SimplexState(list(run.numbers), memory, *account, window, run.parts, moments)
        )

    def admits(self, outcome: ClassOutcome, late: int) -> None:
        """Know its classes; ValueError if these are too many, if its grid is too fine for them, or parts."""
        if self.looks_at_itself(outcome):
            run = self.run_state
            if not isinstance(outcome, str):
                run.parts_for(len(soft_of(outcome, run.numbers, run.fixed, "value").vector))
            run.check_bears_classes(len(self.labels.union(parts_of(outcome))))
        super().admits(outcome, late)

    def looks_at_itself(self, outcome: ClassOutcome) -> bool:
        """Soft labels and new classes ask for grids that are not too fine."""
        return not isinstance(outcome, str) or outcome not in self.labels

    def check_open(self, waiting: list[Issued]) -> None:
        """ValueError unless each cell is one of the grid, or there is none since no class was known."""
        for issued in waiting:
            forecasts = list(issued.probability.values())
            if issued.cell is not None:
                check_simplex_cell(issued.cell, forecasts, self.run_state.memory)
            elif forecasts:
                raise ValueError("a forecast without a cell cannot be that of any run")

    def run(self, steps: list[Step], moments: Iterator[int]) -> list[float]:
        """Take the steps one by one."""
        run, certificates = self.run_state, []
        for issued, outcome, hint, others in steps:
            if outcome is None:
                run.note_late(others)
                known = run.numbers
                guide = shared_out(hint, known) if hint is not None and known else NO_HINT
                cell, vector = run.announce(guide)
                issued.cell = None if cell is None else cell.data
                issued.probability = dict(zip(known, vector, strict=True))
            else:
                cell = None if issued.cell is None else Cell(issued.cell)
                told = tuple(issued.probability.values())
                if isinstance(outcome, str):
                    run.observe(cell, told, outcome)
                else:
                    observe_soft(run, cell, told, soft_of(outcome, run.numbers, run.fixed, "value"))
                if self.moments is not None:
                    self.moments.append(next(moments))
            certificates.append(self.certificate)
        return certificates
