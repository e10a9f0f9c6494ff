"""Hints and outcomes of several classes, as the engine's lanes of either kind take them.

An outcome is kept as the label of its class; a soft label as its probabilities above zero, by class.

Steering of a key's hints about several classes, as vectors: `steering`, for lanes of kind "simplex".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.arrays import Floats
from onlinecal.engine.events import LONGEST_NAME, is_name
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.steering import KeySteering, hinted, packed, unpacked
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.input import MOST_CLASSES, SUM_TOLERANCE, check_distributions, shown
from onlinecal.steering.soundness import check_vector_steering
from onlinecal.steering.vector import shared_of
from onlinecal.steering.vector_trust import (
    ask,
    new_trusted_steering,
    room_size,
    settle,
    ticket_size,
    trusted_ticket_with_classes,
    trusted_with_classes,
    weights_of,
)

ClassOutcome = str | dict[str, float]
MOST_BYTES = 1 << 26
"""Of the state of a key of several classes. SQLite writes no row of more than 10^9."""
BYTES_A_SIGN = 4
SURELY = 0.9 * SUM_TOLERANCE
"""What is so near to a sum of 1 is within the tolerance, however it is added up."""


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


class ClassLane:
    """What lanes of several classes share: the classes they know, and no windows unless they say so.

    Attributes
    ----------
    labels
        The classes, with those of outcomes that wait for their step; at most `most`.
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
    def size(self) -> int:
        """About how many bytes it takes of a state, at most, without its open forecasts."""
        raise NotImplementedError

    def admits(self, outcome: ClassOutcome, late: int) -> bool:
        """True; the classes are known from now on. ValueError if these are too many."""
        if isinstance(outcome, str) and outcome in self.labels:
            return True
        new = self.labels.union(parts_of(outcome))
        if len(new) > self.most:
            named = f"with value {shown(outcome)} there are {len(new):,} classes"
            raise ValueError(f"{named}, {too_many(self.most)}")
        self.know(new)
        return True

    def looks_at_itself(self, outcome: ClassOutcome) -> bool:
        """Whether it depends on the steps before if it admits that outcome: it does not."""
        return False

    def window_certificate(self, now: int) -> float:
        """There is none."""
        return 0.0

    def window_promise(self, late: int, rounds: int) -> float | None:
        """Nothing is promised."""
        return None


class StoredSteering(Struct, array_like=True):
    """The classes in the order of the state's, and its floats with those of the tickets."""

    labels: list[str]
    floats: bytes


class ClassSteering(KeySteering):
    """That of outcomes of several classes; its state is that of `onlinecal.steering.vector_trust`.

    Classes are met when a hint gives them weight, or when they come; beyond `most` of them hints are cut to
    those met before. With classes given the state is for these.

    Attributes
    ----------
    numbers
        The classes met so far, in the order of the state's.
    """

    __slots__ = ("most", "numbers")

    def __init__(self, classes: tuple[str, ...] | None, most: int = MOST_CLASSES) -> None:
        self.most = most if classes is None else len(classes)
        self.numbers = {label: number for number, label in enumerate(classes or ())}
        super().__init__(new_trusted_steering(len(self.numbers)))

    def _meet(self, labels: Iterable[str]) -> None:
        numbers, before = self.numbers, len(self.numbers)
        for label in labels:
            if label not in numbers and len(numbers) < self.most:
                numbers[label] = len(numbers)
        if len(numbers) > before:
            self.state = trusted_with_classes(self.state, before, len(self.numbers))

    def _ask(self, number: int, hint: dict[str, float]) -> dict[str, float]:
        if not self.numbers.keys() >= hint.keys():
            self._meet([label for label, p in hint.items() if p > 0.0])
        row, out = self._vector(hint), np.empty(len(self.numbers))
        self.tickets[number] = ticket = np.empty(ticket_size(len(row)))
        ask(self.state, ticket, row, out)
        answer = out.tolist()
        # only a state that somebody made up can lead beyond [0, 1] or to NaN
        if not all(0.0 <= p <= 1.0 for p in answer):
            return hint
        return dict(zip(self.numbers, answer, strict=True))

    def _learn(self, ticket: Floats, outcome: ClassOutcome) -> None:
        soft = parts_of(outcome)
        self._meet(soft)
        if all(label in self.numbers for label in soft):
            number, k = self.numbers[outcome] if isinstance(outcome, str) else -1, len(self.numbers)
            settle(self.state, self._grown(ticket), k, number, self._vector(soft))

    def _vector(self, told: Mapping[str, float]) -> Floats:
        return vector_of(told, self.numbers)

    def _grown(self, ticket: Floats) -> Floats:
        """A ticket for all classes met by now."""
        before, k = (len(ticket) - ticket_size(0)) // (ticket_size(1) - ticket_size(0)), len(self.numbers)
        return ticket if before == k else trusted_ticket_with_classes(ticket, before, k)

    def dump(self, waiting: Iterable[Issued]) -> bytes:
        """The classes, the state, the tickets."""
        k = len(self.numbers)
        # what the last event left in the places of ticket and answers is written anew before it is read
        parts = [self.state[shared_of(k) : weights_of(k) + 2]]
        parts += [self._grown(self.tickets[number]) for number in hinted(waiting)]
        return msgspec.msgpack.encode(StoredSteering(list(self.numbers), packed(parts)))

    def take(self, data: bytes, numbers: list[int]) -> None:
        """Take up what was dumped."""
        stored = msgspec.msgpack.decode(data, type=StoredSteering)
        labels, k = stored.labels, len(stored.labels)
        require(len(set(labels)) == k <= self.most, "its steering's classes")
        require(list(self.numbers) == labels[: len(self.numbers)], "its steering's classes")
        start, end, ticket = shared_of(k), weights_of(k) + 2, ticket_size(k)
        floats = unpacked(stored.floats, end - start + ticket * len(numbers))
        tickets = floats[end - start :].reshape(-1, ticket)
        self.state = np.concatenate([np.zeros(start), floats[: end - start], np.zeros(room_size(k))])
        check_vector_steering(self.state, tickets, k)
        self.numbers = {label: number for number, label in enumerate(labels)}
        self.tickets = {number: one.copy() for number, one in zip(numbers, tickets, strict=True)}
