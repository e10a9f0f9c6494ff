"""Lanes of keys of several classes: single forecasters, one for each forecast that a key has open, or one.

A lane is run on *steps* in the order in which they happened: a question leaves its forecast in an `Issued`,
a label settles one. Lanes are the machines that the river classes play.

An outcome is kept as the label of its class; a soft label as its probabilities above zero, by class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Any

import numpy as np
from msgspec import Struct

from onlinecal.arrays import Floats
from onlinecal.elementary import in_turn
from onlinecal.engine.events import LONGEST_NAME, is_name
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.input import MOST_CLASSES, SUM_TOLERANCE, check_distributions, shown

ClassOutcome = str | dict[str, float]
MOST_BYTES = 1 << 26
"""Of the state of a key of several classes. SQLite writes no row of more than 10^9."""
BYTES_A_SIGN = 4
SURELY = 0.9 * SUM_TOLERANCE
"""What is so near to a sum of 1 is within the tolerance, however it is added up."""


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


class ClassLabels:
    """The classes that outcomes may name: those given, or any, but no more than `most`."""

    def __init__(self, classes: tuple[str, ...] | None, most: int = MOST_CLASSES) -> None:
        self.classes = None if classes is None else frozenset(classes)
        self.most = most if classes is None else len(classes)

    def hint_of(self, hint: Any) -> dict[str, float] | None:
        """Probabilities by class; classes that a lane has not met yet are allowed if they are discovered."""
        if hint is None:
            return None
        if not isinstance(hint, dict) or not hint:
            raise ValueError(f"hint must be an object with the classes' probabilities, got {shown(hint)}")
        return self._distribution(hint, "hint")

    def outcome_of(self, value: Any) -> ClassOutcome:
        """A class, or a soft label of several; ValueError if it is neither."""
        if not isinstance(value, dict):
            return self.label_of(value, "value")
        if not value:
            raise ValueError(
                f"value must be a class label, or an object of probabilities, got {shown(value)}"
            )
        soft = {label: p for label, p in self._distribution(value, "value").items() if p > 0.0}
        return soft if len(soft) > 1 else next(iter(soft))

    def _distribution(self, told: dict[Any, Any], name: str) -> dict[str, float]:
        if self.classes is None and len(told) > self.most:
            # nothing here may take the longer the more labels there are
            raise ValueError(f"{name} has {len(told):,} labels, {too_many(self.most)}")
        for label in told:
            self.label_of(label, f"the labels of {name}")
        values = list(told.values())
        if all(type(p) is float and 0.0 <= p <= 1.0 for p in values) and abs(fsum(values) - 1.0) < SURELY:
            # what is usual is seen without arrays
            return dict(told)
        checked = check_distributions(values, (len(told),), name)
        return dict(zip(told, checked.tolist(), strict=True))

    def numbered(self, labels: list[str]) -> dict[str, int]:
        """The classes of a state, numbered; ValueError if they cannot be."""
        require(len(set(labels)) == len(labels) <= self.most, "its classes")
        return {self.label_of(label, "its classes"): number for number, label in enumerate(labels)}

    def label_of(self, value: Any, name: str) -> str:
        """The label of a class; ValueError if it is none."""
        if self.classes is not None and isinstance(value, str) and value in self.classes:
            return value
        if not is_name(value):
            raise ValueError(
                f"{name} must be a class label, a text of 1 to {LONGEST_NAME} characters without NUL, "
                f"got {shown(value)}"
            )
        if self.classes is not None:
            raise ValueError(
                f"{name} must be one of the classes {shown(sorted(self.classes))}, got {shown(value)}"
            )
        return value


def too_many(most: int) -> str:
    """What is wrong with more labels than so many."""
    return f"more than the {most:,} that a key may discover (most_classes)"


class Lane(ABC):
    """One forecaster of a key, with the classes that it knows.

    Attributes
    ----------
    labels
        The classes, with those of outcomes that wait for their step; at most `most`.
    label_bytes
        About how many bytes these take, at most.
    """

    __slots__ = ("label_bytes", "labels", "most")

    def __init__(self, labels: Iterable[str], most: int) -> None:
        self.most = most
        self.know(labels)

    def know(self, labels: Iterable[str]) -> None:
        """Have these classes."""
        self.labels = set(labels)
        self.label_bytes = BYTES_A_SIGN * sum(map(len, self.labels))

    @property
    @abstractmethod
    def size(self) -> int:
        """About how many bytes it takes of a state, at most, without its open forecasts."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How many rounds were settled."""

    @property
    @abstractmethod
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of those rounds, a sum."""

    @property
    @abstractmethod
    def most_open(self) -> int:
        """How many forecasts may be open, so that no bias leaves its integers."""

    @property
    @abstractmethod
    def rounds_left(self) -> int:
        """So many more rounds fit its integers, whatever they are."""

    def admits(self, outcome: ClassOutcome, late: int) -> None:
        """Know the classes of an outcome that will come in a step; ValueError if it cannot be taken.

        `late`: how many other forecasts of the lane were open at most.
        """
        if isinstance(outcome, str) and outcome in self.labels:
            return
        new = self.labels.union(parts_of(outcome))
        if len(new) > self.most:
            named = f"with value {shown(outcome)} there are {len(new):,} classes"
            raise ValueError(f"{named}, {too_many(self.most)}")
        self.know(new)

    def looks_at_itself(self, outcome: ClassOutcome) -> bool:
        """Whether it depends on the steps before if it `admits` that outcome."""
        return False

    def window_certificate(self, now: int) -> float:
        """A proven bound on the distance of its rounds in the window of that moment; 0 if it keeps none."""
        return 0.0

    def window_promise(self, late: int, rounds: int) -> float | None:
        """What the distance of any so many of its consecutive rounds cannot exceed; None: none known."""
        return None

    @abstractmethod
    def run(self, steps: list[Step], moments: Iterator[int]) -> list[float]:
        """Take the steps; the certificate after each. `moments`: the key's rounds as these are settled."""

    @abstractmethod
    def promise(self, late: int) -> float:
        """What the certificate cannot exceed with so many other forecasts open at a time."""

    @abstractmethod
    def dump(self) -> bytes:
        """The state, as the lanes of its kind load it."""

    @abstractmethod
    def check_open(self, waiting: list[Issued]) -> None:
        """ValueError unless the forecasts that were loaded with the lane can be settled."""


