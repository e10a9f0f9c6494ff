"""Sums over all keys, kept up as keys change: to read them, not every key has to be looked at.

What is summed of a key is a row of floats, its *figures*. Sums are exact, in units of 2^-60: so the old
figures of a key can be subtracted again, and the order in which keys are counted does not matter.

The book tells of changes: `loaded`, `touched`, `dropped`. The engine makes `Totals` at the first request, and
asks; a report, and a `ColdReading` of keys that are not in memory, make their own. What always holds between
two calls, once `is_complete`: `_sums` are over all keys, each with the figures that were last counted of it,
or 0 if it is new; for a key in memory these are in `_rows`, by its first lane, and it is in `_stale` if it
has had events since. Each question but `oldest` begins with `_catch_up`, which counts the stale keys anew.
`_cold` has those keys not in memory that may be among the largest, or have the latest alarms; `shown` is
filled by the engine. `add_parts` needs figures that are finite and at least 0, which nobody checks.

Nothing here is saved: a new engine counts anew, so everything may change freely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, nlargest
from itertools import chain, islice
from operator import itemgetter
from typing import ClassVar

import numpy as np
from msgspec.structs import astuple

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import Address, Entry, interpreted_first
from onlinecal.engine.keys.key import ClassKey, Key
from onlinecal.engine.keys.playing import NUMBER, OLDEST_OPEN
from onlinecal.engine.watch.account import (
    BOUNDS,
    HINTED_SCORES,
    LAST_ALARM,
    N_FIGURES,
    SCORES,
    UNHINTED_SCORES,
)
from onlinecal.engine.watch.key_watch import Scores, Summary
from onlinecal.engine.watch.overview import NamedSummary, Total

REMEMBERED = 1_000
"""How many keys not in memory are candidates for the largest certificates; as many for the latest alarms."""

COUNTED_TOGETHER = 1_024
"""So many keys that are not in memory are counted in one call."""
HALF_UNIT = 2.0**30
"""Sums are in units of 2^-60, which are counted in two steps."""


def add_parts(rows: Floats, parts: Ints) -> None:
    """Add floats >= 0, by columns, to `parts`, (columns, 3): ones, and units of 2^-30 and of 2^-60."""
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            value = rows[row, column]
            ones = int(value)
            halves = (value - ones) * HALF_UNIT
            parts[column, 0] += ones
            parts[column, 1] += int(halves)
            parts[column, 2] += int((halves - int(halves)) * HALF_UNIT)


class Adding:
    """What adds figures up: an entry point, which is interpreted first."""

    add_parts: ClassVar[Callable[[Floats, Ints], None]]


ADDING = interpreted_first(
    Adding,
    Address(__name__, "ADDING"),
    add_parts=Entry(add_parts, 0, seconds=2e-5, compiling=1.0, rows=lambda rows, parts: len(rows)),
)


class ExactSums:
    """Sums of the figures of keys, each figure rounded down to a multiple of 2^-60."""

    def __init__(self) -> None:
        self._units = [0] * LAST_ALARM

    def add(self, rows: Floats, sign: int = 1) -> None:
        """Add rows of figures, (n, N_FIGURES), or with the sign -1 subtract them."""
        parts = np.zeros((LAST_ALARM, 3), np.int64)
        ADDING.add_parts(rows[:, :LAST_ALARM], parts)
        for column, (ones, halves, units) in enumerate(parts.tolist()):
            self._units[column] += sign * ((ones << 60) + (halves << 30) + units)

    def add_sums(self, other: ExactSums) -> None:
        """Add other sums."""
        self._units = [own + more for own, more in zip(self._units, other._units, strict=True)]

    def whole(self, column: int) -> int:
        """The sum of figures that are whole numbers."""
        return self._units[column] >> 60

    def sum(self, column: int) -> float:
        """A sum, as the nearest float."""
        return self._units[column] / (1 << 60)


def figures_in(summary: Summary) -> list[float]:
    """The figures of a key with this summary; what `KeyArrays.figures` fills in for many."""
    figures, watched = [0.0] * N_FIGURES, summary.watched
    s = summary
    figures[BOUNDS:SCORES] = s.rounds, s.open, s.expired, s.certificate, s.guarantee, 0.0, 0.0
    if watched is None:
        return figures
    figures[SCORES - 2 : SCORES] = watched.alarms, watched.hint_alarms
    if watched.scores is not None:
        rounds, *means = astuple(watched.scores)
        # without hints there are two means less
        losses = [mean * rounds for mean in means if mean is not None]
        start = HINTED_SCORES if len(losses) == 6 else UNHINTED_SCORES
        figures[start : start + 1 + len(losses)] = rounds, *losses
    alarms = watched.last, watched.last_hint
    figures[LAST_ALARM] = max((alarm.event for alarm in alarms if alarm), default=0)
    return figures


def figures_of(keys: Sequence[Key]) -> Floats:
    """The figures of keys in memory, (n, N_FIGURES)."""
    rows, places = np.zeros((len(keys), N_FIGURES)), dict[object, list[int]]()
    for place, key in enumerate(keys):
        if isinstance(key, ClassKey):
            rows[place] = figures_in(key.summary())
        else:
            places.setdefault(key.settings, []).append(place)
    for some in places.values():
        same = [keys[place] for place in some]
        rows[some] = same[0].arrays.figures(same)
    return rows


class Totals:
    """The sums over all keys. They have to be told of every key that is loaded, has events, or is dropped.

    A key that had events is looked at when the sums are read, once however many events it had.

    Parameters
    ----------
    in_memory
        The keys in memory.
    cold
        Names and summaries of all other keys; None: they come later, by `add`.

    Attributes
    ----------
    is_complete
        Whether all keys are counted.
    shown
        For who looks at summaries of keys that are not in memory: those that were read, by name. A key that
        is loaded is removed.
    """

    def __init__(self, in_memory: Iterable[Key], cold: Iterable[NamedSummary] | None) -> None:
        self._sums, self.shown = ExactSums(), dict[str, Summary]()
        self._stale = dict.fromkeys(in_memory)
        # what was counted of each key in memory, by its first lane
        self._rows = np.zeros((0, N_FIGURES))
        # of other keys: the certificate per round, and the event of the last alarm
        self._cold: dict[str, tuple[float, float]] = {}
        self._most_cold = 2 * REMEMBERED
        # the oldest open query of each cold key, and of some that were loaded since, which are in `_reloaded`
        self._waiting: list[int] = []
        self._reloaded: Counter[int] = Counter()
        # the keys that were loaded before `add` counted them
        self._loaded_before: set[str] = set()
        self.is_complete = cold is not None
        lines = iter(cold or ())
        while some := list(islice(lines, COUNTED_TOGETHER)):
            rows = np.array([figures_in(summary) for _, summary in some])
            self._sums.add(rows)
            names, oldest = [name for name, _ in some], [summary.oldest for _, summary in some]
            self._remember(names, rows, oldest)

    def add(self, cold: Totals) -> None:
        """Count the keys that were not in memory when these sums began, as they were then."""
        self._sums.add_sums(cold._sums)
        self._waiting += cold._waiting
        heapify(self._waiting)
        self._cold |= {name: how for name, how in cold._cold.items() if name not in self._loaded_before}
        self._loaded_before.clear()
        self.is_complete = True

    def loaded(self, keys: Sequence[Key]) -> None:
        """Keys were loaded into memory."""
        self._note(keys, figures_of(keys))
        self._reloaded.update(key.oldest for key in keys if key.oldest is not None)
        names = [key.name for key in keys]
        for name in names:
            self._cold.pop(name, None)
            self.shown.pop(name, None)
        if not self.is_complete:
            self._loaded_before.update(names)

    def touched(self, states: Iterable[Key]) -> None:
        """Something happened to these keys."""
        self._stale.update(dict.fromkeys(states))

    def dropped(self, keys: Sequence[Key]) -> None:
        """Keys leave the memory."""
        self._catch_up([key for key in keys if key in self._stale])
        first_lanes = [key.first_lane for key in keys]
        rows = self._counted(first_lanes)
        self._remember([key.name for key in keys], rows, [key.oldest for key in keys])
        self._rows[first_lanes] = 0.0

    def read(self, events: int, keys: int) -> Total:
        """The sums as of now."""
        self._catch_up()
        rounds, waiting, expired = (self._sums.whole(BOUNDS + place) for place in range(3))
        certificate, guarantee = self._sums.sum(BOUNDS + 3), self._sums.sum(BOUNDS + 4)
        return Total(events, keys, rounds, waiting, expired, certificate, guarantee)

    def largest(self, limit: int, in_memory: Iterable[Key]) -> list[str]:
        """The names of the keys with the largest certificate per settled round, the largest first.

        Of keys that left the memory long ago, those are considered that were among the largest then.
        """
        return self._first(limit, in_memory, 0)

    def alarmed(self, limit: int, in_memory: Iterable[Key]) -> list[str]:
        """The names of the keys with the latest alarms, the latest first; chosen as in `largest`."""
        return self._first(limit, in_memory, 1)

    def _first(self, limit: int, in_memory: Iterable[Key], by: int) -> list[str]:
        self._catch_up()
        keys = list(in_memory)
        ranks = ranked_by(self._counted([key.first_lane for key in keys]))[by]
        order = np.argsort(-ranks, kind="stable")[:limit]
        hot = zip((keys[place].name for place in order.tolist()), ranks[order].tolist(), strict=True)
        cold = ((name, ranks_of_cold[by]) for name, ranks_of_cold in self._cold.items())
        # a key without an alarm has the rank 0 among alarms
        candidates = ((name, rank) for name, rank in chain(hot, cold) if by == 0 or rank > 0.0)
        return [name for name, _ in nlargest(limit, candidates, key=itemgetter(1))]

    def oldest(self, in_memory: Iterable[Key]) -> int | None:
        """The number of the oldest open query, of the keys in memory and of all others."""
        while self._waiting and self._reloaded[self._waiting[0]]:
            self._reloaded[heappop(self._waiting)] -= 1
        self._reloaded = +self._reloaded
        numbers, keys = self._waiting[:1], list(in_memory)
        if keys:
            # keys of several classes have no entries there
            state = keys[0].arrays.state
            entries = state.fields[[key.first_lane for key in keys], OLDEST_OPEN]
            numbers += state.open[entries[entries >= 0], NUMBER].tolist()
            of_classes = (key.oldest for key in keys if isinstance(key, ClassKey))
            numbers += [number for number in of_classes if number is not None]
        return min(numbers, default=None)

    def alarms(self) -> tuple[int, int]:
        """How many alarms there were, of forecasts and of hints."""
        self._catch_up()
        return self._sums.whole(SCORES - 2), self._sums.whole(SCORES - 1)

    def scores(self) -> Scores | None:
        """The scores of the settled forecasts of all keys with hints, or of all keys if none has hints."""
        self._catch_up()
        hinted = self._sums.whole(HINTED_SCORES) > 0
        start, end = (HINTED_SCORES, UNHINTED_SCORES) if hinted else (UNHINTED_SCORES, LAST_ALARM)
        rounds = self._sums.whole(start)
        if not rounds:
            return None
        means = [self._sums.sum(place) / rounds for place in range(start + 1, end)]
        return Scores(rounds, *means) if hinted else Scores(rounds, None, None, *means)

    def _counted(self, first_lanes: list[int]) -> Floats:
        """What was counted of keys in memory; new ones get a row."""
        lanes = 1 + max(first_lanes, default=-1)
        if lanes > len(self._rows):
            more = np.zeros((max(lanes, 2 * len(self._rows)), N_FIGURES))
            more[: len(self._rows)] = self._rows
            self._rows = more
        rows: Floats = self._rows[first_lanes]
        return rows

    def _note(self, keys: Sequence[Key], rows: Floats) -> Floats:
        """Keep what is counted of keys in memory; returns what it was."""
        first_lanes = [key.first_lane for key in keys]
        before = self._counted(first_lanes)
        self._rows[first_lanes] = rows
        return before

    def _catch_up(self, keys: Sequence[Key] | None = None) -> None:
        """Count anew what had events, of all keys or of these."""
        some = list(self._stale) if keys is None else keys
        if not some:
            return
        rows = figures_of(some)
        self._sums.add(rows)
        self._sums.add(self._note(some, rows), -1)
        for key in some:
            del self._stale[key]

    def _remember(self, names: list[str], rows: Floats, oldest: list[int | None]) -> None:
        """Keep cold keys as candidates, and forget the smallest when there are too many."""
        self._cold |= zip(
            names, zip(*(ranks.tolist() for ranks in ranked_by(rows)), strict=True), strict=True
        )
        for number in oldest:
            if number is not None:
                heappush(self._waiting, number)
        if len(self._cold) >= self._most_cold:
            kept = nlargest(REMEMBERED, self._cold.items(), key=lambda named: named[1][0])
            alarmed = (named for named in self._cold.items() if named[1][1] > 0.0)
            kept += nlargest(REMEMBERED, alarmed, key=lambda named: named[1][1])
            self._cold = dict(kept)
            self.shown = {name: summary for name, summary in self.shown.items() if name in self._cold}
            # forget again when there are so many more
            self._most_cold = len(self._cold) + REMEMBERED


def ranked_by(rows: Floats) -> tuple[Floats, Floats]:
    """By what keys are ranked: the certificate per settled round, -1 where there is none; the last alarm."""
    rounds, certificates = rows[:, BOUNDS], rows[:, BOUNDS + 3]
    per_round = np.divide(certificates, rounds, out=np.full(len(rows), -1.0), where=rounds > 0.0)
    return per_round, rows[:, LAST_ALARM]
