"""Steering of keys of several classes: hints are mapped to better ones, which the key's lanes then follow.

A key has one state of steering for all its lanes. What can be learnt of hints does not depend on the lane
that follows them, and one state that learns from all labels knows more than several that share them. A late
label counts for less, the more events of the key came in between. Many keys have few rounds, so steering
begins with little trust (`onlinecal.steering.trust`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.arrays import Floats
from onlinecal.engine.keys.lanes import (
    ClassForecast,
    ClassOutcome,
    LaneStep,
    class_shares,
    deflated,
    inflated,
    vector_of,
)
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.input import MOST_CLASSES
from onlinecal.steering.trust import (
    ask_vector,
    check_vector_steering,
    new_trusted_steering,
    settle_vector,
    ticket_size,
    trusted_ticket_with_classes,
    trusted_with_classes,
)
from onlinecal.steering.vector import shared_of, size_for

FEW_TICKETS = 64


class StoredSteering(Struct, array_like=True):
    """The classes in the order that the state has them; the floats of the state, then those of tickets."""

    labels: list[str]
    floats: bytes


class ClassSteering:
    """The steering of one key, from its first hint on.

    Where no `classes` are given, it learns of a class when a hint gives it weight, or when it is an outcome.
    When it knows `most` classes, it leaves further ones out of hints.

    Attributes
    ----------
    numbers
        The numbers of the known classes, in the order that the state has them.
    state
        What steering has learnt: a state of `onlinecal.steering.trust`.
    tickets
        What it keeps of each open forecast with a hint, by the number of the query.
    """

    __slots__ = ("most", "numbers", "state", "tickets")

    def __init__(self, classes: tuple[str, ...] | None, most: int = MOST_CLASSES) -> None:
        self.most = most if classes is None else len(classes)
        self.numbers = {label: number for number, label in enumerate(classes or ())}
        self.state = new_trusted_steering(len(self.numbers))
        self.tickets: dict[int, Floats] = {}

    def steered(self, steps: list[LaneStep], waiting: Collection[ClassForecast]) -> list[LaneStep]:
        """Steer the hints of steps, and learn from outcomes; `waiting` are the forecasts open after them."""
        after: list[LaneStep] = []
        for forecast, outcome, hint, others in steps:
            if outcome is not None:
                # without a hint there is no ticket, and nothing to learn
                ticket = self.tickets.pop(forecast.number, None)
                if ticket is not None:
                    self._learn(ticket, outcome)
            elif hint is not None:
                hint = self._ask(forecast.number, hint)
            after.append((forecast, outcome, hint, others))
        # the tickets of forecasts that were given up are dropped before they are most of all
        if len(self.tickets) > 2 * len(waiting) + FEW_TICKETS:
            self.tickets = {number: self.tickets[number] for number in numbers_with_hint(waiting)}
        return after

    def _meet(self, labels: Iterable[str]) -> None:
        numbers, before = self.numbers, len(self.numbers)
        for label in labels:
            if label not in numbers and len(numbers) < self.most:
                numbers[label] = len(numbers)
        if len(numbers) > before:
            self.state = trusted_with_classes(self.state, len(self.numbers))

    def _ask(self, number: int, hint: dict[str, float]) -> dict[str, float]:
        if not self.numbers.keys() >= hint.keys():
            self._meet([label for label, p in hint.items() if p > 0.0])
        row, out = vector_of(hint, self.numbers), np.empty(len(self.numbers))
        self.tickets[number] = ticket = np.empty(ticket_size(len(row)))
        ask_vector(self.state, ticket, row, out)
        answer = out.tolist()
        # only a forged state can lead beyond [0, 1] or to NaN
        if not all(0.0 <= p <= 1.0 for p in answer):
            return hint
        return dict(zip(self.numbers, answer, strict=True))

    def _learn(self, ticket: Floats, outcome: ClassOutcome) -> None:
        soft = class_shares(outcome)
        self._meet(soft)
        if all(label in self.numbers for label in soft):
            settle_vector(self.state, self._grown(ticket), vector_of(soft, self.numbers))

    def _grown(self, ticket: Floats) -> Floats:
        """A ticket, extended to all classes that are known by now."""
        before, k = (len(ticket) - ticket_size(0)) // (ticket_size(1) - ticket_size(0)), len(self.numbers)
        return ticket if before == k else trusted_ticket_with_classes(ticket, before, k)

    def dump(self, waiting: Iterable[ClassForecast]) -> bytes:
        """The state in bytes: classes, and compressed what was learnt and the tickets of open forecasts."""
        k = len(self.numbers)
        # the place of the ticket is not stored: it is written anew before it is read
        parts = [self.state[shared_of(k) :]]
        parts += [self._grown(self.tickets[number]) for number in numbers_with_hint(waiting)]
        return msgspec.msgpack.encode(StoredSteering(list(self.numbers), deflated(np.concatenate(parts))))

    def take(self, data: bytes, waiting: Iterable[ClassForecast]) -> None:
        """Take up what was dumped while these forecasts waited; ValueError if it makes no sense."""
        numbers = numbers_with_hint(waiting)
        stored = msgspec.msgpack.decode(data, type=StoredSteering)
        labels, k = stored.labels, len(stored.labels)
        require(len(set(labels)) == k <= self.most, "its steering's classes")
        require(list(self.numbers) == labels[: len(self.numbers)], "its steering's classes")
        start, end, ticket = shared_of(k), size_for(k) + 2, ticket_size(k)
        length = end - start + ticket * len(numbers)
        floats = inflated(stored.floats, length, np.float64)
        require(len(floats) == length, "the length of its steering")
        tickets = floats[end - start :].reshape(-1, ticket)
        self.state = np.concatenate([np.zeros(start), floats[: end - start]])
        check_vector_steering(self.state, tickets, k)
        self.numbers = {label: number for number, label in enumerate(labels)}
        self.tickets = {number: one.copy() for number, one in zip(numbers, tickets, strict=True)}


def numbers_with_hint(waiting: Iterable[ClassForecast]) -> list[int]:
    """The numbers of the forecasts that were asked for with a hint."""
    return [forecast.number for forecast in waiting if forecast.hint is not None]
