"""Sums over all keys that are kept as the keys change, so that reading them costs no look at every key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush, nlargest
from operator import itemgetter

from msgspec import Struct

from onlinecal.engine.keys.key import Key, Summary
from onlinecal.engine.watch.key_watch import Scores

UNIT = 2.0**60
"""Sums are integers in units of 1/UNIT: what was added can be taken off again without a trace."""

REMEMBERED = 1_000
"""So many cold keys are candidates for the largest certificate per round; as many for the latest alarm."""

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

    def __init__(self, in_memory: Iterable[Key], cold: Iterable[Line]) -> None:
        self._sums = [0] * len(figures(NOTHING))
        self._stale = dict.fromkeys(in_memory)
        self._counted: dict[str, Summary] = {}
        self._per_round: dict[str, float] = {}
        self._cold: dict[str, None] = {}
        self._most_cold = 2 * REMEMBERED
        self._alarmed: dict[str, int] = {}
        # the oldest open query of each cold key; of those that were loaded since it is out of date
        self._waiting: list[int] = []
        self._woken: Counter[int] = Counter()
        for name, summary in cold:
            self._count(name, summary)
            self._remember(name, summary.oldest)

    def loaded(self, state: Key) -> None:
        """A cold key came into memory."""
        if state.oldest is not None:
            self._woken[state.oldest] += 1
        if state.name in self._cold:
            del self._cold[state.name]
        else:
            self._note(state.name, state.summary())

    def touched(self, states: Iterable[Key]) -> None:
        """Something happened to these keys."""
        self._stale.update(dict.fromkeys(states))

    def dropped(self, state: Key) -> None:
        """A key leaves the memory."""
        if state in self._stale:
            del self._stale[state]
            self._count(state.name, state.summary())
        self._remember(state.name, state.oldest)

    def read(self, events: int, keys: int) -> Total:
        """The sums as of now."""
        self._catch_up()
        rounds, waiting, expired, certificate, guarantee = self._sums[:5]
        return Total(events, keys, rounds, waiting, expired, certificate / UNIT, guarantee / UNIT)

    def largest(self, limit: int) -> list[Line]:
        """The keys with the largest certificate per settled round, the largest first.

        Those of the keys that left the memory long ago compete if they were among the largest then.
        """
        self._catch_up()
        first = nlargest(limit, self._per_round.items(), key=itemgetter(1))
        return [(name, self._counted[name]) for name, _ in first]

    def oldest(self, in_memory: Iterable[Key]) -> int | None:
        """The number of the oldest query that waits, of these keys and all that are cold."""
        while self._waiting and self._woken[self._waiting[0]]:
            self._woken[heappop(self._waiting)] -= 1
        self._woken = +self._woken
        hot = (one for one in (state.oldest for state in in_memory) if one is not None)
        return min((*self._waiting[:1], *hot), default=None)

    def alarms(self) -> tuple[int, int]:
        """How many there were, of forecasts and of hints."""
        self._catch_up()
        return self._sums[5], self._sums[6]

    def alarmed(self, limit: int) -> list[Line]:
        """The keys whose last alarm is the latest, the latest first; of keys as in `largest`."""
        self._catch_up()
        return [
            (name, self._counted[name])
            for name in nlargest(limit, self._alarmed, key=self._alarmed.__getitem__)
        ]

    def scores(self) -> Scores | None:
        """What the settled forecasts of all keys with hints are worth, or of all if there are none."""
        self._catch_up()
        hinted, unhinted = self._sums[7:14], self._sums[14:]
        rounds, *losses = hinted if hinted[0] else unhinted
        if not rounds:
            return None
        means = [one / UNIT / rounds for one in losses]
        return Scores(rounds, *means) if hinted[0] else Scores(rounds, None, None, *means)

    def _catch_up(self) -> None:
        for state in self._stale:
            self._count(state.name, state.summary())
        self._stale.clear()

    def _count(self, name: str, now: Summary) -> None:
        """Put a key's summary into the sums in the place of the last one."""
        before, after = figures(self._counted.get(name, NOTHING)), figures(now)
        self._sums = [total - old + new for total, old, new in zip(self._sums, before, after, strict=True)]
        self._note(name, now)

    def _note(self, name: str, summary: Summary) -> None:
        self._counted[name] = summary
        self._per_round[name] = summary.certificate / summary.rounds if summary.rounds else -1.0
        last = summary.watched and max(
            (one.event for one in (summary.watched.last, summary.watched.last_hint) if one), default=None
        )
        if last:
            self._alarmed[name] = last

    def _remember(self, name: str, oldest: int | None) -> None:
        """Keep a cold key as a candidate, and forget the smallest when there are too many."""
        self._cold[name] = None
        if oldest is not None:
            heappush(self._waiting, oldest)
        if len(self._cold) >= self._most_cold:
            kept = nlargest(REMEMBERED, self._cold, key=self._per_round.__getitem__)
            alarmed = self._cold.keys() & self._alarmed.keys()
            kept += nlargest(REMEMBERED, alarmed, key=self._alarmed.__getitem__)
            for name in self._cold.keys() - set(kept):
                del self._cold[name], self._counted[name], self._per_round[name]
                self._alarmed.pop(name, None)
            # the next time when there are so many more
            self._most_cold = len(self._cold) + REMEMBERED


def figures(summary: Summary) -> tuple[int, ...]:
    """What is summed up: five fields of the summary, the alarms, the scores with hints and without."""
    s, watched = summary, summary.watched
    sums = s.rounds, s.open, s.expired, int(s.certificate * UNIT), int(s.guarantee * UNIT)
    if watched is None:
        return *sums, *(0,) * 14
    scores: tuple[int, ...] = (0,) * 12
    if (one := watched.scores) is not None:
        losses = [
            int(mean * one.rounds * UNIT)
            for mean in (one.brier, one.log_loss, one.brier_constant, one.log_loss_constant)
        ]
        if one.brier_hint is None or one.log_loss_hint is None:
            scores = (*(0,) * 7, one.rounds, *losses)
        else:
            of_hints = [int(mean * one.rounds * UNIT) for mean in (one.brier_hint, one.log_loss_hint)]
            scores = (one.rounds, *of_hints, *losses, *(0,) * 5)
    return *sums, watched.alarms, watched.hint_alarms, *scores
