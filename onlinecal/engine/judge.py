"""The judge decides about a batch of events: each event gets an answer, and the ledger gets rows.

An event is judged by what is known of its id: from the ledger, from the book of keys in memory, and from the
events before it in the same batch. Only events that are accepted or parked change anything. The answer about
a forecast that is closed, or that is asked for once more, depends on nothing that comes later, until turns
have forgotten it (`remember`) or it was archived.

The rules, of which the first that fits decides:

    a query                                                 is answered by
        whose hint its key cannot have                      invalid
        whose id was asked for with the same fields         the forecast, as it was then
        whose id was asked for with others                  duplicate
        whose time is too far ahead of the key's clock      invalid
        of a key that is full                               full
        else                                                a forecast; it is settled by the outcome that is
                                                            parked for it, unless one of the rules below
                                                            refuses that outcome, which is then dropped

    an outcome or a withdrawal                              is answered by
        whose id was never asked for                        as in the next table
        with a key that is not the forecast's               invalid
        with a value that the key cannot have               invalid
        of a forecast that has expired                      expired
        of a forecast closed by the same value and time     as it was then
        of a forecast closed in another way                 settled, withdrawn
        whose time is too far ahead of the key's clock      invalid
        that comes after its forecast's time is over        expired
        that names more classes than the key may know, or
        is a soft label that its grid cannot bear           invalid
        else                                                settled, withdrawn (the accepting answers)

    of an id that was never asked for                       is answered by
        any, if `park` is 0 and none is parked              unknown
        an outcome that no key can have                     invalid
        an outcome like the one that is parked              parked
        any other, if one is parked                         parked (a rejection)
        a withdrawal                                        unknown
        an outcome for which there is no room               full
        else                                                parked, it waits for its query

`Batch` has them in `_judge_query`, `_judge_closing` and `_judge_unasked`. Of the plain events, `accept`
(keys/playing.py) takes those that fall through to the last line of each of the first two tables, where no
outcome is parked; any other plain event is left to the judge.

A batch is used once, in this order. It is made. Its caller looks up the `unknown` ids, and loads the keys
that are needed into the book. It may `judge` then, and tells the book what it accepts. `rows`, `closings` and
`records_of` are asked for before the book is told to `release`; `answers` and `refused` at any time after
`judge`. The caller keeps other threads away: the engine by its mutex, turns by taking one at a time.

The order of the rules, and the words for them, are a contract (docs/engine-contract.md). The log does not
depend on them: a replay plays the accepted events, and does not judge them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from math import inf
from typing import Any

import msgspec
import numpy as np

from onlinecal.engine.columns import (
    FEW_EVENTS,
    OUTCOME,
    QUERY,
    REFUSED,
    WITHDRAW,
    Columns,
    none_for_nan,
    values_at,
)
from onlinecal.engine.events import Answer, Forecast, Parked, Rejected, Settled, Withdrawn
from onlinecal.engine.keys.book import Book, for_each
from onlinecal.engine.keys.key import ClassKey, Key
from onlinecal.engine.keys.playing import (
    AWAITED,
    KEY,
    KNOWN,
    NEW,
    NOBODY,
    OWNER,
    PLAIN,
    UNKNOWN,
    EventTable,
)
from onlinecal.engine.ledger.schema import ByColumns, Record, by_columns, stored, stored_outcome
from onlinecal.engine.settings import KeySettings
from onlinecal.texts import shown


class Batch:
    """Judges the events of a batch one after the other.

    `number` and `keys_known` go on from those of the ledger. An outcome that was parked in an earlier batch
    is an event of this one, behind the others, if this one names its id; it gets no answer.

    What is known of a forecast stands in the event table, in the row of the first event that names it.
    Between two events each row is up to date, but for forecasts that have expired meanwhile: `entries` says
    whether the forecast is open, `asked` and `closed` which events of this batch did that. An event has a
    number there exactly if it was accepted, and an answer in `_answers` exactly if it was not accepted, or
    was parked. Once the table is made, two write it, in turns: the compiled `accept`, for runs of plain
    events that it accepts; and `_one_by_one`, for the other events that are accepted or parked, and for
    forecasts that have expired meanwhile or are forgotten.

    Parameters
    ----------
    book
        The keys in memory.
    number, keys_known
        The numbers of the last event and of the last key before the batch.
    columns
        The events.
    remember
        A forecast that was closed so many accepted events ago is forgotten.
    """

    def __init__(
        self, book: Book, number: int, keys_known: int, columns: Columns, remember: float = inf
    ) -> None:
        self.book, self.columns, self.remember = book, columns, remember
        self.number, self.keys_known = number, keys_known
        self.records: dict[str, Record] = {}
        self.created: list[tuple[int, str, int]] = []
        # checked hints and outcomes, by event; others are kept as the columns have them
        self._checked: dict[int, Any] = {}
        # answers that are no news: by event; an int is the event that was answered in the same way
        self._answers: dict[int, Answer | int] = dict(columns.refusals)
        # keys that were made for queries which may yet be refused
        self._new: list[Key] = []
        self._few, self._n = len(columns) < FEW_EVENTS, len(columns)
        # the event of each parked outcome, by id
        self._parked: dict[str, int] = {}
        if book.parking.waiting:
            self._bring_parked()
        # the row of a forecast is the first event that names it; these are the rows of ids, and of events
        self._index: dict[str, int] = {}
        self._rows = list(map(self._index.setdefault, columns.ids, range(len(columns))))
        self._entries = list(map(book.open.get, columns.ids, repeat(UNKNOWN)))

    def _bring_parked(self) -> None:
        """Add the parked outcomes of the ids in this batch to its events."""
        waiting, columns = self.book.parking.waiting, self.columns
        for id in sorted(waiting.keys() & set(columns.ids)):
            outcome, self._parked[id] = waiting[id], len(columns)
            columns.append(id, outcome.key, outcome.outcome(), outcome.time)

    def unknown(self) -> list[str]:
        """The ids to look up in the ledger: those that are not open, or are asked for again."""
        entries = self._entries
        ids = [id for id, row in self._index.items() if entries[row] == UNKNOWN]
        if len(ids) < len(self._index):
            columns, known = self.columns, self.book.open
            ids += [
                id
                for id, kind in zip(columns.ids, columns.kinds, strict=True)
                if kind == QUERY and id in known
            ]
        return ids

    def _event_table(self) -> Any:
        """The table of the events; it has lists if they are few, since arrays would cost more than they."""
        columns, index, n = self.columns, self._index, len(self.columns)
        rows, entries = self._rows, self._entries
        # the key of a forecast may have been loaded meanwhile
        for id in self.records.keys() & index.keys():
            entries[index[id]] = self.book.open.get(id, KNOWN)
        for id in self._parked:
            entries[index[id]] = AWAITED
        if self._few:
            none, nothing, zeros = [-1] * n, list[Any](), [0] * n
            few: tuple[Any, ...] = (rows, entries, none, [*none], zeros, [*zeros])
            return EventTable(columns.kinds, nothing, nothing, nothing, *few)  # type: ignore[arg-type]
        kinds = np.frombuffer(columns.kinds, np.int8)
        known = map(self.book.first_lanes.get, columns.keys, repeat(NOBODY))
        first_lanes = np.fromiter(known, np.int64, n)
        self._create_keys(kinds, first_lanes)
        asked, closed = np.full((2, n), -1)
        at, numbers = np.zeros((2, n), np.int64)
        places = np.fromiter(rows, np.int64, n), np.fromiter(entries, np.int64, n)
        arrays = *places, asked, closed, at, numbers
        return EventTable(kinds, np.zeros(n, np.bool_), np.asarray(columns.times), first_lanes, *arrays)

    def _create_keys(self, kinds: Any, first_lanes: Any) -> None:
        """Make the keys that begin with a plain query, and fill in their first lanes."""
        book, names = self.book, self.columns.keys
        named = np.flatnonzero(first_lanes == NOBODY).tolist()
        for i in named:
            if kinds[i] == QUERY and names[i] not in book.keys:
                settings = book.settings_for(names[i])
                if settings.plain:
                    self._new.append(book.create(names[i], NEW, settings))
        first_lanes[named] = [book.first_lanes.get(names[i], NOBODY) for i in named]

    def _mark_plain(self) -> None:
        """Mark the events of which only the id can be wrong."""
        table, columns, state = self._table, self.columns, self.book.arrays.state
        queries, closings = table.kinds == QUERY, table.kinds == OUTCOME
        # row 0 belongs to no key
        is_plain = state.fields[np.maximum(table.first_lanes, 0), PLAIN] != 0
        # one id may be asked of keys of different kinds: then its outcomes are not plain, unless its forecast
        # is open, so that its key is known
        of_row = np.zeros(len(table.entries), np.bool_)
        of_row[table.rows[queries & is_plain]] = True
        of_row[table.rows[queries & ~is_plain]] = False
        there = table.entries >= 0
        of_row[there] = state.fields[state.open[table.entries[there], OWNER], PLAIN] != 0
        table.plain[:] = (queries & is_plain) | (
            closings & of_row[table.rows] & (table.first_lanes != NOBODY)
        )
        table.plain[list(columns.unusual)] = False
        table.plain[self._n :] = False

    def judge(self, records: dict[str, Record]) -> None:
        """Judge all events, and let the keys take their steps.

        `records` is what the ledger knows of the `unknown` ids. The book has all keys of these that it knows.
        """
        self.records, n = records, self._n
        self._table = self._event_table()
        if self._few:
            self._one_by_one(0, n)
        else:
            self._mark_plain()
        start, alone = n if self._few else 0, 1
        while start < n:
            done, self.number, begun = self.book.accept(self._table, self.columns, start, self.number)
            self._number_keys(begun)
            # where few events are plain, ever more are judged alone before plain ones are looked for again
            alone = 1 if done - start >= FEW_EVENTS else 2 * alone
            start = min(n, done + alone)
            self._one_by_one(done, start)
        if self._new:
            numbers = self.book.arrays.state.fields[[key.first_lane for key in self._new], KEY].tolist()
            self.book.drop([key for key, number in zip(self._new, numbers, strict=True) if number == NEW])
        if self.book.parking.waiting:
            self.book.parking.drop_old(self.number)
        self.book.play()
        self._collect()

    def _one_by_one(self, start: int, end: int) -> None:
        columns, table, book = self.columns, self._table, self.book
        for i in range(start, end):
            kind, id, row, time = columns.kinds[i], columns.ids[i], table.rows[i], columns.time(i)
            if kind == REFUSED:
                continue
            entry = int(table.entries[row])
            if entry >= 0 and id not in book.open:
                # it has expired meanwhile
                entry = table.entries[row] = KNOWN
            try:
                key = self._judge_query(i, row) if kind == QUERY else self._judge_closing(i, row, entry)
            except ValueError as error:
                self._refuse(i, "invalid", str(error))
                continue
            if key is None:
                continue
            if kind == QUERY:
                if key.number == NEW:
                    self._number_keys([key])
                entry = book.ask(key, id, self.number + 1, self._checked[i], time)
                table.entries[row], table.asked[row] = entry, i
                self._number_event(i, entry)
                if id in self._parked:
                    self._settle_parked(id, row, entry)
            else:
                self._close(i, row, entry)

    def _close(self, i: int, row: int, entry: int) -> None:
        """Accept an outcome or a withdrawal."""
        self.book.close(entry, self.number + 1, self._checked[i], self.columns.time(i))
        self._table.entries[row], self._table.closed[row] = KNOWN, i
        self._number_event(i, entry)

    def _number_event(self, i: int, entry: int) -> None:
        self.number += 1
        self._table.at[i], self._table.numbers[i] = entry, self.number

    def _settle_parked(self, id: str, row: int, entry: int) -> None:
        """Settle a new forecast by the outcome that is parked for it, or drop the outcome if it cannot be."""
        i, parking = self._parked.pop(id), self.book.parking
        parking.drop_old(self.number - 1)
        if id not in parking.waiting:
            return
        try:
            key = self._judge_closing(i, row, entry)
        except ValueError as error:
            self._refuse(i, "invalid", str(error))
            key = None
        if key is None:
            refusal = self._answers[i]
            assert isinstance(refusal, Rejected)
            parking.drop(refusal)
        else:
            parking.settle(id)
            self._close(i, row, entry)
        # that was the answer to the outcome, and is no further one
        self._answers[i] = Parked(id)

    def _number_keys(self, keys: list[Key]) -> None:
        numbers = range(self.keys_known + 1, self.keys_known + 1 + len(keys))
        self.book.arrays.state.fields[[key.first_lane for key in keys], KEY] = numbers
        self.created += [(i, key.name, key.settings.place) for i, key in zip(numbers, keys, strict=True)]
        self.keys_known += len(keys)

    # -- rules

    def _refuse(self, i: int, reason: str, detail: str) -> None:
        self._answers[i] = Rejected(self.columns.ids[i], reason, detail)

    def _refuse_expired(self, i: int, id: str, after: float) -> None:
        self._refuse(
            i,
            "expired",
            f"forecast {id!r} has expired: those of its key wait for {after:g} seconds (expire_after). Send "
            "outcomes sooner, or begin a new ledger with a larger expire_after",
        )

    def _judge_query(self, i: int, row: int) -> Key | None:
        """The key of an accepted query, whose hint is then in `_checked`; None if it is answered already.

        What raises ValueError here, or in the next, is invalid.
        """
        book, columns, table = self.book, self.columns, self._table
        id, name, time = columns.ids[i], columns.keys[i], columns.time(i)
        key = book.keys.get(name)
        settings = key.settings if key else book.settings_for(name)
        hint = self._checked[i] = settings.kind.hint_of(columns.hint(i))
        self._forget(id, row)
        first, record = int(table.asked[row]), self.records.get(id)
        before: tuple[Any, ...]
        if first >= 0:
            self._answers[i] = first
            before = columns.keys[first], self._hint(first), columns.time(first)
        elif record is not None:
            self._answers[i] = Forecast(id, name, record.probability, record.certificate)
            before = record.key, record.hint, record.time
        else:
            settings.check_time(time, key.clock if key else None)
            if key is None:
                key = book.create(name, NEW, settings)
            if key.is_full_at(time, book.waits):
                self._refuse(i, "full", f"key {name!r} takes no more queries: {key.why_full()}")
                return None
            return key
        for field, old, new in zip(("key", "hint", "time"), before, (name, hint, time), strict=True):
            if old != new:
                was = f"id {id!r} was used before, with {field} {shown(old)}, not {shown(new)}"
                self._refuse(i, "duplicate", f"{was}: give each query an id of its own")
                break
        return None

    def _judge_closing(self, i: int, row: int, entry: int) -> Key | None:
        """The key of an accepted closing, whose value is then in `_checked`; None if it is answered."""
        book, id = self.book, self.columns.ids[i]
        if entry < 0:
            self._closed_before(i, row, id)
            return None
        key, time = book.owner(entry), self.columns.time(i)
        value = self._checked[i] = self._value(i, key.name)
        key.settings.check_time(time, key.clock)
        if key.is_over(book.asked_at(entry), time):
            self._refuse_expired(i, id, key.settings.expire_after)
            return None
        if value is not None and isinstance(key, ClassKey):
            key.admit(entry, value)
        return key

    def _closed_before(self, i: int, row: int, id: str) -> None:
        """Answer an event about a forecast that is not open: it may be the closing event, sent again."""
        self._forget(id, row)
        record, first = self.records.get(id), int(self._table.closed[row])
        if first >= 0:
            name = self.book.owner(int(self._table.at[first])).name
            closing = self._outcome(first), self.columns.time(first)
        elif record is not None:
            name, closing = record.key, (record.value, record.closed_time)
        else:
            name = self.book.given_up.get(id, "")
        if not name:
            self._judge_unasked(i, row, id)
            return
        value = self._value(i, name)
        if first < 0 and (record is None or record.closed is None):
            self._refuse_expired(i, id, self._settings(name).expire_after)
        elif (value, self.columns.time(i)) == closing:
            self._answers[i] = Withdrawn(id) if self.columns.kinds[i] == WITHDRAW else Settled(id)
        else:
            before, then = closing
            how = "withdrawn" if before is None else "settled"
            with_value = "" if before is None else f" with value {shown(before)}"
            at_time = "" if then is None else f" at time {then!r}"
            was = f"forecast {id!r} has been {how} before{with_value}{at_time}"
            self._refuse(i, how, f"{was}, and cannot be changed: got {self._in_words(i, value, then)}")

    def _judge_unasked(self, i: int, row: int, id: str) -> None:
        """Answer an outcome or a withdrawal whose query has not come: park it, if it may be parked."""
        parking, columns = self.book.parking, self.columns
        key, time, is_outcome = columns.keys[i], columns.time(i), columns.kinds[i] == OUTCOME
        parking.drop_old(self.number)
        parked, value = parking.waiting.get(id), None
        if is_outcome and (parking.most or parked is not None):
            value = msgspec.json.encode(self._any_value(i)).decode()
        if parked is not None:
            is_same = msgspec.json.decode(value) == parked.outcome() if value is not None else False
            if is_same and time == parked.time and key in ("", parked.key or key):
                self._answers[i] = Parked(id)
                return
            at_time = "" if parked.time is None else f" at time {parked.time!r}"
            waits = f"an outcome of {id!r} waits for its query already"
            was = f"{waits}, with value {shown(parked.outcome())}{at_time}"
            got = self._in_words(i, None if value is None else msgspec.json.decode(value), parked.time)
            if key and parked.key and key != parked.key:
                was, got = f"{was} and key {parked.key!r}", f"{got} and key {key!r}"
            self._refuse(i, "parked", f"{was}, and cannot be changed: got {got}")
        elif value is None:
            advice = (
                ", or set park in the configuration, so that outcomes wait for their queries"
                if is_outcome
                else ""
            )
            self._refuse(i, "unknown", f"no forecast with id {id!r} is known: send its query first{advice}")
        elif why := parking.lack_of_room(value):
            why = f"{why}: send it again after its query"
            self._refuse(i, "full", f"outcome of {id!r} came before its query, and cannot be parked: {why}")
        else:
            parking.add(id, key, value, time, self.number)
            self._parked[id], self._table.entries[row] = i, AWAITED
            self._answers[i] = Parked(id)

    def _any_value(self, i: int) -> Any:
        """The value of an outcome whose query has not come; ValueError if no key can have it.

        If it names a key, that key's outcomes are meant. A label or a soft label stays as it came, since each
        kind of key reads it in its own way.
        """
        value, name, book = self.columns.value(i), self.columns.keys[i], self.book
        why = None
        for settings in [book.settings_for(name)] if name else book.settings.values():
            try:
                checked = settings.kind.outcome_of(value)
            except ValueError as error:
                why = why or error
            else:
                return value if isinstance(value, str | dict) else checked
        assert why is not None
        raise why

    def _value(self, i: int, name: str) -> Any:
        """The outcome, checked, None for a withdrawal; ValueError if a key of that name cannot have it."""
        named = self.columns.keys[i]
        if named and named != name:
            raise ValueError(
                f"key must be that of the query, {name!r}, got {named!r}: correct it, or leave it out"
            )
        if self.columns.kinds[i] == WITHDRAW:
            return None
        return self._settings(name).kind.outcome_of(self.columns.value(i))

    def _settings(self, name: str) -> KeySettings:
        key = self.book.keys.get(name)
        return key.settings if key else self.book.settings_for(name)

    def _in_words(self, i: int, value: Any, before: float | None) -> str:
        """An outcome or a withdrawal, for a refusal; `before` is the time of the one before it."""
        time = self.columns.time(i)
        what = "a withdrawal" if self.columns.kinds[i] == WITHDRAW else f"value {shown(value)}"
        if time is None:
            return what if before is None else f"{what} without a time"
        return f"{what} at time {time!r}"

    def _hint(self, i: int) -> Any:
        return self._checked[i] if i in self._checked else self.columns.hint(i)

    def _outcome(self, i: int) -> Any:
        return self._checked[i] if i in self._checked else int(self.columns.values[i])

    def _forget(self, id: str, row: int) -> None:
        """Forget a forecast that was closed too long ago, see `remember`."""
        if self.remember == inf or id in self.book.open:
            return
        table, record = self._table, self.records.get(id)
        first, closed = int(table.asked[row]), int(table.closed[row])
        if closed >= 0:
            last = table.numbers[closed]
        elif record is not None:
            last = record.closed or record.number
        elif first >= 0:
            last = table.numbers[first]
        else:
            return
        if self.number - last >= self.remember:
            table.asked[row] = table.closed[row] = -1
            table.entries[row] = UNKNOWN
            self.records.pop(id, None)
            self.book.given_up.pop(id, None)

    # -- results

    def _collect(self) -> None:
        """Collect the forecasts, when the keys have taken their steps."""
        table, kinds = self._table, self.columns.kinds
        # accepted queries, and accepted outcomes and withdrawals, in the order of the events
        if self._few:
            accepted = [i for i, number in enumerate(table.numbers) if number]
            self._queries = [i for i in accepted if kinds[i] == QUERY]
            self._closings = [i for i in accepted if kinds[i] != QUERY]
        else:
            is_query = table.kinds == QUERY
            self._queries = np.flatnonzero((table.numbers > 0) & is_query).tolist()
            self._closings = np.flatnonzero((table.numbers > 0) & ~is_query).tolist()
        self._query_ids = values_at(self.columns.ids, self._queries)
        self._probabilities, self._certificates = self.book.answers(values_at(table.at, self._queries))

    def answers(self) -> list[Answer]:
        """One answer for each event, in their order."""
        columns, queries, closings = self.columns, self._queries, self._closings
        answers: list[Any] = [None] * len(columns)
        names = map(columns.keys.__getitem__, queries)
        forecasts = map(Forecast, self._query_ids, names, self._probabilities, self._certificates)
        for_each(answers.__setitem__, queries, forecasts)
        for_each(answers.__setitem__, closings, map(Settled, map(columns.ids.__getitem__, closings)))
        # all withdrawals are in `_checked`
        for i in self._checked:
            if columns.kinds[i] == WITHDRAW and self._table.numbers[i]:
                answers[i] = Withdrawn(columns.ids[i])
        for i, answer in self._answers.items():
            answers[i] = answers[answer] if type(answer) is int else answer
        del answers[self._n :]
        return answers

    def rows(self) -> dict[str, ByColumns]:
        """The rows for the ledger's tables, before the book is told to `release`."""
        return {
            "keys": by_columns(self.created),
            "queries": self._queries_asked(),
            "closings": self.closings(),
            "parked": by_columns(self.book.parking.added.values()),
        }

    def _queries_asked(self) -> ByColumns:
        columns, table, which = self.columns, self._table, self._queries
        hints: list[Any] = none_for_nan(values_at(columns.hints, which))
        probabilities: list[Any] = self._probabilities
        if self._checked:
            hints = [stored(self._checked.get(i, hint)) for i, hint in zip(which, hints, strict=True)]
            probabilities = list(map(stored, probabilities))
        return (
            values_at(table.numbers, which),
            self._query_ids,
            self.book.key_numbers(values_at(table.at, which)),
            hints,
            none_for_nan(values_at(columns.times, which)),
            probabilities,
            self._certificates,
        )

    def closings(self) -> ByColumns:
        """The rows of the new closings, before the book is told to `release`."""
        columns, table, which = self.columns, self._table, self._closings
        if self._checked:
            values = [stored_outcome(self._outcome(i)) for i in which]
        else:
            values = list(map(int, values_at(columns.values, which)))
        queries, times = self.book.query_numbers(values_at(table.at, which)), values_at(columns.times, which)
        return values_at(table.numbers, which), queries, values, none_for_nan(times)

    def records_of(self, key: str) -> Iterable[Record]:
        """The accepted queries of a batch about one key, as the ledger would return them."""
        columns = self.columns
        for i, p, c in zip(self._queries, self._probabilities, self._certificates, strict=True):
            number = int(self._table.numbers[i])
            yield Record(number, columns.ids[i], key, self._hint(i), columns.time(i), p, c, None, None, None)

    def refused(self) -> list[Rejected]:
        """The refusals among the answers."""
        return [answer for _, answer in sorted(self._answers.items()) if type(answer) is Rejected]
