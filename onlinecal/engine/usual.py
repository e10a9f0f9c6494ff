"""Events as they mostly are, judged many at a time.

The rules are those of `Batch`, which judges whatever is not as usual. Usual are queries with new ids for keys
that live in an arena and never expire, and outcomes 0 and 1 of their open forecasts. Next to nothing can be
wrong with these, and what remains is accounting, in compiled code (`keys.judging`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.engine.batch import Asked, Batch, Row
from onlinecal.engine.columns.columns import FEW, Columns, LineColumns, answer_lines, optional
from onlinecal.engine.columns.scanning import ID, KEY, ODD, OUTCOME, QUERY
from onlinecal.engine.events import Answer, Forecast, Incoming, Query, Rejected, Settled, encode_lines
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.judging import (
    ASKED,
    AT,
    BEGUN,
    DIRTIED,
    DIRTY,
    EVENTS,
    GUIDED,
    NUMBER,
    PLACE,
    PLAYER,
)
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.playing import ASKS
from onlinecal.engine.keys.settled import Rounds
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.ledger.schema import ByColumns, Record
from onlinecal.engine.looking_up import NONE, Unknown, take_seats, width_of
from onlinecal.forecasters.binary.cells import NO_HINT

MOST_OPEN = 1 << 20
"""No key is full if so many forecasts of all keys are open."""

QueryRow = tuple[int, str, int, Any, float | None, Any, float]


class UsualBatch(Batch):
    """Judges the events in columns.

    `judged` are answers, or what was asked; None for events that were judged with others. `asks` and `tells`
    are the places of these in the columns, queries and outcomes, after `collect`.
    """

    def __init__(
        self,
        keys: KeyCache,
        records: dict[str, Record],
        number: int,
        keys_known: int,
        columns: Columns,
        known: Unknown,
    ) -> None:
        super().__init__(keys, records, number, keys_known)
        self.columns, self._known = columns, known
        self.few = keys.few = len(columns) < FEW
        self.judged: list[Answer | Asked | None] = [None] * len(columns)
        self.asks = self.tells = NONE
        # what was asked for with others, and again alone: to be answered as the first time
        self._repeated: list[tuple[int, Issued]] = []
        self._placed: dict[str, int] = {}
        self._closings: dict[str, int] = {}
        self._indexed = self._done = 0

    def judge_all(self) -> None:
        """Judge all events, in their order."""
        n = len(self.columns)
        if self.few:
            self._one_by_one(0, n)
            return
        take_seats(self.columns, self.keys, self.records, self._known)
        start, alone = 0, 1
        while start < n:
            done = self._together(start)
            if done == n:
                return
            # looking at events together is in vain where most are odd
            alone = 1 if done - start >= FEW else 2 * alone
            start = min(n, done + alone)
            self._one_by_one(done, start)

    def _one_by_one(self, start: int, end: int) -> None:
        for i in range(start, end):
            self.judged[i] = self.judge(self.columns.event(i))

    def judge(self, event: Incoming | Rejected) -> Answer | Asked:
        """The answer to an event, as `Batch` has it; of many events none asks under its id again."""
        before = len(self.asked)
        answer = super().judge(event)
        if len(self.asked) > before and not self.few:
            _, state, _, issued = self.asked[event.id]  # type: ignore[index]
            if state.seat < 0 and issued.id.isascii():
                self.keys.register.hold(issued.id)
        return answer

    def create(self, name: str) -> KeyState:
        """A key that was never met before; it gets the seat that was kept for it, if one was."""
        state = super().create(name)
        seat = self.keys.register.seat_kept_for(name)
        if seat >= 0:
            self.keys.take_seat(state, seat)
        return state

    def _together(self, start: int) -> int:
        """Judge events up to the first one that is not as usual; where that is."""
        keys, register, known = self.keys, self.keys.register, self._known
        events, judged = known.events, known.judged
        if len(keys.open) + len(events.kinds) - start > MOST_OPEN:
            return start
        asks = int(np.count_nonzero(events.kinds[start:] == QUERY))
        done = register.judge(events, judged, start, self.number, asks, width_of(self.columns))
        end = int(done[AT])
        if end > start:
            self.number = int(done[EVENTS])
            if done[BEGUN]:
                self._create_all(judged.found[2, : done[BEGUN]])
            self._take_account(judged.found[0, : done[DIRTIED]], judged.found[1, : done[GUIDED]])
            self._note(start, end)
            self._done = end
        return end

    def _create_all(self, seats: Ints) -> None:
        """New keys, in the seats that were kept for them."""
        names = [self.keys.register.expected[seat] for seat in seats.tolist()]
        places = self.keys.config.places_for(names)
        self.created += zip(count(self.keys_known + 1), names, places)
        self.keys.create_seated(names, places, seats, self.keys_known + 1)
        self.keys_known += len(names)

    def _take_account(self, dirty: Ints, guided: Ints) -> None:
        """Note which keys the ledger lacks something of, and which have their first hint."""
        states, book = self.keys.register.states, self.keys.register.book
        for seat, number in zip(dirty.tolist(), book.seats[dirty, DIRTY].tolist(), strict=True):
            self.keys.dirty.setdefault(states[seat], number)
        if len(guided):
            self.keys.begin_steering(guided)

    def _note(self, start: int, end: int) -> None:
        """Leave steps for the arenas, and what is settled to be counted."""
        keys, columns, judged = self.keys, self.columns, self._known.judged
        register, span = keys.register, slice(start, end)
        seats, entries = judged.seats[span], judged.entries[span]
        asks, values = columns.kinds[span] == QUERY, columns.values[span]
        players, entered = register.book.seats[seats, PLAYER], register.book.entries
        of_arena = keys.arenas_of(seats)
        for arena, which in of_arena:
            mine = entries[which[asks[which]]]
            entered[mine, PLACE] = arena.take_places(len(mine))
        places = entered[entries, PLACE]
        steps = np.where(asks, ASKS, values).astype(np.int64)
        hints = columns.hints[span]
        guides = np.where(hints == hints, hints, NO_HINT)
        for arena, which in of_arena:
            arena.note(tuple(one[which] for one in (players, places, steps, guides, judged.numbers[span])))
        told = np.flatnonzero(~asks)
        if len(told):
            register.close_together(entries[told])
            if keys.reliability is not None:
                keys.settled.add_rounds(Rounds(keys.arenas_of(seats[told]), places[told], values[told]))

    def collect(self) -> None:
        """Keep what came of the events that were judged together, when the keys have run."""
        known, register = self._known, self.keys.register
        judged = known.judged
        if not len(judged.numbers):
            return
        together = judged.numbers > 0
        self.keys.touch_seats(judged.seats[together])
        kinds = self.columns.kinds
        self.asks, self.tells = (np.flatnonzero(together & (kinds == kind)) for kind in (QUERY, OUTCOME))
        seats, entries = judged.seats[self.asks], judged.entries[self.asks]
        places = register.book.entries[entries, PLACE]
        self.forecasts, self.certificates = np.empty(len(places)), np.empty(len(places))
        for arena, which in self.keys.arenas_of(seats):
            self.forecasts[which] = arena.state.forecasts[places[which]]
            self.certificates[which] = arena.state.certificates[places[which]]
        self._keys_asked = register.book.seats[seats, NUMBER]
        self._queries = register.book.entries[judged.entries[self.tells], ASKED]
        if self._repeated:
            at = dict(zip(self.asks.tolist(), range(len(self.asks)), strict=True))
            for i, issued in self._repeated:
                issued.probability = float(self.forecasts[at[i]])
                issued.certificate = float(self.certificates[at[i]])

    def _index(self) -> None:
        """List the ids of what was judged together so far."""
        start, columns, self._indexed = self._indexed, self.columns, self._done
        if start == self._done:
            return
        new = start + np.flatnonzero(self._known.judged.numbers[start : self._done])
        for kind, at in ((QUERY, self._placed), (OUTCOME, self._closings)):
            which = new[columns.kinds[new] == kind]
            at.update(zip(columns.texts(which, ID), which.tolist(), strict=True))

    def asked_before(self, id: Any) -> Asked | None:
        """A query of this batch."""
        found = super().asked_before(id)
        if found is None:
            self._index()
            i, judged = self._placed.get(id), self._known.judged
            if i is not None:
                state = self.keys.register.states[int(judged.seats[i])]
                assert state is not None
                hint, time = optional(self.columns.hints[[i]])[0], optional(self.columns.times[[i]])[0]
                issued = Issued(id, int(judged.numbers[i]), time, hint, 0)
                self._repeated.append((i, issued))
                return Query(id, state.name, hint, time), state, hint, issued
        return found

    def closed_before(self, id: Any) -> tuple[Row, str] | None:
        """A closing of this batch."""
        found = super().closed_before(id)
        if found is None:
            self._index()
            i, judged = self._closings.get(id), self._known.judged
            if i is not None:
                state = self.keys.register.states[int(judged.seats[i])]
                query = int(self.keys.register.book.entries[judged.entries[i], ASKED])
                assert state is not None
                row = int(judged.numbers[i]), query, int(self.columns.values[i])
                return (*row, optional(self.columns.times[[i]])[0]), state.name
        return found

    def answers(self) -> list[Answer]:
        """The answers, when the keys have run."""
        columns = self.columns
        found: list[Any] = [None if one is None else self.answer(one) for one in self.judged]
        if len(self.asks):
            texts = columns.texts(self.asks, ID), columns.texts(self.asks, KEY)
            told = self.forecasts.tolist(), self.certificates.tolist()
            for place, id, key, p, c in zip(self.asks.tolist(), *texts, *told, strict=True):
                found[place] = Forecast(id, key, p, c)
        if len(self.tells):
            for place, id in zip(self.tells.tolist(), columns.texts(self.tells, ID), strict=True):
                found[place] = Settled(id)
        return found

    def lines(self) -> bytes:
        """The answers as lines of JSON; the columns are those of lines, or few."""
        columns = self.columns
        if not isinstance(columns, LineColumns) or not (len(self.asks) or len(self.tells)):
            return encode_lines(self.answers())
        kinds = np.full(len(columns), ODD, np.int8)
        kinds[self.asks], kinds[self.tells] = QUERY, OUTCOME
        floats = np.empty(2 * len(self.asks))
        floats[::2], floats[1::2] = self.forecasts, self.certificates
        others = [encode_lines([self.answer(one)]) for one in self.judged if one is not None]
        return answer_lines(kinds, columns.data, columns.spans, floats.tolist(), others)

    def kinds(self) -> Counter[type]:
        """How many answers there are of each type."""
        found: Counter[type] = Counter([Forecast if type(one) is tuple else type(one) for one in self.judged])
        del found[type(None)]
        return found if self.few else found + Counter({Forecast: len(self.asks), Settled: len(self.tells)})

    def refused(self) -> list[Rejected]:
        """Of these, the refusals."""
        return [one for one in self.judged if type(one) is Rejected]

    def query_rows(self) -> Iterable[QueryRow]:
        """The rows of the new queries."""
        own, asks, judged = super().query_rows(), self.asks, self._known.judged
        if not len(asks):
            return own
        columns = self.columns
        all_asked = len(asks) == np.count_nonzero(columns.kinds == QUERY)
        ids = self._known.ids[: len(asks)] if all_asked else columns.texts(asks, ID)
        rows = ByColumns(
            judged.numbers[asks].tolist(),
            ids,
            self._keys_asked.tolist(),
            optional(columns.hints[asks]),
            optional(columns.times[asks]),
            self.forecasts.tolist(),
            self.certificates.tolist(),
        )
        return sorted([*own, *rows]) if own else rows

    def closing_rows(self) -> Iterable[Row]:
        """The rows of the new closings."""
        own, tells, judged = super().closing_rows(), self.tells, self._known.judged
        if not len(tells):
            return own
        values = self.columns.values[tells].astype(np.int64).tolist()
        times = optional(self.columns.times[tells])
        rows = ByColumns(judged.numbers[tells].tolist(), self._queries.tolist(), values, times)
        return sorted([*own, *rows]) if own else rows
