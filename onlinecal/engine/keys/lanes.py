"""Lanes of keys of several classes: single forecasters, one for each forecast that a key has open, or for
all.

A lane is run on *steps* in the order in which they happened: a question leaves its forecast in an `Issued`,
a label settles one. Lanes are the machines that the river classes play.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from msgspec import Struct

from onlinecal.elementary import in_turn


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
