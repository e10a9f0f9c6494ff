"""Hints and outcomes of several classes, as the engine's lanes of either kind take them.

An outcome is kept as the label of its class; a soft label as its probabilities above zero, by class.

Steering of a key's hints about several classes, as vectors: `steering`, for lanes of kind "simplex".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.arrays import Floats
from onlinecal.engine.events import LONGEST_NAME, is_name
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.steering import KeySteering, hinted, packed, unpacked
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.input import MOST_CLASSES, check_distributions, shown
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


def parts_of(outcome: ClassOutcome) -> dict[str, float]:
    """How much of an outcome each class is, but for those that are nothing of it."""
    return {outcome: 1.0} if isinstance(outcome, str) else outcome


class ClassLabels:
    """The classes that outcomes may name: those given, or any."""

    def __init__(self, classes: tuple[str, ...] | None) -> None:
        self.classes = None if classes is None else frozenset(classes)

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
        for label in told:
            self.label_of(label, f"the labels of {name}")
        values = check_distributions(list(told.values()), (len(told),), name)
        return dict(zip(told, values.tolist(), strict=True))

    def numbered(self, labels: list[str]) -> dict[str, int]:
        """The classes of a state, numbered; ValueError if they cannot be."""
        return {self.label_of(label, "its classes"): number for number, label in enumerate(labels)}

    def label_of(self, value: Any, name: str) -> str:
        """The label of a class; ValueError if it is none."""
        if not is_name(value):
            raise ValueError(
                f"{name} must be a class label, a text of 1 to {LONGEST_NAME} characters without NUL, "
                f"got {shown(value)}"
            )
        if self.classes is not None and value not in self.classes:
            raise ValueError(
                f"{name} must be one of the classes {shown(sorted(self.classes))}, got {shown(value)}"
            )
        return value


class ClassLane:
    """What lanes of several classes share: the classes they know, and no windows unless they say so.

    Attributes
    ----------
    labels
        The classes, with those of outcomes that wait for their step.
    """

    __slots__ = ("labels",)

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels = set(labels)

    def admits(self, outcome: ClassOutcome, late: int) -> bool:
        """Whether the classes are known, or as many more can be told apart; they are known from now on."""
        new = [label for label in parts_of(outcome) if label not in self.labels]
        if len(self.labels) + len(new) > MOST_CLASSES:
            return False
        self.labels.update(new)
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

    Classes are met when a hint gives them weight, or when they come; beyond `MOST_CLASSES` hints are cut to
    those met before. With classes given the state is for these.

    Attributes
    ----------
    numbers
        The classes met so far, in the order of the state's.
    """

    __slots__ = ("numbers",)

    def __init__(self, classes: tuple[str, ...] | None) -> None:
        self.numbers = {label: number for number, label in enumerate(classes or ())}
        super().__init__(new_trusted_steering(len(self.numbers)))

    def _meet(self, labels: Iterable[str]) -> None:
        before = len(self.numbers)
        for label in labels:
            if label not in self.numbers and len(self.numbers) < MOST_CLASSES:
                self.numbers[label] = len(self.numbers)
        if len(self.numbers) > before:
            self.state = trusted_with_classes(self.state, before, len(self.numbers))

    def _ask(self, number: int, hint: dict[str, float]) -> dict[str, float]:
        self._meet(label for label, p in hint.items() if p > 0.0)
        row, out = self._vector(hint), np.empty(len(self.numbers))
        self.tickets[number] = ticket = np.empty(ticket_size(len(row)))
        ask(self.state, ticket, row, out)
        # only a state that somebody made up can lead beyond [0, 1] or to NaN
        if not (out.min() >= 0.0 and out.max() <= 1.0):
            return hint
        return dict(zip(self.numbers, out.tolist(), strict=True))

    def _learn(self, ticket: Floats, outcome: ClassOutcome) -> None:
        soft = parts_of(outcome)
        self._meet(soft)
        if all(label in self.numbers for label in soft):
            number, k = self.numbers[outcome] if isinstance(outcome, str) else -1, len(self.numbers)
            settle(self.state, self._grown(ticket), k, number, self._vector(soft))

    def _vector(self, told: Mapping[str, float]) -> Floats:
        return np.array([told.get(label, 0.0) for label in self.numbers])

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
        require(len(set(labels)) == k <= MOST_CLASSES, "its steering's classes")
        require(list(self.numbers) == labels[: len(self.numbers)], "its steering's classes")
        start, end, ticket = shared_of(k), weights_of(k) + 2, ticket_size(k)
        floats = unpacked(stored.floats, end - start + ticket * len(numbers))
        tickets = floats[end - start :].reshape(-1, ticket)
        self.state = np.concatenate([np.zeros(start), floats[: end - start], np.zeros(room_size(k))])
        check_vector_steering(self.state, tickets, k)
        self.numbers = {label: number for number, label in enumerate(labels)}
        self.tickets = {number: one.copy() for number, one in zip(numbers, tickets, strict=True)}
