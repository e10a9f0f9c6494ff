"""Lanes: single forecasters behind the engine, one for each forecast that a key has open, or for all of them.

A lane is run on *steps* in the order in which they happened: a question leaves its forecast in an `Issued`,
a label settles one. Both kinds of lanes are the compiled machines that the river classes play.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from onlinecal.elementary import in_turn
from onlinecal.engine.keys.packing import pack, pack_rounds, unpack, unpack_rounds
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import GROWS, LATE, MOVED, NO_HINT, ROUNDS
from onlinecal.forecasters.binary.compiled import FULL, certain_rounds, enlarged
from onlinecal.forecasters.binary.soundness import check_cells, check_grid_memory
from onlinecal.forecasters.binary.windowing.windows import NO_ROUNDS, Window
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


Step = tuple[Issued, Any, Any, int]
"""A forecast; its outcome, or None where the forecast is asked for; and there the hint to follow, if any, and
how many forecasts of its lane are open."""


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

    def admits(self, outcome: Any, late: int) -> bool:
        """Whether the outcome can be told apart from all others; if so, it will come in a step.

        `late`: how many other forecasts of its were open at most. ValueError if it is one that the lane, as
        it is now, cannot take.
        """

    def looks_at_itself(self, outcome: Any) -> bool:
        """Whether it depends on the steps before if it `admits` that outcome."""

    def window_certificate(self, now: int) -> float:
        """A proven bound on the distance of its rounds in the window of that moment; 0 if it keeps none."""

    def window_promise(self, late: int, rounds: int) -> float | None:
        """What the distance of any so many of its consecutive rounds cannot exceed; None: none known."""

    def run(self, steps: list[Step], moments: Iterator[int]) -> list[float]:
        """Take the steps; the certificate after each. `moments`: the key's rounds as these are settled."""

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


def run_together(lanes: list[Lane], steps: list[Step]) -> list[Iterator[float]]:
    """Let each lane take its steps; for each the certificates after them.

    A moment is how many rounds all lanes together have settled.
    """
    of_lane: list[list[Step]] = [[] for _ in lanes]
    moments: list[list[int]] = [[] for _ in lanes]
    settled = sum(lane.rounds for lane in lanes)
    for step in steps:
        of_lane[step[0].lane].append(step)
        if step[1] is not None:
            settled += 1
            moments[step[0].lane].append(settled)
    taken = zip(lanes, of_lane, moments, strict=True)
    return [iter(lane.run(own, iter(when)) if own else ()) for lane, own, when in taken]


def window_bounds(
    window: int | None, lanes: list[Lane], late: list[int]
) -> tuple[float | None, float | None]:
    """The certificate of a key's last `window` settled rounds, and the guarantee of any so many in a row.

    The lanes share these rounds: by Fact 4 what is proven of each one's part of them adds up.
    """
    if window is None:
        return None, None
    now = sum(lane.rounds for lane in lanes)
    proven = float(in_turn(lane.window_certificate(now) for lane in lanes))
    promised: float | None = 0.0
    for place, (lane, others) in enumerate(zip(lanes, late, strict=True)):
        promise = lane.window_promise(others, 0 if place else window)
        promised = None if promised is None or promise is None else promised + promise
    return proven, promised


def check_wanted(hints: bool) -> None:
    """ValueError if a query has a hint where there are to be none."""
    if not hints:
        raise ValueError("hint must be left away: the key is configured with hints = false")


