"""Steering of keys of several classes: hints are mapped to better ones, which the key's lanes then follow.

A key has one state for all its lanes: what is to be learnt of hints does not depend on the lane that follows
them, and one that learns from all labels knows more than several that share them. Labels that come late
count for less, by the events of the key that came between. Many keys are short, so steering begins with
little trust (`onlinecal.steering.trust`).
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.engine.keys.lanes import Issued, Step
from onlinecal.forecasters.binary.soundness import require

FEW = 64


class KeySteering(ABC):
    """The steering of one key, from its first hint on.

    Attributes
    ----------
    state
        What steering has learnt.
    tickets
        What it keeps of each open forecast with a hint, by its number.
    """

    __slots__ = ("state", "tickets")

    def __init__(self, state: Floats) -> None:
        self.state = state
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

    @abstractmethod
    def _ask(self, number: int, hint: Any) -> Any:
        """What is made of a hint; its ticket is kept."""

    @abstractmethod
    def _learn(self, ticket: Floats, outcome: Any) -> None:
        """Learn what followed the hint with this ticket."""

    @abstractmethod
    def dump(self, waiting: Iterable[Issued]) -> bytes:
        """The state, and the tickets of the forecasts that wait, in their order; compressed."""

    @abstractmethod
    def take(self, data: bytes, numbers: list[int]) -> None:
        """Take up what was dumped with hinted forecasts of these numbers; ValueError if that cannot be."""


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
    data: bytes | None, new: Callable[[], KeySteering] | None, waiting: list[Issued]
) -> KeySteering | None:
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
