"""What a batch of events comes to: an answer for each, and the rows that the ledger gets.

An event is judged by what is known of its id: from the ledger, from the book of keys in memory, and from the
events before it in the same batch. Only accepted events change anything. What is said about a forecast that is
closed, or that is asked for once more, depends on nothing that comes later; it is put into words at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onlinecal.engine.columns.columns import REFUSED, WITHDRAW, Columns
from onlinecal.engine.columns.scanning import QUERY
from onlinecal.engine.events import Answer, Forecast, Rejected, Settled, Withdrawn
from onlinecal.engine.keys.binary_key import MOST_OPEN
from onlinecal.engine.keys.book import Book
from onlinecal.engine.keys.class_key import ClassKey
from onlinecal.engine.keys.key import Key
from onlinecal.engine.ledger.schema import ByColumns, Record, stored, stored_outcome

EVER = float("inf")


class Batch:
    """Judges events one after the other; `number` and `keys_known` count on from those of the ledger.

    Parameters
    ----------
    book
        The keys; all that the events name are in it, if the ledger knows them.
    records
        What the ledger knows of the ids that are not open.
    number, keys_known
        Those of the last event and of the last key.
    columns
        The events.
    remember
        What was closed so many accepted events ago is not known any more.
    """

    def __init__(
        self,
        book: Book,
        records: dict[str, Record],
        number: int,
        keys_known: int,
        columns: Columns,
        remember: float = EVER,
    ) -> None:
        self.book, self.records, self.columns, self.remember = book, records, columns, remember
        self.number, self.keys_known = number, keys_known
        self.created: list[tuple[int, str, int]] = []
        # events by id: what asked for it, and what closed it, in this batch
        self._asked: dict[str, int] = {}
        self._closed: dict[str, int] = {}
        # accepted events in their order, with their entries and their numbers
        self._queries: list[tuple[int, int, int]] = []
        self._closings: list[tuple[int, int, int]] = []
        self._kept: dict[int, Any] = {}
        self._answers: dict[int, Answer | int] = dict(columns.refusals)

    def judge(self) -> None:
        """Judge all events, and let the keys take their steps."""
        columns, book = self.columns, self.book
        keys, open_entries, owners = book.keys, book.open, book.owners
        ids, names, wide, records, asked = columns.ids, columns.keys, columns.wide, self.records, self._asked
        hints, values = columns.hints.tolist(), columns.values.tolist()
        times = [None if time != time else time for time in columns.times.tolist()]
        queries, closings, closed, kept = self._queries, self._closings, self._closed, self._kept
        for i, kind in enumerate(columns.kinds):
            id = ids[i]
            if kind == QUERY:
                key = keys.get(names[i])
                hint = hints[i]
                if (
                    key is None
                    or not key.settings.plain
                    or key.spent
                    or key.waiting >= MOST_OPEN
                    or i in wide
                    or id in asked
                    or id in records
                ):
                    key = self._unusual_query(i)
                    if key is None:
                        continue
                    hint = kept[i]
                elif hint != hint:
                    hint = None
                self.number += 1
                entry = book.ask(key, id, self.number, hint, times[i])
                asked[id] = i
                queries.append((i, entry, self.number))
            elif kind != REFUSED:
                entry = open_entries.get(id, -1)
                value = values[i]
                if (
                    entry < 0
                    or kind == WITHDRAW
                    or i in wide
                    or not owners[entry].settings.plain
                    or names[i] not in ("", owners[entry].name)
                ):
                    if not self._unusual_closing(i, entry):
                        continue
                    value = kept[i]
                self.number += 1
                closed[id] = i
                closings.append((i, entry, self.number))
                book.close(entry, self.number, value, times[i])
        book.play()
        self._collect()

    # -- rules

    def _refuse(self, i: int, reason: str, detail: str) -> None:
        self._answers[i] = Rejected(self.columns.ids[i], reason, detail)

    def _unusual_query(self, i: int) -> Key | None:
        """All rules of a query: its key if it is accepted, with its hint in `_kept`; else it has its answer."""
        book, columns = self.book, self.columns
        id, name, time = columns.ids[i], columns.keys[i], columns.time(i)
        key = book.keys.get(name)
        place, settings = book.settings_for(name) if key is None else (0, key.settings)
        try:
            hint = settings.kind.hint_of(columns.hint(i))
        except ValueError as error:
            return self._refuse(i, "invalid", str(error))
        self._kept[i] = hint
        self._forget(id)
        before: tuple[Any, ...]
        if id in self._asked:
            first = self._asked[id]
            self._answers[i] = first
            before = columns.keys[first], self._kept.get(first, columns.hint(first)), columns.time(first)
        elif id in self.records:
            record = self.records[id]
            self._answers[i] = Forecast(id, name, record.probability, record.certificate)
            before = record.key, record.hint, record.time
        else:
            problem = settings.problem_of_time(time, key.clock if key else None)
            if problem is not None:
                return self._refuse(i, "invalid", problem)
            if key is None:
                self.keys_known += 1
                self.created.append((self.keys_known, name, place))
                key = book.create(name, self.keys_known, settings)
            if key.is_full_at(time, book.waits):
                spent = "its integers bear no more rounds" if key.spent else f"{key.waiting} forecasts are open"
                return self._refuse(i, "full", f"key {name!r} takes no queries: {spent}")
            return key
        for field, old, new in zip(("key", "hint", "time"), before, (name, hint, time), strict=True):
            if old != new:
                return self._refuse(i, "duplicate", f"id {id!r} has been asked with {field} {old!r}")
        return None

    def _unusual_closing(self, i: int, entry: int) -> bool:
        """All rules of an outcome or a withdrawal: whether it is accepted, with its value in `_kept`."""
        book, id = self.book, self.columns.ids[i]
        if entry < 0:
            self._closed_before(i, id)
            return False
        key, time = book.owners[entry], self.columns.time(i)
        try:
            value = self._kept[i] = self._value(i, key.name)
            problem = key.settings.problem_of_time(time, key.clock)
            if problem is not None:
                raise ValueError(problem)
            if key.is_over(book.times[entry], time):
                self._refuse(i, "expired", f"forecast {id!r} has expired")
                return False
            if value is not None and isinstance(key, ClassKey):
                key.admit(entry, value)
        except ValueError as error:
            self._refuse(i, "invalid", str(error))
            return False
        return True

    def _closed_before(self, i: int, id: str) -> None:
        """An event about a forecast that is not open: right if it is the one that closed it."""
        self._forget(id)
        record, first = self.records.get(id), self._closed.get(id)
        if first is not None:
            name = self._name_of(id)
            closing = self._value_of(first), self.columns.time(first)
        elif record is not None:
            name, closing = record.key, (record.value, record.closed_time)
        else:
            name = self.book.given_up.get(id, "")
        if not name:
            self._refuse(i, "unknown", f"no forecast was asked for with id {id!r}")
            return
        try:
            value = self._value(i, name)
        except ValueError as error:
            self._refuse(i, "invalid", str(error))
            return
        if first is None and (record is None or record.closed is None):
            self._refuse(i, "expired", f"forecast {id!r} has expired")
        elif (value, self.columns.time(i)) == closing:
            self._answers[i] = self._closing_answer(i)
        else:
            before, then = closing
            how = "withdrawn" if before is None else "settled"
            with_value = "" if before is None else f" with value {before!r}"
            at_time = "" if then is None else f" at time {then!r}"
            self._refuse(i, how, f"forecast {id!r} has been {how} before{with_value}{at_time}")

    def _name_of(self, id: str) -> str:
        """The key of a forecast that was closed in this batch."""
        name: str = self.book.owners[self._entry_of(self._closed[id])].name
        return name

    def _entry_of(self, closing: int) -> int:
        return next(entry for i, entry, _ in self._closings if i == closing)

    def _value(self, i: int, name: str) -> Any:
        """The outcome as it is kept, None for a withdrawal; ValueError if it cannot be one of that key."""
        given = self.columns.keys[i]
        if given and given != name:
            raise ValueError(f"key must be that of the forecast, {name!r}, got {given!r}")
        if self.columns.kinds[i] == WITHDRAW:
            return None
        key = self.book.keys.get(name)
        settings = key.settings if key else self.book.settings_for(name)[1]
        return settings.kind.outcome_of(self.columns.value(i))

    def _value_of(self, i: int) -> Any:
        """That of a closing that was accepted."""
        return self._kept[i] if i in self._kept else int(self.columns.values[i])

    def _closing_answer(self, i: int) -> Answer:
        id = self.columns.ids[i]
        return Withdrawn(id) if self.columns.kinds[i] == WITHDRAW else Settled(id)

    def _forget(self, id: str) -> None:
        """Drop what is known of a forecast that is not open, if that is too long ago."""
        if self.remember == EVER or id in self.book.open:
            return
        record, last = self.records.get(id), None
        if id in self._closed:
            last = next(number for i, _, number in reversed(self._closings) if i == self._closed[id])
        elif record is not None:
            last = record.closed or record.number
        elif id in self._asked:
            last = next(number for i, _, number in reversed(self._queries) if i == self._asked[id])
        if last is not None and self.number - last >= self.remember:
            for known in (self.records, self._asked, self._closed, self.book.given_up):
                known.pop(id, None)

    # -- what came of it

    def _collect(self) -> None:
        """Take up what was forecast, when the keys have run."""
        self._probabilities, self._certificates = self.book.answers([entry for _, entry, _ in self._queries])

    def answers(self) -> list[Answer]:
        """One answer for each event, in their order."""
        columns, found = self.columns, list[Any]([None]) * len(self.columns)
        ids, names = columns.ids, columns.keys
        told = zip(self._queries, self._probabilities, self._certificates, strict=True)
        for (i, _, _), probability, certificate in told:
            found[i] = Forecast(ids[i], names[i], probability, certificate)
        for i, _, _ in self._closings:
            found[i] = self._closing_answer(i)
        for i, answer in self._answers.items():
            found[i] = found[answer] if type(answer) is int else answer
        return found

    def query_rows(self) -> ByColumns:
        """The rows of the new queries."""
        columns, book = self.columns, self.book
        which = [i for i, _, _ in self._queries]
        entries = [entry for _, entry, _ in self._queries]
        hints, times = columns.hints[which].tolist(), columns.times[which].tolist()
        return ByColumns(
            [number for _, _, number in self._queries],
            [columns.ids[i] for i in which],
            [book.owners[entry].number for entry in entries],
            [
                stored(self._kept[i]) if i in self._kept else None if hint != hint else hint
                for i, hint in zip(which, hints, strict=True)
            ],
            [None if time != time else time for time in times],
            list(map(stored, self._probabilities)),
            self._certificates,
        )

    def closing_rows(self) -> ByColumns:
        """The rows of the new closings."""
        columns = self.columns
        which = [i for i, _, _ in self._closings]
        times = columns.times[which].tolist()
        return ByColumns(
            [number for _, _, number in self._closings],
            [self.book.numbers[entry] for _, entry, _ in self._closings],
            [stored_outcome(self._value_of(i)) for i in which],
            [None if time != time else time for time in times],
        )

    def records_of(self, key: str) -> Iterable[Record]:
        """The new queries as the ledger would give them back, of a batch about one key."""
        for (i, _, number), p, c in zip(self._queries, self._probabilities, self._certificates, strict=True):
            hint = self._kept.get(i, self.columns.hint(i))
            yield Record(number, self.columns.ids[i], key, hint, self.columns.time(i), p, c, None, None, None)

    def refused(self) -> list[Rejected]:
        """The refusals among the answers."""
        return [one for _, one in sorted(self._answers.items()) if type(one) is Rejected]