class BinaryLanes:
    """Forecasters of outcomes 0 and 1 that share their parameters."""

    def __init__(self, hints: bool = True, **parameters: Any) -> None:
        self.model = AlmostOneStepAhead(hints=hints, **parameters)

    def hint_of(self, hint: Any) -> float | None:
        """A probability, 0.0 without sign."""
        if hint is None:
            return None
        check_wanted(self.model.hints)
        return check_probability(hint, "hint") + 0.0

    def outcome_of(self, value: Any) -> float:
        """An int, 0 or 1, or a float between."""
        outcome = share_of(value, "value")
        return int(outcome) if outcome in (0, 1) else outcome

    def new(self) -> BinaryLane:
        """A lane before its first round."""
        memory = self.model.memory.copy()
        return BinaryLane(self.model, memory, self._window(memory, NO_ROUNDS))

    def load(self, data: bytes) -> BinaryLane:
        """The lane that was dumped; ValueError if it cannot be played on."""
        if self.model.window is None:
            memory, rounds = unpack(data), NO_ROUNDS
        else:
            size = int.from_bytes(data[:8], "little")
            memory, rounds = unpack(data[8 : 8 + size]), unpack_rounds(data[8 + size :])
        check_grid_memory(memory, self.model)
        return BinaryLane(self.model, memory, self._window(memory, rounds))

    def _window(self, memory: NDArray[np.int64], rounds: NDArray[np.int64]) -> Window | None:
        """The window with these rounds beside a memory; ValueError if it cannot have them."""
        size = self.model.window
        return None if size is None else Window.holding(size, memory, rounds)


class BinaryLane:
    """A grid machine's memory; a forecast's cell is its lower end and its step."""

    __slots__ = ("machine", "memory", "model", "window")

    def __init__(
        self, model: AlmostOneStepAhead, memory: NDArray[np.int64], window: Window | None = None
    ) -> None:
        self.model, self.memory, self.machine, self.window = model, memory, model.machine, window

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

    def admits(self, outcome: float, late: int) -> bool:
        """All outcomes are known."""
        return True

    def looks_at_itself(self, outcome: float) -> bool:
        """They are."""
        return False

    def promise(self, late: int) -> float:
        """At the horizon if there is one and it has not passed, else at the present round."""
        rounds = max(self.model.horizon or 0, self.rounds)
        return self.model.promise_for(self.memory, rounds, late)

    def dump(self) -> bytes:
        """The memory, without the room it has to spare, and the rounds of the window, if there is one."""
        packed = pack(self.machine.rules.in_use(self.memory))
        if self.window is None:
            return packed
        return len(packed).to_bytes(8, "little") + packed + pack_rounds(self.window.rounds)

    def window_certificate(self, now: int) -> float:
        """Of its rounds in the window of that moment; 0 if it keeps none."""
        return 0.0 if self.window is None else self.window.certificate(self.memory, now)

    def window_promise(self, late: int, rounds: int) -> float | None:
        """What the distance of any so many of its consecutive rounds cannot exceed."""
        return self.model.window_promise_for(self.memory, late, rounds)

    def run(self, steps: list[Step], moments: Iterator[int]) -> list[float]:
        """Take the steps, each in one compiled call: handing over many in arrays would cost more."""
        machine, certificates = self.machine, []
        for issued, outcome, hint, others in steps:
            if outcome is None:
                guide = NO_HINT if hint is None else hint
                if others > self.memory[LATE] and self.memory[GROWS]:
                    machine.note_late(self.memory, others)
                lower, step, issued.probability = machine.issue(self.memory, guide)
                issued.cell = lower, step
            else:
                settle = machine.settle
                if type(outcome) is float:
                    settle = machine.settle_share
                    self._expect_shares()
                moved = 0 if self.window is None else self.memory[MOVED]
                while settle(self.memory, *issued.cell, outcome, issued.probability) == FULL:
                    self.memory = enlarged(self.memory)
                if self.window is not None:
                    lower, step = machine.rules.in_units(self.memory, *issued.cell)
                    self.window.follow(self.memory, lower, step, outcome, moved, next(moments))
            certificates.append(machine.certify(self.memory))
        return certificates

    def _expect_shares(self) -> None:
        """Make the memory ready for outcomes that are neither 0 nor 1; the window goes over to its units."""
        self.memory = self.model.refined(self.memory)
        if self.window is not None:
            self.window.suit(self.memory)
