"""Sums over all keys that are kept as the keys change, so that reading them costs no look at every key."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from operator import itemgetter

from msgspec import Struct

from onlinecal.engine.keys.state import KeyState, Summary

UNIT = 2.0**60
"""Sums are integers in units of 1/UNIT: what was added can be taken off again without a trace."""

REMEMBERED = 1_000
"""So many cold keys are candidates for the largest certificate per round."""

NOTHING = Summary(0, 0, 0, 0.0, 0.0, None)

Line = tuple[str, Summary]


class Total(Struct, frozen=True):
    """All keys together.

    Attributes
    ----------
    events, keys
        How many events were accepted, and how many keys they belong to.
    rounds, open, expired, certificate, guarantee
        As in a key's `Summary`, summed: a union of calibrated sequences is calibrated.
    """

    events: int
    keys: int
    rounds: int
    open: int
    expired: int
    certificate: float
    guarantee: float


class Totals:
    """The sums, told of every key that is loaded, touched or dropped.

    A touched key is looked at when the sums are read, once however often it was touched.

    Parameters
    ----------
    in_memory
        The keys in memory.
    cold
        Names and summaries of all other keys.
    """

    def __init__(self, in_memory: Iterable[KeyState], cold: Iterable[Line]) -> None:
        self._sums = [0, 0, 0, 0, 0]
        self._stale = dict.fromkeys(in_memory)
        self._counted: dict[str, Summary] = {}
        self._per_round: dict[str, float] = {}
        self._cold: dict[str, None] = {}
        for name, summary in cold:
            self._count(name, summary)
            self._remember(name)

    def loaded(self, state: KeyState) -> None:
        """A cold key came into memory."""
        if state.name in self._cold:
            del self._cold[state.name]
        else:
            self._note(state.name, state.summary())

    def touched(self, states: Iterable[KeyState]) -> None:
        """Something happened to these keys."""
        self._stale.update(dict.fromkeys(states))

    def dropped(self, state: KeyState) -> None:
        """A key leaves the memory."""
        if state in self._stale:
            del self._stale[state]
            self._count(state.name, state.summary())
        self._remember(state.name)

    def read(self, events: int, keys: int) -> Total:
        """The sums as of now."""
        self._catch_up()
        rounds, waiting, expired, certificate, guarantee = self._sums
        return Total(events, keys, rounds, waiting, expired, certificate / UNIT, guarantee / UNIT)

    def largest(self, limit: int) -> list[Line]:
        """The keys with the largest certificate per settled round, the largest first.

        Those of the keys that left the memory long ago compete if they were among the largest then.
        """
        self._catch_up()
        first = nlargest(limit, self._per_round.items(), key=itemgetter(1))
        return [(name, self._counted[name]) for name, _ in first]

    def _catch_up(self) -> None:
        for state in self._stale:
            self._count(state.name, state.summary())
        self._stale.clear()

    def _count(self, name: str, now: Summary) -> None:
        """Put a key's summary into the sums in the place of the last one."""
        sums, before = self._sums, self._counted.get(name, NOTHING)
        sums[0] += now.rounds - before.rounds
        sums[1] += now.open - before.open
        sums[2] += now.expired - before.expired
        sums[3] += int(now.certificate * UNIT) - int(before.certificate * UNIT)
        sums[4] += int(now.guarantee * UNIT) - int(before.guarantee * UNIT)
        self._note(name, now)

    def _note(self, name: str, summary: Summary) -> None:
        self._counted[name] = summary
        self._per_round[name] = summary.certificate / summary.rounds if summary.rounds else -1.0

    def _remember(self, name: str) -> None:
        """Keep a cold key as a candidate, and forget the smallest when there are too many."""
        self._cold[name] = None
        if len(self._cold) >= 2 * REMEMBERED:
            ascending = sorted(self._cold, key=self._per_round.__getitem__)
            for small in ascending[:-REMEMBERED]:
                del self._cold[small], self._counted[small], self._per_round[small]
