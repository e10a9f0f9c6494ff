"""Turns: another system, such as Spark, hands over a key's bytes and events, and gets bytes and answers back.

That system keeps the bytes, brings each key's events in their order, and makes each turn count once. The
bytes contain the state that the engine on one machine keeps, and the same judge decides about the events.

Between two turns nothing of a key is kept here: a turn loads its key into an empty book, judges the events,
makes the bytes, and drops the key again. A turn that fails leaves a new, empty book. So the turns of a key
may be taken on any machine, and those of other keys may come in between; but a `KeyTurns` has no lock, and
takes one turn at a time. Alarms are in the key's bytes, and nobody is told of them here.

The bytes are a saved format: one byte, STATE_FORMAT, and a `TurnState`. Its fields, and those of a `Record`
and a `ParkedOutcome` in it, are told apart by their order. Whoever changes a field, or its place, raises
STATE_FORMAT. They have no checksum of their own, but the key's state in them has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from onlinecal.compiling import without_garbage_collection
from onlinecal.engine.columns import QUERY, Columns, columns_of_events
from onlinecal.engine.config import EngineConfig, KeyConfig
from onlinecal.engine.events import Answer, Incoming, Rejected
from onlinecal.engine.judge import Batch
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger.file import REPAIR_ADVICE
from onlinecal.engine.ledger.schema import Record, Snapshot, loaded_outcome
from onlinecal.engine.parking import ParkedOutcome, Parking, ParkingCounts
from onlinecal.validation import check_count
from onlinecal.version import STATE_FORMAT, check_format

RESTORE_ADVICE = "Restore the store of states from a backup (on Spark: the checkpoint)"
"""What can be done about a damaged state: there is no ledger to repair."""


class TurnState(Struct, array_like=True):
    """What the bytes of a key hold, behind one byte for the format.

    Attributes
    ----------
    config
        The checksum of the key's configuration.
    number
        How many events of the key were accepted.
    state
        The state that the engine keeps of a key.
    records
        The forecasts that are open or remembered, in the order of their queries.
    parked, parking
        The outcomes that wait for their queries, and the counts of all that were ever parked; None if none
        was.
    """

    config: int
    number: int
    state: bytes
    records: list[Record]
    parked: list[ParkedOutcome] = []
    parking: ParkingCounts | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(TurnState)


class KeyTurns:
    """Lets keys take their turns, one after the other.

    Parameters
    ----------
    config
        What forecasters the keys get; the same at every turn of a key.
    remember
        An accepted event that comes again is answered as it was the first time, as long as its forecast is
        open or fewer than so many events of the key were accepted since.

    Raises
    ------
    ValueError
        remember is not a whole number from 1 on, or the configuration cannot be.
    """

    def __init__(self, config: EngineConfig, remember: int) -> None:
        self.config, self.remember = config, check_count(remember, "remember")
        self._book = Book(self.config)
        # all fields are encoded: which ones msgspec leaves out depends on how the configuration was made
        self._config_checksums = {
            place: crc32(_encoder.encode(_values_of(settings.config)))
            for place, settings in self._book.settings.items()
        }

    def __call__(
        self, key: str, data: bytes | None, events: Iterable[Incoming | Rejected]
    ) -> tuple[bytes | None, list[Answer]]:
        """Answer a key's events in their order.

        Parameters
        ----------
        key
            Its name; queries must carry the same.
        data
            The key's bytes after its last turn; None if there are none.
        events
            All events of the turn, or what could not be read as one.

        Returns
        -------
        The key's bytes after the turn, equal for equal histories however they were cut into turns, None as
        long as no event was accepted or parked; and one answer for each event.

        Raises
        ------
        ValueError
            The bytes are damaged, of another format, or were kept with another configuration.
        """
        after, batch = self.turn(key, data, columns_of_events(events))
        return after, batch.answers()

    def turn(self, key: str, data: bytes | None, columns: Columns) -> tuple[bytes | None, Batch]:
        """Let a key take its turn with events in columns; the batch has the answers."""
        try:
            with without_garbage_collection():
                return self._turn(key, data, columns)
        except BaseException:
            # the rest of a failed turn must not stay in the book
            self._book = Book(self.config)
            raise

    def _turn(self, name: str, data: bytes | None, columns: Columns) -> tuple[bytes | None, Batch]:
        book, place = self._book, self.config._place_for(name)
        before = self._read(name, data, self._config_checksums[place])
        if before.state:
            # keys have no numbers here
            try:
                book.load([Snapshot(0, name, place, before.number, before.state)])
            except ValueError as error:
                raise ValueError(str(error).replace(REPAIR_ADVICE, RESTORE_ADVICE)) from error
        for i, kind in enumerate(columns.kinds):
            if kind == QUERY and columns.keys[i] != name:
                columns.refuse(
                    i, "invalid", f"key must be {name!r}, whose events these are, got {columns.keys[i]!r}"
                )
        book.parking = Parking(self.config.park, before.parked, before.parking)
        records = {record.id: record for record in before.records}
        batch = Batch(book, before.number, 0, columns, self.remember)
        batch.judge(records)
        key, parking = book.keys.get(name), book.parking
        parked = (list(parking.waiting.values()), parking.counts) if parking.counts.parked else ()
        if key is None:
            return self._packed(name, 0, b"", [], *parked) if parked else data, batch
        waiting = set(book.query_numbers(key.entries()))
        closings = zip(*batch.closings(), strict=True)
        oldest = batch.number - self.remember
        kept = [
            record
            for record in closed_by([*before.records, *batch.records_of(name)], closings)
            if (record.closed or record.number) > oldest or record.number in waiting
        ]
        book.release()
        book.arrays.raised.clear()
        after = self._packed(name, batch.number, key.dump(book.ids), kept, *parked)
        book.drop([key])
        return after, batch

    def adopt(self, key: str, number: int, state: bytes, records: list[Record]) -> bytes:
        """The bytes of a key that goes on from a state of the engine.

        `number` is that of the last accepted event. `records` are the forecasts that are open or remembered.
        """
        return self._packed(key, number, state, records)

    def _packed(self, key: str, *kept: Any) -> bytes:
        config = self._config_checksums[self.config._place_for(key)]
        return bytes([STATE_FORMAT]) + _encoder.encode(TurnState(config, *kept))

    def _read(self, key: str, data: bytes | None, config: int) -> TurnState:
        if data is None:
            return TurnState(config, 0, b"", [])
        damaged = f"the state of key {key!r} is damaged: its bytes are missing or changed. {RESTORE_ADVICE}"
        if not data:
            raise ValueError(damaged)
        check_format(f"the state of key {key!r}", data[0])
        try:
            kept = _decoder.decode(data[1:])
        except msgspec.MsgspecError as error:
            raise ValueError(damaged) from error
        if kept.config != config:
            raise ValueError(
                f"the state of key {key!r} was kept with another configuration: give config as it was then, "
                "or begin without states (Spark: with a new checkpoint)"
            )
        return kept


def closed_by(records: list[Record], closings: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
    """The records, with their closings where these are among `closings`."""
    closing = {asked: (number, loaded_outcome(value), time) for number, asked, value, time in closings}
    for record in records:
        end = closing.get(record.number)
        yield record if end is None else Record(*record[:7], *end)


def _values_of(config: KeyConfig) -> tuple[Any, ...]:
    """The values of all fields that forecasts depend on, which are all but `max_jump`."""
    return tuple(value for name, value in asdict(config).items() if name != "max_jump")
