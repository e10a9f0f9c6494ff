"""Steering in the engine: a key's hints are mapped to better ones, which its lanes then follow.

A key has one state for all its lanes: what is to be learnt of hints does not depend on the lane that follows
them, and one that learns from all labels knows more than several that share them. Labels that come late
count for less, by the events of the key that came between. Many keys are short, so steering begins with
little trust (`onlinecal.steering.trust`).
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from onlinecal.engine.keys.lanes import Issued, Step
from onlinecal.forecasters.binary.soundness import require
from onlinecal.steering.binary import TICKET
from onlinecal.steering.soundness import check_steering
from onlinecal.steering.trust import SIZE, ask, new_steering, settle

FEW = 64


class KeySteering:
    """The steering of one key, from its first hint on.

    Attributes
    ----------
    state
        As `onlinecal.steering.trust` has it.
    tickets
        What the state keeps of each open forecast with a hint, by its number.
    """

    __slots__ = ("state", "tickets")

    def __init__(self) -> None:
        self.state: NDArray[np.float64] = new_steering()
        self.tickets: dict[int, NDArray[np.float64]] = {}

    def steered(self, steps: list[Step], waiting: Collection[Issued]) -> list[Step]:
        """The steps with steered hints; what they teach is learnt in their order. `waiting`: after them."""
        after: list[Step] = []
        for issued, outcome, hint, others in steps:
            if outcome is not None:
                self._learn(issued.number, outcome)
            elif hint is not None:
                hint = self._ask(issued.number, hint)
            after.append((issued, outcome, hint, others))
        # tickets of forecasts that were given up are left out before they are most of all
        if len(self.tickets) > 2 * len(waiting) + FEW:
            self.tickets = {number: self.tickets[number] for number in hinted(waiting)}
        return after

    def _ask(self, number: int, hint: float) -> float:
        """What is made of a hint."""
        self.tickets[number] = ticket = np.empty(TICKET)
        guide = ask(self.state, ticket, hint)
        # only a state that somebody made up can lead beyond [0, 1] or to NaN
        return guide if 0.0 <= guide <= 1.0 else hint

    def _learn(self, number: int, outcome: float) -> None:
        """Learn what followed a hint; nothing, if the forecast was asked for without one."""
        ticket = self.tickets.pop(number, None)
        if ticket is not None:
            settle(self.state, ticket, outcome)

    def dump(self, waiting: Iterable[Issued]) -> bytes:
        """The state, and the tickets of the forecasts that wait, in their order; compressed."""
        # what the last event left in the place of the ticket depends on nothing that is still needed
        parts = [np.zeros(TICKET), self.state[TICKET:], *(self.tickets[number] for number in hinted(waiting))]
        return zlib.compress(np.concatenate(parts).astype("<f8").tobytes(), 1)

    @classmethod
    def load(cls, data: bytes, numbers: list[int]) -> KeySteering:
        """What was dumped with hinted forecasts of these numbers; ValueError if it cannot be gone on with."""
        size = 8 * (SIZE + TICKET * len(numbers))
        # one byte more than there can be, so that what is too long is not cut to fit
        raw = zlib.decompressobj().decompress(data, size + 1)
        require(len(raw) == size, "the length of its steering")
        floats = np.frombuffer(raw, "<f8").astype(np.float64)
        steering, tickets = cls(), floats[SIZE:].reshape(-1, TICKET)
        check_steering(floats[:SIZE], tickets)
        steering.state = floats[:SIZE].copy()
        steering.tickets = {number: ticket.copy() for number, ticket in zip(numbers, tickets, strict=True)}
        return steering


def hinted(waiting: Iterable[Issued]) -> list[int]:
    """The numbers of those forecasts that were asked for with a hint."""
    return [issued.number for issued in waiting if issued.hint is not None]


def loaded(data: bytes | None, steers: bool, waiting: list[Issued]) -> KeySteering | None:
    """What a key has dumped, whose hints are steered or not; ValueError if it cannot be gone on with."""
    numbers = hinted(waiting)
    if data is None:
        require(not (steers and numbers), "its steering")
        return None
    require(steers, "its steering")
    return KeySteering.load(data, numbers)
