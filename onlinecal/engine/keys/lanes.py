"""Lanes: single forecasters behind the engine, one for each forecast that a key has open, or for all of them.

A lane is run on *steps* in the order in which they happened: a question leaves its forecast in an `Issued`,
a label settles one. Both kinds of lanes are the compiled machines that the river classes play.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import NO_HINT, ROUNDS
from onlinecal.forecasters.binary.compiled import FULL, certain_rounds, enlarged
from onlinecal.forecasters.binary.soundness import check_cells, check_grid_memory
from onlinecal.validation import check_probability, share_of


class Issued(Struct, array_like=True, gc=False):
    """A forecast that was asked for. It refers to plain values only, so it is never part of a cycle.

    Attributes
    ----------
    id, time, hint
        As in the query; time is None where neither the query nor the key had one.
    number
        The number of the query among all events.
    lane
        Which of the key's lanes made it.
    probability, certificate
        The answer, as soon as the lane has run; certificate is that of the whole key.
    cell
        What the lane wants back to settle it.
    """

    id: str
    number: int
    time: float | None
    hint: Any
    lane: int
    probability: Any = None
    certificate: float = 0.0
    cell: Any = None


Step = tuple[Issued, Any]
"""A forecast and its outcome, or None in its place where the forecast is asked for."""


class Lane(Protocol):
    """One forecaster of a key."""

    @property
    def rounds(self) -> int:
        """How many rounds were settled."""

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of those rounds, a sum."""

    @property
    def most_open(self) -> int:
        """How many forecasts may be open, so that no bias leaves its integers."""

    @property
    def rounds_left(self) -> int:
        """So many more rounds fit its integers, whatever they are."""

    def admits(self, outcome: Any) -> bool:
        """Whether the outcome can be told apart from all others; if so, it will come in a step."""

    def run(self, steps: list[Step]) -> list[float]:
        """Take the steps; the certificate after each."""

    def promise(self, late: int) -> float:
        """What the certificate cannot exceed with so many other forecasts open at a time."""

    def dump(self) -> bytes:
        """The state, as the lanes of its kind load it."""

    def check_open(self, waiting: list[Issued]) -> None:
        """ValueError unless the forecasts that were loaded with the lane can be settled."""


class Lanes(Protocol):
    """A kind of lanes with its parameters: checks what the kind understands, makes and loads lanes."""

    def hint_of(self, hint: Any) -> Any:
        """The hint as it is kept; ValueError if it is none."""

    def outcome_of(self, value: Any) -> Any:
        """The outcome as it is kept; ValueError if it is none."""

    def new(self) -> Lane:
        """A lane before its first round."""

    def load(self, data: bytes) -> Lane:
        """The lane that was dumped; ValueError if it cannot be played on."""


class BinaryLanes:
    """Forecasters of outcomes 0 and 1 that share their parameters."""

    def __init__(self, edition: int, **parameters: Any) -> None:
        self.model = AlmostOneStepAhead(**parameters)
        if edition < 3:
            self.model.memory = self.model.machine.rules.as_first_edition(self.model.memory)

    def hint_of(self, hint: Any) -> float | None:
        """A probability, 0.0 without sign."""
        return None if hint is None else check_probability(hint, "hint") + 0.0

    def outcome_of(self, value: Any) -> float:
        """An int, 0 or 1, or a float between."""
        outcome = share_of(value, "value")
        return int(outcome) if outcome in (0, 1) else outcome

    def new(self) -> BinaryLane:
        """A lane before its first round."""
        return BinaryLane(self.model, self.model.memory.copy())

    def load(self, data: bytes) -> BinaryLane:
        """The lane that was dumped; ValueError if it cannot be played on."""
        memory = unpack(data)
        check_grid_memory(memory, self.model)
        return BinaryLane(self.model, memory)


class BinaryLane:
    """A grid machine's memory; a forecast's cell is its lower end and its step."""

    __slots__ = ("machine", "memory", "model")

    def __init__(self, model: AlmostOneStepAhead, memory: NDArray[np.int64]) -> None:
        self.model, self.memory, self.machine = model, memory, model.machine

    @property
    def rounds(self) -> int:
        """How many rounds were settled."""
        return int(self.memory[ROUNDS])

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of those rounds, a sum."""
        return float(self.machine.certify(self.memory))

    @property
    def most_open(self) -> int:
        """How many forecasts may be open."""
        return 1 << 22

    @property
    def rounds_left(self) -> int:
        """So many more rounds fit its integers, whatever they are."""
        return certain_rounds(self.memory)

    def check_open(self, waiting: list[Issued]) -> None:
        """ValueError unless their cells are of the grid."""
        cells, forecasts = map(attrgetter("cell"), waiting), map(attrgetter("probability"), waiting)
        check_cells(zip(cells, forecasts, strict=True), self.memory)

    def admits(self, outcome: float) -> bool:
        """All outcomes are known."""
        return True

    def promise(self, late: int) -> float:
        """At the horizon if there is one and it has not passed, else at the present round."""
        rounds = max(self.model.horizon or 0, self.rounds)
        return self.model.promise_for(self.memory, rounds, late)

    def dump(self) -> bytes:
        """The memory, without the room it has to spare."""
        return pack(self.machine.rules.in_use(self.memory))

    def run(self, steps: list[Step]) -> list[float]:
        """Take the steps, each in one compiled call: handing over many in arrays would cost more."""
        machine, certificates = self.machine, []
        for issued, outcome in steps:
            if outcome is None:
                hint = NO_HINT
                if issued.hint is not None:
                    hint, self.memory = issued.hint, machine.rules.with_hints(self.memory)
                lower, step, issued.probability = machine.issue(self.memory, hint)
                issued.cell = lower, step
            else:
                settle = machine.settle
                if type(outcome) is float:
                    settle = machine.settle_share
                    self.memory = machine.rules.refined(self.memory, float(self.model.slack))
                while settle(self.memory, *issued.cell, outcome, issued.probability) == FULL:
                    self.memory = enlarged(self.memory)
            certificates.append(machine.certify(self.memory))
        return certificates


HEAD = 24
"""Integers at the front of a memory that may be large; those behind them are mostly small."""
WIDTHS = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}


def pack(memory: NDArray[np.int64]) -> bytes:
    """A memory in few bytes: the width of the table's integers, the header in full, the table."""
    table = memory[HEAD:]
    most = int(max(table.max(), -1 - table.min())) if len(table) else 0
    width = next(width for width in WIDTHS if most < 1 << (8 * width - 1))
    return bytes([width]) + memory[:HEAD].astype("<i8").tobytes() + table.astype(WIDTHS[width]).tobytes()


def unpack(data: bytes) -> NDArray[np.int64]:
    """The memory that was packed."""
    head = np.frombuffer(data, "<i8", HEAD, 1)
    table = np.frombuffer(data, WIDTHS[data[0]], -1, 1 + 8 * HEAD)
    return np.concatenate([head, table]).astype(np.int64, copy=False)
