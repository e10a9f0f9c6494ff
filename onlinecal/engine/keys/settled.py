"""Forecasts that were settled in a batch, until they are counted for the picture of reliability."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.engine.keys.arena import Arena
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.watch.reliability import Reliability


class Rounds(NamedTuple):
    """Settled forecasts of keys with seats: arenas, each with those that are there; places; outcomes."""

    arenas: list[tuple[Arena, NDArray[np.int64]]]
    places: NDArray[np.int64]
    outcomes: NDArray[np.float64]

    def told(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Forecasts, hints and outcomes."""
        forecasts, hints = np.empty(len(self.places)), np.empty(len(self.places))
        for arena, which in self.arenas:
            places = self.places[which]
            forecasts[which], hints[which] = arena.state.forecasts[places], arena.state.hints[places]
        return forecasts, hints, self.outcomes


class Settled:
    """Forecasts with their outcomes, in the order in which these came."""

    def __init__(self) -> None:
        self._found: list[tuple[Issued, Any] | Rounds] = []

    def add(self, issued: Issued, outcome: Any) -> None:
        """One of a key without seat."""
        self._found.append((issued, outcome))

    def add_rounds(self, rounds: Rounds) -> None:
        """Those of keys with seats."""
        self._found.append(rounds)

    def count(self, reliability: Reliability | None) -> None:
        """Count them, one after the other, when the keys have run; they are settled no longer."""
        one_by_one = list[tuple[Issued, Any]]()
        for some in self._found if reliability is not None else ():
            assert reliability is not None
            if isinstance(some, Rounds):
                reliability.add(one_by_one)
                one_by_one.clear()
                reliability.add_events(*some.told())
            else:
                one_by_one.append(some)
        if reliability is not None:
            reliability.add(one_by_one)
        self._found.clear()
