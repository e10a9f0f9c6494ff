"""Sums over all keys, which are kept up as keys change: to read them, not every key has to be looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush, nlargest
from operator import itemgetter

from msgspec import Struct

from onlinecal.engine.keys.key import EMPTY_SUMMARY, Key, Summary
from onlinecal.engine.watch.key_watch import Scores

UNIT = 2.0**60
"""Sums are integers in units of 1/UNIT: then an old value can be subtracted exactly."""

REMEMBERED = 1_000
"""How many keys not in memory are candidates for the largest certificates; as many for the latest alarms."""

NamedSummary = tuple[str, Summary]


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
    """The sums over all keys. They have to be told of every key that is loaded, has events, or is dropped.

    A key that had events is looked at when the sums are read, once however many events it had.

    Parameters
    ----------
    in_memory
        The keys in memory.
    cold
        Names and summaries of all other keys.
    """

    def __init__(self, in_memory: Iterable[Key], cold: Iterable[NamedSummary]) -> None:
        self._sums = [0] * len(summands(EMPTY_SUMMARY))
        self._stale = dict.fromkeys(in_memory)
        self._counted: dict[str, Summary] = {}
        self._per_round: dict[str, float] = {}
        self._cold: dict[str, None] = {}
        self._most_cold = 2 * REMEMBERED
        self._alarmed: dict[str, int] = {}
        # the oldest open query of each cold key, and of some that were loaded since, which are in `_reloaded`
        self._waiting: list[int] = []
        self._reloaded: Counter[int] = Counter()
        for name, summary in cold:
            self._count(name, summary)
            self._remember(name, summary.oldest)

    def loaded(self, state: Key) -> None:
        """A key was loaded into memory."""
        if state.oldest is not None:
            self._reloaded[state.oldest] += 1
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

    def largest(self, limit: int) -> list[NamedSummary]:
        """The keys with the largest certificate per settled round, the largest first.

        Of keys that left the memory long ago, those are considered that were among the largest then.
        """
        self._catch_up()
        first = nlargest(limit, self._per_round.items(), key=itemgetter(1))
        return [(name, self._counted[name]) for name, _ in first]

    def oldest(self, in_memory: Iterable[Key]) -> int | None:
        """The number of the oldest open query, of the keys in memory and of all others."""
        while self._waiting and self._reloaded[self._waiting[0]]:
            self._reloaded[heappop(self._waiting)] -= 1
        self._reloaded = +self._reloaded
        hot = (one for one in (state.oldest for state in in_memory) if one is not None)
        return min((*self._waiting[:1], *hot), default=None)

    def alarms(self) -> tuple[int, int]:
        """How many alarms there were, of forecasts and of hints."""
        self._catch_up()
        return self._sums[5], self._sums[6]

    def alarmed(self, limit: int) -> list[NamedSummary]:
        """The keys with the latest alarms, the latest first; they are chosen as in `largest`."""
        self._catch_up()
        return [
            (name, self._counted[name])
            for name in nlargest(limit, self._alarmed, key=self._alarmed.__getitem__)
        ]

    def scores(self) -> Scores | None:
        """The scores of the settled forecasts of all keys with hints, or of all keys if none has hints."""
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
        """Replace a key's last summary in the sums by the present one."""
        before, after = summands(self._counted.get(name, EMPTY_SUMMARY)), summands(now)
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
            # forget again when there are so many more
            self._most_cold = len(self._cold) + REMEMBERED


def summands(summary: Summary) -> tuple[int, ...]:
    """The integers of a summary that are summed: five fields, alarms, scores with and without hints."""
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
