"""Events as they mostly are, judged many at a time.

The rules are those of `Batch`, which judges whatever is not as usual. Usual are queries with new ids for keys
that live in an arena and never expire, and outcomes 0 and 1 of their open forecasts. Next to nothing can be
wrong with these, and what remains is accounting, column by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, filterfalse, repeat
from operator import attrgetter
from typing import Any

import numpy as np

from onlinecal.engine.batch import Asked, Batch, Row
from onlinecal.engine.columns.answering import answer_lines
from onlinecal.engine.columns.columns import FEW, Columns, LineColumns, optional, picked
from onlinecal.engine.columns.scanning import ODD, OUTCOME, QUERY
from onlinecal.engine.events import Answer, Forecast, Query, Rejected, Settled, encode_lines, is_name
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.playing import ASKS
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.ledger.records import Record
from onlinecal.forecasters.binary.cells import NO_HINT

MOST_OPEN = 1 << 20
"""No key is full if so many forecasts of all keys are open."""


def unknown(columns: Columns, keys: KeyCache) -> tuple[list[Any], list[str], dict[KeyState, None]]:
    """Ids and names of keys that the ledger may know something of; keys that are to wake."""
    ids: dict[Any, None] = {}
    found: list[KeyState | None] = []
    cold: dict[str, None] = {}
    rest: Iterable[int] = range(len(columns))
    if len(columns) >= FEW:
        asks, tells, odd = (np.flatnonzero(columns.kinds == kind).tolist() for kind in (QUERY, OUTCOME, ODD))
        asked, told = ([columns.ids[i] for i in places] for places in (asks, tells))
        names, rest = [columns.keys[i] for i in asks], odd
        ids.update(dict.fromkeys(asked))
        ids.update(dict.fromkeys(filterfalse(keys.open.__contains__, told)))
        cold.update(dict.fromkeys(filterfalse(keys.states.__contains__, names)))
        if keys.packed:
            found += map(keys.states.get, names)
            found += map(keys.open.get, told)
    for i in rest:
        event = columns.event(i)
        if type(event) is Query:
            _add(ids, event.id)
            if type(event.key) is str and event.key in keys.states:
                found.append(keys.states[event.key])
            else:
                _add(cold, event.key)
        elif not isinstance(event, Rejected):
            if type(event.id) is str and event.id in keys.open:
                found.append(keys.open[event.id])
            else:
                _add(ids, event.id)
    packed = dict.fromkeys(state for state in found if state is not None and state.packed is not None)
    return list(ids), list(cold), packed


def _add(names: dict[Any, None], name: Any) -> None:
    """What is no name is in no ledger."""
    if is_name(name):
        names[name] = None


QueryRow = tuple[int, str, int, Any, float | None, Any, float]


class UsualBatch(Batch):
    """Judges the events in columns.

    `judged` are answers, or what was asked; None for events that were judged with others.
    """

    def __init__(
        self, keys: KeyCache, records: dict[str, Record], number: int, keys_known: int, columns: Columns
    ) -> None:
        super().__init__(keys, records, number, keys_known)
        self.columns = columns
        self.judged: list[Answer | Asked | None] = [None] * len(columns)
        # of queries that were judged with others: their places in the columns, keys and forecasts
        self.places: list[int] = []
        self.states: list[KeyState] = []
        self.issued: list[Issued] = []
        # of outcomes: places, rows, and names of keys
        self.told: list[int] = []
        self.rows: list[Row] = []
        self.names: list[str] = []
        self._query_at: dict[str, int] = {}
        self._asked_at: dict[str, int] = {}
        self._told_at: dict[str, int] = {}

    def judge_all(self) -> None:
        """Judge all events, in their order."""
        start, end = 0, len(self.columns)
        if end < FEW:
            self._one_by_one(0, end)
            return
        for odd in self._odd():
            self._between(start, odd)
            self._one_by_one(odd, odd + 1)
            start = odd + 1
        self._between(start, end)

    def _odd(self) -> list[int]:
        """Events that are not as usual, whatever the others are; later ones with an id that came before."""
        columns, odd = self.columns, self.columns.kinds == ODD
        for kind in (QUERY, OUTCOME):
            places = np.flatnonzero(columns.kinds == kind).tolist()
            places.reverse()
            first = dict(zip(map(columns.ids.__getitem__, places), places, strict=True))
            if len(first) < len(places):
                odd[list(set(places) - set(first.values()))] = True
            if kind == QUERY:
                self._query_at = first
                odd[[first[id] for id in self.records.keys() & first.keys()]] = True
        return np.flatnonzero(odd).tolist()

    def _between(self, start: int, end: int) -> None:
        while end - start >= FEW:
            done = self._together(start, end)
            if done == end:
                return
            # looking at events together takes a part of what judging them does, and was in vain for most
            alone = min(end, done + max(FEW, (end - done) // 8))
            self._one_by_one(done, alone)
            start = alone
        self._one_by_one(start, end)

    def _one_by_one(self, start: int, end: int) -> None:
        for i in range(start, end):
            self.judged[i] = self.judge(self.columns.event(i))

    def _together(self, start: int, end: int) -> int:
        """Judge events up to the first one that is not as usual; where that is."""
        keys, columns = self.keys, self.columns
        found = self._states(start, end)
        end = start + len(found)
        if not found:
            return end
        span, number = slice(start, end), self.number + 1
        self.number += len(found)
        numbers = range(number, self.number + 1)
        times, hints = columns.times[span], columns.hints[span]
        asks = columns.kinds[span] == QUERY
        asked_at = self._account_for(found, numbers, optional(times))
        asked_for: list[Issued] = []
        steered: list[KeyState] = []
        queries, outcomes = np.flatnonzero(asks).tolist(), np.flatnonzero(~asks).tolist()
        ids = columns.ids[span]
        places = np.empty(len(found), np.int64)
        of_arena = keys.by_arena(found)
        for arena, which in of_arena:
            mine = asks[which]
            places[which[mine]] = arena.take_places(int(mine.sum()))
        if queries:
            pick = picked(queries)
            names, states = pick(ids), pick(found)
            asked_for = list(
                map(
                    Issued, names, pick(numbers), pick(asked_at), pick(optional(hints)), repeat(0),
                    repeat(None), repeat(0.0), places[queries].tolist(),
                )
            )  # fmt: skip
            for state, id, one in zip(states, names, asked_for, strict=True):
                state.open[id] = one
                if one.hint is not None and not state.steered:
                    state.steered = True
                    steered.append(state)
            keys.open.update(zip(names, states, strict=True))
            self.places += map(start.__add__, queries)
            self.states += states
            self.issued += asked_for
        if outcomes:
            pick = picked(outcomes)
            names, states = pick(ids), pick(found)
            closed = [state.open.pop(id) for state, id in zip(states, names, strict=True)]
            for id in names:
                del keys.open[id]
            places[outcomes] = list(map(attrgetter("cell"), closed))
            values = columns.values[span][outcomes].astype(np.int64).tolist()
            before = map(attrgetter("number"), closed)
            told = pick(optional(times))
            self.told += map(start.__add__, outcomes)
            self.rows += zip(pick(numbers), before, values, told, strict=True)
            self.names += map(attrgetter("name"), states)
            if keys.reliability is not None:
                keys.settled += zip(closed, values, strict=True)
        players = np.array(list(map(attrgetter("player"), found)))
        steps = np.where(asks, ASKS, columns.values[span]).astype(np.int64)
        guides = np.where(hints == hints, hints, NO_HINT)
        asked = np.zeros(len(found), object)
        asked[queries] = asked_for
        for arena, which in keys.by_arena(steered):
            arena.begin_steering_together([steered[i].player for i in which.tolist()])
        for arena, which in of_arena:
            noted = players[which], places[which], steps[which], guides[which], number + which
            arena.note(noted, asked[which[asks[which]]].tolist())
        return end

    def _states(self, start: int, end: int) -> list[KeyState]:
        """The keys of events up to the first one that is not as usual; new ones are made."""
        known, waiting, columns = self.keys.states, self.keys.open, self.columns
        ids, names = columns.ids[start:end], columns.keys[start:end]
        asks = (columns.kinds[start:end] == QUERY).tolist()
        if len(waiting) + end - start > MOST_OPEN:
            return []
        found = [
            known.get(name) if asked else waiting.get(id)
            for asked, id, name in zip(asks, ids, names, strict=True)
        ]
        look = [i for i, state in enumerate(found) if state is None or not state.usual]
        keyed, again = columns.keyed[start:end], set[int]()
        if not self.asked.keys().isdisjoint(ids):
            again = {i for i, id in enumerate(ids) if asks[i] and id in self.asked}
        if again or keyed.any():
            look = sorted({*look, *again, *np.flatnonzero(keyed).tolist()})
        for i in look:
            name, state = names[i], found[i]
            if i in again:
                state = None
            elif state is None:
                if asks[i]:
                    state = known.get(name)
                    if state is None and self.keys.settings_for(name)[1].usual:
                        state = self.create(name)
                else:
                    place = self._query_at.get(ids[i], end) - start
                    state = found[place] if 0 <= place < i else None
                found[i] = state
            if state is None or not state.usual or not (asks[i] or name is None or name == state.name):
                del found[i:]
                break
        return found  # type: ignore[return-value]

    def _account_for(
        self, states: list[KeyState], numbers: Iterable[int], times: Sequence[float | None]
    ) -> Sequence[float | None]:
        """Note that something happens to keys, at these times or, for None, what their clocks show then.

        The clocks go on; answers the times.
        """
        dirty, shown = self.keys.dirty, []
        self.keys.touched.update(dict.fromkeys(states))
        for state, number, time in zip(states, numbers, times, strict=True):
            clock = state.clock
            if time is None:
                time = clock
            elif clock is None or time > clock:
                state.clock = time
            shown.append(time)
            if state not in dirty:
                dirty[state] = number
        return shown

    def asked_before(self, id: Any) -> Asked | None:
        """A query of this batch."""
        found = super().asked_before(id)
        if found is None and self.places:
            known = self._asked_at
            known.update((self.issued[i].id, i) for i in range(len(known), len(self.issued)))
            i = known.get(id)
            if i is not None:
                one, state, time = self.issued[i], self.states[i], float(self.columns.times[self.places[i]])
                query = Query(one.id, state.name, one.hint, None if time != time else time)
                return query, state, one.hint, one
        return found

    def closed_before(self, id: Any) -> tuple[Row, str] | None:
        """A closing of this batch."""
        found = super().closed_before(id)
        if found is None and self.told:
            known = self._told_at
            known.update((self.columns.ids[self.told[i]], i) for i in range(len(known), len(self.told)))
            i = known.get(id)
            if i is not None:
                return self.rows[i], self.names[i]
        return found

    def answers(self) -> list[Answer]:
        """The answers, when the keys have run."""
        columns = self.columns
        found: list[Any] = [None if one is None else self.answer(one) for one in self.judged]
        for place, one, state in zip(self.places, self.issued, self.states, strict=True):
            found[place] = Forecast(one.id, state.name, one.probability, one.certificate)
        for place in self.told:
            found[place] = Settled(columns.ids[place])
        return found

    def lines(self) -> bytes:
        """The answers as lines of JSON; the columns are those of lines, or few."""
        columns = self.columns
        if not isinstance(columns, LineColumns) or not (self.places or self.told):
            return encode_lines(self.answers())
        kinds = np.full(len(columns), ODD, np.int8)
        kinds[self.places], kinds[self.told] = QUERY, OUTCOME
        floats = list(chain.from_iterable(map(attrgetter("probability", "certificate"), self.issued)))
        others = [encode_lines([self.answer(one)]) for one in self.judged if one is not None]
        return answer_lines(kinds, columns.data, columns.spans, floats, others)

    def kinds(self) -> Counter[type]:
        """How many answers there are of each type."""
        found = Counter(type(self.answer(one)) for one in self.judged if one is not None)
        return found + Counter({Forecast: len(self.places), Settled: len(self.told)})

    def refused(self) -> list[Rejected]:
        """Of these, the refusals."""
        return [one for one in self.judged if type(one) is Rejected]

    def query_rows(self) -> Iterable[QueryRow]:
        """The rows of the new queries."""
        own, issued = super().query_rows(), self.issued
        if not issued:
            return own
        times = optional(self.columns.times)
        rows = zip(
            map(attrgetter("number"), issued),
            map(attrgetter("id"), issued),
            map(attrgetter("number"), self.states),
            map(attrgetter("hint"), issued),
            picked(self.places)(times),
            map(attrgetter("probability"), issued),
            map(attrgetter("certificate"), issued),
            strict=True,
        )
        return sorted([*own, *rows]) if own else rows

    def closing_rows(self) -> list[Row]:
        """The rows of the new closings."""
        own = super().closing_rows()
        return sorted([*own, *self.rows]) if own else self.rows