def vector_of(told: Mapping[str, float], known: Collection[str]) -> Floats:
    """Probabilities of the classes that are known, 0 where nothing is told."""
    return np.array([told.get(label, 0.0) for label in known])


def shared_out(hint: Mapping[str, float], known: Collection[str]) -> Floats:
    """A hint over the classes that are known, some; the weight of others, or of none, is shared out."""
    row = vector_of(hint, known)
    total = row.sum()
    return row / total if total > 0.0 else np.full(len(row), 1.0 / len(row))


def size_asked(issued: Issued) -> int:
    """About how many bytes an open forecast takes of a state for what it was asked with, at most."""
    hint = issued.hint if isinstance(issued.hint, dict) else ()
    return BYTES_A_SIGN * (len(issued.id) + sum(map(len, hint))) + 16 * len(hint)


def is_large(lanes: Sequence[Any], steering: Any, asked: int, waiting: int) -> bool:
    """Whether a key's state may have `MOST_BYTES`: that of its lanes, its steering, its open forecasts.

    `asked` is what `size_asked` says of these together. It is an estimate from above, as of the last run.
    """
    k = 0 if steering is None else len(steering.numbers)
    k = max([k, *(len(lane.labels) for lane in lanes)])
    # of a forecast: its answer, its cell, steering's ticket, stakes
    each = 256 + 100 * k + max([0, *(lane.label_bytes for lane in lanes)])
    # steering has some 3 KB a class
    return sum(lane.size for lane in lanes) + 3200 * k + asked + waiting * each > MOST_BYTES


def parts_of(outcome: ClassOutcome) -> dict[str, float]:
    """How much of an outcome each class is, but for those that are nothing of it."""
    return {outcome: 1.0} if isinstance(outcome, str) else outcome


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
