"""Sums over all keys that are kept as the keys change, so that reading them costs no look at every key."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

from msgspec import Struct

from onlinecal.engine.keyed import KeyState, Summary

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
    hot
        The keys in memory.
    cold
        Names and summaries of all other keys.
    """

    def __init__(self, hot: Iterable[KeyState], cold: Iterable[Line]) -> None:
        self._sums = [0, 0, 0, 0, 0]
        self._counted: dict[KeyState, Summary] = {}
        self._stale = dict.fromkeys(hot)
        self._cold: dict[str, Summary] = {}
        for name, summary in cold:
            self._exchange(NOTHING, summary)
            self._remember(name, summary)

    def loaded(self, state: KeyState) -> None:
        """A cold key came into memory."""
        self._counted[state] = state.summary()
        self._cold.pop(state.name, None)

    def touched(self, states: Iterable[KeyState]) -> None:
        """Something happened to these keys."""
        self._stale.update(dict.fromkeys(states))

    def dropped(self, state: KeyState) -> None:
        """A key leaves the memory."""
        if state in self._stale:
            del self._stale[state]
            self._count(state)
        self._remember(state.name, self._counted.pop(state))

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
        lines = [(state.name, summary) for state, summary in self._counted.items()]
        return nlargest(limit, [*lines, *self._cold.items()], key=per_round)

    def _catch_up(self) -> None:
        for state in self._stale:
            self._count(state)
        self._stale.clear()

    def _count(self, state: KeyState) -> None:
        now = state.summary()
        self._exchange(self._counted.get(state, NOTHING), now)
        self._counted[state] = now

    def _exchange(self, old: Summary, new: Summary) -> None:
        sums = self._sums
        sums[0] += new.rounds - old.rounds
        sums[1] += new.open - old.open
        sums[2] += new.expired - old.expired
        sums[3] += int(new.certificate * UNIT) - int(old.certificate * UNIT)
        sums[4] += int(new.guarantee * UNIT) - int(old.guarantee * UNIT)

    def _remember(self, name: str, summary: Summary) -> None:
        self._cold[name] = summary
        if len(self._cold) >= 2 * REMEMBERED:
            self._cold = dict(nlargest(REMEMBERED, self._cold.items(), key=per_round))


def per_round(line: Line) -> float:
    """A key's certificate per settled round; below 0 if none is settled."""
    _, summary = line
    return summary.certificate / summary.rounds if summary.rounds else -1.0
