"""Steering of keys of several classes: hints are mapped to better ones, which the key's lanes then follow.

A key has one state for all its lanes: what is to be learnt of hints does not depend on the lane that follows
them, and one that learns from all labels knows more than several that share them. Labels that come late
count for less, by the events of the key that came between. Many keys are short, so steering begins with
little trust (`onlinecal.steering.trust`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.arrays import Floats
from onlinecal.engine.keys.lanes import ClassOutcome, Issued, Step, parts_of, vector_of
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.input import MOST_CLASSES
from onlinecal.steering.trust import (
    ask_vector,
    check_vector_steering,
    new_trusted_steering,
    room_size,
    settle_vector,
    ticket_size,
    trusted_ticket_with_classes,
    trusted_with_classes,
    weights_of,
)
from onlinecal.steering.vector import shared_of

FEW = 64


class StoredSteering(Struct, array_like=True):
    """The classes in the order of the state's, and its floats with those of the tickets."""

    labels: list[str]
    floats: bytes


class ClassSteering:
    """The steering of one key, from its first hint on: a state of `onlinecal.steering.trust`.

    Classes are met when a hint gives them weight, or when they come; beyond `most` of them hints are cut to
    those met before. With classes given the state is for these.

    Attributes
    ----------
    numbers
        The classes met so far, in the order of the state's.
    state
        What steering has learnt.
    tickets
        What it keeps of each open forecast with a hint, by its number.
    """

    __slots__ = ("most", "numbers", "state", "tickets")

    def __init__(self, classes: tuple[str, ...] | None, most: int = MOST_CLASSES) -> None:
        self.most = most if classes is None else len(classes)
        self.numbers = {label: number for number, label in enumerate(classes or ())}
        self.state = new_trusted_steering(len(self.numbers))
        self.tickets: dict[int, Floats] = {}

    def steered(self, steps: list[Step], waiting: Collection[Issued]) -> list[Step]:
        """The steps with steered hints; what they teach is learnt in their order. `waiting`: after them."""
        after: list[Step] = []
        for issued, outcome, hint, others in steps:
            if outcome is not None:
                # nothing is learnt if the forecast was asked for without a hint
                ticket = self.tickets.pop(issued.number, None)
                if ticket is not None:
                    self._learn(ticket, outcome)
            elif hint is not None:
                hint = self._ask(issued.number, hint)
            after.append((issued, outcome, hint, others))
        # tickets of forecasts that were given up are left out before they are most of all
        if len(self.tickets) > 2 * len(waiting) + FEW:
            self.tickets = {number: self.tickets[number] for number in hinted(waiting)}
        return after

    def _meet(self, labels: Iterable[str]) -> None:
        numbers, before = self.numbers, len(self.numbers)
        for label in labels:
            if label not in numbers and len(numbers) < self.most:
                numbers[label] = len(numbers)
        if len(numbers) > before:
            self.state = trusted_with_classes(self.state, before, len(self.numbers))

    def _ask(self, number: int, hint: dict[str, float]) -> dict[str, float]:
        """What is made of a hint; its ticket is kept."""
        if not self.numbers.keys() >= hint.keys():
            self._meet([label for label, p in hint.items() if p > 0.0])
        row, out = self._vector(hint), np.empty(len(self.numbers))
        self.tickets[number] = ticket = np.empty(ticket_size(len(row)))
        ask_vector(self.state, ticket, row, out)
        answer = out.tolist()
        # only a state that somebody made up can lead beyond [0, 1] or to NaN
        if not all(0.0 <= p <= 1.0 for p in answer):
            return hint
        return dict(zip(self.numbers, answer, strict=True))

    def _learn(self, ticket: Floats, outcome: ClassOutcome) -> None:
        """Learn what followed the hint with this ticket."""
        soft = parts_of(outcome)
        self._meet(soft)
        if all(label in self.numbers for label in soft):
            number, k = self.numbers[outcome] if isinstance(outcome, str) else -1, len(self.numbers)
            settle_vector(self.state, self._grown(ticket), k, number, self._vector(soft))

    def _vector(self, told: Mapping[str, float]) -> Floats:
        return vector_of(told, self.numbers)

    def _grown(self, ticket: Floats) -> Floats:
        """A ticket for all classes met by now."""
        before, k = (len(ticket) - ticket_size(0)) // (ticket_size(1) - ticket_size(0)), len(self.numbers)
        return ticket if before == k else trusted_ticket_with_classes(ticket, before, k)

    def dump(self, waiting: Iterable[Issued]) -> bytes:
        """The classes, the state, and the tickets of the forecasts that wait, in their order; compressed."""
        k = len(self.numbers)
        # what the last event left in the places of ticket and answers is written anew before it is read
        parts = [self.state[shared_of(k) : weights_of(k) + 2]]
        parts += [self._grown(self.tickets[number]) for number in hinted(waiting)]
        return msgspec.msgpack.encode(StoredSteering(list(self.numbers), packed(parts)))

    def take(self, data: bytes, numbers: list[int]) -> None:
        """Take up what was dumped with hinted forecasts of these numbers; ValueError if that cannot be."""
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


def packed(parts: list[Floats]) -> bytes:
    """Arrays one after the other, compressed."""
    return zlib.compress(np.concatenate(parts).astype("<f8").tobytes(), 1)


def unpacked(data: bytes, length: int) -> Floats:
    """So many floats that were packed; ValueError if there are others."""
    # one byte more than there can be, so that what is too long is not cut to fit
    raw = zlib.decompressobj().decompress(data, 8 * length + 1)
    require(len(raw) == 8 * length, "the length of its steering")
    return np.frombuffer(raw, "<f8").astype(np.float64)


def hinted(waiting: Iterable[Issued]) -> list[int]:
    """The numbers of those forecasts that were asked for with a hint."""
    return [issued.number for issued in waiting if issued.hint is not None]


def loaded(
    data: bytes | None, new: Callable[[], ClassSteering] | None, waiting: list[Issued]
) -> ClassSteering | None:
    """What a key has dumped, whose hints are steered if there is `new`; ValueError if that cannot be."""
    numbers = hinted(waiting)
    if data is None:
        require(new is None or not numbers, "its steering")
        return None
    require(new is not None, "its steering")
    assert new is not None
    steering = new()
    steering.take(data, numbers)
    return steering
