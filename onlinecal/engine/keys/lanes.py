"""Lanes of keys of several classes. A lane is one forecaster; a key has one, or several for late labels.

A lane takes steps in the order in which they happened: it makes a forecast, which it writes into a
`ClassForecast`, or it settles one with an outcome. Lanes run the machines of the river classes.

`ClassKey` alone calls a lane. A lane begins by `ClassLabels.new`, or by `load`, which calls `take` on a new
lane; `check_open` then looks at the open forecasts that were stored beside it. From then on each outcome
comes to `admits` when it is accepted, and in `run`, later, the steps of a batch are taken. `dump` comes
between two runs, when no step waits.

Only `run` changes what a lane has learnt, but that windows forget (simplex_lanes.py); `admits` makes classes
known beforehand, so `labels` may have classes that the machine meets with a later step. If `depends_on_steps`
is true of an outcome, the key runs the steps that wait before it calls `admits`. A key has a `ClassSteering`
from its first hint on, if hints are steered, and then calls `guide` for every step, before its lanes run.
What `dump` makes of either is a saved format, and so are the fields of a `ClassForecast`.

An outcome is kept as the label of its class; a soft label as its probabilities above zero, by class.

Hints are steered, to better ones, which the key's lanes then follow. A key has one state of steering for all
its lanes. What can be learnt of hints does not depend on the lane that follows them, and one state that
learns from all labels knows more than several that share them. A late label counts for less, the more events
of the key came in between. Many keys have few rounds, so steering begins with little trust
(`onlinecal.steering.trust`).
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from math import fsum
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.engine.fields import LONGEST_NAME, is_name
from onlinecal.engine.keys.playing import ASKED, GIVEN_UP
from onlinecal.forecasters.simplex.input import MOST_CLASSES, SUM_TOLERANCE, check_distributions
from onlinecal.restoring import require
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
from onlinecal.texts import shown

ClassOutcome = str | dict[str, float]
BYTES_A_SIGN = 4
"""A character takes so many bytes at most in UTF-8."""
SURELY = 0.9 * SUM_TOLERANCE
"""A sum that is so near to 1 is within the tolerance, in whatever order it is added up. Probabilities with
such a sum are kept as they came, and others are divided by their sum: so ledgers hold hints by it, and a
smaller number would change them when they are replayed."""


class ClassForecast(Struct, array_like=True, gc=False):
    """A forecast of a key of several classes, from its query on.

    It refers to plain values only, so it is never part of a cycle.

    Attributes
    ----------
    id, time, hint
        As in the query. The time is that of the key if the query has none, and None if neither has one.
    number
        The number of the query among all events.
    lane
        The number of the lane that makes it.
    probability, certificate
        The answer, as soon as the lane has run; the certificate is that of the whole key.
    cell
        What the lane needs to settle it.
    """

    id: str
    number: int
    time: float | None
    hint: Any
    lane: int
    probability: Any = None
    certificate: float = 0.0
    cell: Any = None

    @property
    def bytes_asked(self) -> int:
        """An upper estimate of the bytes that the query takes of a state."""
        hint = self.hint if isinstance(self.hint, dict) else ()
        return BYTES_A_SIGN * (len(self.id) + sum(map(len, hint))) + 16 * len(hint)


LaneStep = tuple[ClassForecast, Any, Any, int]
"""A forecast, its outcome, None, and the number of this round among those of the key. Or a forecast that is
asked for, None, the hint to follow, None for none, and how many forecasts of the lane are open."""


class ClassLabels:
    """The classes that outcomes may name: those that are given, or else any, but no more than `most`."""

    lane: type[Any]
    """The class of the lanes that forecast them."""

    def __init__(self, classes: tuple[str, ...] | None, most: int = MOST_CLASSES) -> None:
        self.classes = None if classes is None else frozenset(classes)
        self.most = most if classes is None else len(classes)

    def new(self) -> Any:
        """A lane before its first round."""
        return self.lane(self)

    def load(self, data: bytes) -> Any:
        """The lane that was dumped; ValueError if it makes no sense."""
        lane = self.new()
        lane.take(data)
        return lane

    def hint_of(self, hint: Any) -> dict[str, float] | None:
        """A hint, checked: probabilities by class. If classes are discovered, a hint may name new ones."""
        if hint is None:
            return None
        if not isinstance(hint, dict) or not hint:
            raise ValueError(
                f'hint must be an object with the classes\' probabilities, as {{"sun": 0.7, "rain": 0.3}}, '
                f"got {shown(hint)}"
            )
        return self._distribution(hint, "hint")

    def outcome_of(self, value: Any) -> ClassOutcome:
        """An outcome, checked: a class, or a soft label of several; ValueError if it is neither."""
        if not isinstance(value, dict):
            return self.label_of(value, "value")
        if not value:
            raise ValueError(
                f"value must be a class label, or an object of probabilities, got {shown(value)}"
            )
        soft = {label: p for label, p in self._distribution(value, "value").items() if p > 0.0}
        return soft if len(soft) > 1 else next(iter(soft))

    def _distribution(self, shares: dict[Any, Any], name: str) -> dict[str, float]:
        if self.classes is None and len(shares) > self.most:
            # no check may take longer if somebody sends more labels
            raise ValueError(
                f"{name} must have at most {self.most:,} labels, most_classes of the key, got "
                f"{len(shares):,}: name fewer, or begin a new ledger with a larger most_classes"
            )
        for label in shares:
            self.label_of(label, f"each label of {name}")
        values = list(shares.values())
        if all(type(p) is float and 0.0 <= p <= 1.0 for p in values) and abs(fsum(values) - 1.0) < SURELY:
            # the usual case is checked without arrays
            return dict(shares)
        try:
            checked = check_distributions(values, (len(shares),), name)
        except ValueError as error:
            raise ValueError(
                f"{name} must be numbers in [0, 1] that sum to 1, got {shown(shares)}: correct them"
            ) from error
        return dict(zip(shares, checked.tolist(), strict=True))

    def numbered(self, labels: list[str]) -> dict[str, int]:
        """The classes in a state, numbered; ValueError if they make no sense."""
        require(len(set(labels)) == len(labels) <= self.most, "its classes")
        return {self.label_of(label, "its classes"): number for number, label in enumerate(labels)}

    def label_of(self, value: Any, name: str) -> str:
        """A class label, checked; ValueError if it is none."""
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


class Lane:
    """What every lane has: the classes that it knows.

    Attributes
    ----------
    kind
        What made it.
    labels
        The classes, with those of outcomes whose step is still to be taken; at most `kind.most`.
    label_bytes
        How many bytes these take, at most.
    """

    def __init__(self, labels: Iterable[str], kind: Any) -> None:
        self.kind = kind
        self.know(labels)

    def know(self, labels: Iterable[str]) -> None:
        """Take these classes for the known ones."""
        self.labels = set(labels)
        self.label_bytes = BYTES_A_SIGN * sum(map(len, self.labels))

    def admits(self, outcome: ClassOutcome) -> None:
        """Make the classes of an outcome known, before its step; ValueError if the lane cannot take it."""
        if isinstance(outcome, str) and outcome in self.labels:
            return
        new = self.labels.union(class_shares(outcome))
        if len(new) > self.kind.most:
            raise ValueError(
                f"value must name classes that the key knows, got {shown(outcome)}: with it there would be "
                f"{len(new):,} classes, and most_classes of the key is {self.kind.most:,}. Correct the "
                "label, or begin a new ledger with a larger most_classes"
            )
        self.know(new)

    def depends_on_steps(self, outcome: ClassOutcome) -> bool:
        """Whether `admits` depends on the steps before that outcome, which then have to be taken first."""
        return False


def vector_of(shares: Mapping[str, float], known: Collection[str]) -> Floats:
    """The probabilities of the known classes, in their order; 0 for those that are not named."""
    return np.array([shares.get(label, 0.0) for label in known])


def shared_out(hint: Mapping[str, float], known: Collection[str]) -> Floats:
    """What a hint says of the known classes, divided by its sum; all are alike if the sum is 0."""
    row = vector_of(hint, known)
    total = row.sum()
    return row / total if total > 0.0 else np.full(len(row), 1.0 / len(row))


def deflated(array: NDArray[Any]) -> bytes:
    """Numbers of 64 bits, compressed."""
    return zlib.compress(array.astype(array.dtype.newbyteorder("<")).tobytes(), 1)


def inflated(data: bytes, most: int, kind: type) -> NDArray[Any]:
    """The numbers that were deflated; ValueError if there are more than `most`, or part of one."""
    # one byte more than there can be, so that what is too long is not cut to fit
    raw = zlib.decompressobj().decompress(data, 8 * most + 1)
    require(len(raw) % 8 == 0 and len(raw) <= 8 * most, "the length of its arrays")
    return np.frombuffer(raw, np.dtype(kind).newbyteorder("<")).astype(kind)


def class_shares(outcome: ClassOutcome) -> dict[str, float]:
    """The share of an outcome that each class has, without the classes that have none."""
    return {outcome: 1.0} if isinstance(outcome, str) else outcome


def check_hints_allowed(hints: bool, hint: Any) -> None:
    """ValueError for a hint if the key takes none."""
    if not hints:
        raise ValueError(
            f"hint must be left out, since the key is configured with hints = false, got {shown(hint)}"
        )


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

    def guide(self, forecast: ClassForecast, what: Any) -> dict[str, float] | None:
        """Take up what happened to a forecast; the hint to follow if it was asked for with one."""
        if what == ASKED:
            return None if forecast.hint is None else self._ask(forecast.number, forecast.hint)
        # without a hint there is no ticket, and nothing to learn
        ticket = self.tickets.pop(forecast.number, None)
        if ticket is not None and what != GIVEN_UP:
            self._learn(ticket, what)
        return None

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

    def dump(self) -> bytes:
        """The state in bytes: classes, and compressed what was learnt and the tickets of open forecasts."""
        k = len(self.numbers)
        # the place of the ticket is not stored: it is written anew before it is read
        parts = [self.state[shared_of(k) :]]
        parts += map(self._grown, self.tickets.values())
        return msgspec.msgpack.encode(StoredSteering(list(self.numbers), deflated(np.concatenate(parts))))

    def take(self, data: bytes, waiting: Iterable[ClassForecast]) -> None:
        """Take up what was dumped while these forecasts waited; ValueError if it makes no sense."""
        numbers = [forecast.number for forecast in waiting if forecast.hint is not None]
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
        self.tickets = {number: ticket.copy() for number, ticket in zip(numbers, tickets, strict=True)}
