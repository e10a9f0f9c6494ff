"""One key's turn in a micro-batch of some other system: bytes and events in, bytes and answers out.

That system keeps the bytes, brings each key's events in their order, and sees to it that a turn counts once.
The key's part of the bytes is what the engine on one machine keeps, and the same judge looks at the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from onlinecal.engine.batch import Asked, Row, refuse
from onlinecal.engine.columns.columns import FEW, Columns, EventColumns
from onlinecal.engine.columns.scanning import ID, KEY, ODD, QUERY
from onlinecal.engine.config import EngineConfig, KeyConfig
from onlinecal.engine.events import Answer, Incoming, Query, Rejected
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.packing import garbage_left_alone
from onlinecal.engine.ledger.schema import Record, Snapshot, loaded, loaded_outcome
from onlinecal.engine.looking_up import Unknown, unknown
from onlinecal.engine.usual import UsualBatch
from onlinecal.validation import check_count
from onlinecal.version import STATE_FORMAT, check_format


class KeptKey(Struct, array_like=True):
    """What is kept of a key, behind the byte of the format.

    Attributes
    ----------
    config
        Checksum of the key's configuration.
    number
        How many events were accepted.
    state
        As the engine keeps it.
    records
        The forecasts that are open or remembered, in the order in which they were asked for.
    """

    config: int
    number: int
    state: bytes
    records: list[Record]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(KeptKey)


class KeyStep:
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
        self._start_over()
        # all fields: which of them msgspec takes for defaults depends on how the configuration came here
        self._sums = {
            place: crc32(_encoder.encode(_values_of(settings.config)))
            for place, settings in self._keys.settings.items()
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
        long as no event was accepted; and one answer for each event.

        Raises
        ------
        ValueError
            The bytes are damaged, of another format, or were kept with another configuration.
        """
        after, batch = self.turn(key, data, EventColumns(list(events)))
        return after, batch.answers()

    def turn(self, key: str, data: bytes | None, columns: Columns) -> tuple[bytes | None, UsualBatch]:
        """The same of events in columns; the batch has the answers."""
        try:
            with garbage_left_alone():
                return self._turn(key, data, columns)
        except BaseException:
            # what is left of the turn would be in the way of the next one
            self._start_over()
            raise

    def _start_over(self) -> None:
        self._keys = KeyCache(self.config)

    def _turn(self, key: str, data: bytes | None, columns: Columns) -> tuple[bytes | None, UsualBatch]:
        keys, place = self._keys, self.config.place_for(key)
        before = self._read(key, data, self._sums[place])
        if data is not None:
            # no key has a number here
            keys.load([Snapshot(0, key, place, before.number, before.state)])
        records = {record.id: record for record in before.records}
        if len(columns) >= FEW:
            asks = np.flatnonzero(columns.kinds == QUERY)
            columns.kinds[asks[[name != key for name in columns.texts(asks, KEY)]]] = ODD
        batch = Turn(keys, records, before.number, columns, unknown(columns, keys), key, self.remember)
        batch.judge_all()
        keys.run(batch.collect)
        state = keys.states.get(key)
        if state is None:
            return data, batch
        # what is open is made into objects once
        keys.unseat(state)
        waiting = {issued.number for issued in state.open.values()}
        oldest = batch.number - self.remember
        kept = [
            record
            for record in closed_by(before.records + asked_in(batch, key), batch.closing_rows())
            if (record.closed or record.number) > oldest or record.number in waiting
        ]
        after = self.adopt(key, batch.number, state.dump(), kept)
        keys.drop(state)
        return after, batch

    def adopt(self, key: str, number: int, state: bytes, records: list[Record]) -> bytes:
        """A key's bytes that go on from a state of the engine.

        `number` is that of the last accepted event; `records` has all open forecasts, and the closed ones
        that are remembered.
        """
        config = self._sums[self.config.place_for(key)]
        return bytes([STATE_FORMAT]) + _encoder.encode(KeptKey(config, number, state, records))

    def _read(self, key: str, data: bytes | None, config: int) -> KeptKey:
        if data is None:
            return KeptKey(config, 0, b"", [])
        # 0, which no format is, if there is no byte
        check_format(f"the state of key {key!r}", int.from_bytes(data[:1]))
        try:
            kept = _decoder.decode(data[1:])
        except msgspec.MsgspecError as error:
            raise ValueError(f"the state of key {key!r} is damaged: {error}") from error
        if kept.config != config:
            raise ValueError(f"the state of key {key!r} was kept with another configuration than the present")
        return kept


class Turn(UsualBatch):
    """A turn of `key`, which knows a closed or expired forecast for `remember` more events.

    Whether it still does is looked at whenever an event names it, so that it does not matter where turns
    begin and end; what is judged with others is about new and open forecasts. A turn that may forget one of
    its own and be asked for it anew is judged one by one.
    """

    def __init__(
        self,
        keys: KeyCache,
        records: dict[str, Record],
        number: int,
        columns: Columns,
        known: Unknown,
        key: str,
        remember: int,
    ) -> None:
        super().__init__(keys, records, number, 0, columns, known)
        if len(columns) > remember and asks_again(columns):
            self.few = keys.few = True
        self._key, self._remember = key, remember
        # of forecasts that were asked for in this turn and are known no more
        self._forgotten: set[str] = set()

    def judge(self, event: Incoming | Rejected) -> Answer | Asked:
        """The answer to an event, as of one key's turn."""
        if isinstance(event.id, str) and event.id not in self.keys.open:
            self._forget(event.id)
        if type(event) is Query and event.key != self._key:
            return refuse(event, "invalid", f"key must be that of the turn, {self._key!r}, got {event.key!r}")
        return super().judge(event)

    def _forget(self, id: str) -> None:
        """Drop what is known of a forecast that is not open, if that is too long ago."""
        record, asked, closed = self.records.get(id), self.asked_before(id), self.closed_before(id)
        if closed is not None:
            number = closed[0][0]
        elif record is not None:
            number = record.closed or record.number
        elif asked is not None:
            number = asked[3].number
        else:
            return
        if self.number - number >= self._remember:
            self._forgotten.add(id)
            for known in (self.records, self.asked, self.closed, self.keys.given_up):
                known.pop(id, None)

    def asked_before(self, id: Any) -> Asked | None:
        """A query of this turn."""
        return self.asked.get(id) if id in self._forgotten else super().asked_before(id)

    def closed_before(self, id: Any) -> tuple[Row, str] | None:
        """A closing of this turn."""
        return self.closed.get(id) if id in self._forgotten else super().closed_before(id)


def asks_again(columns: Columns) -> bool:
    """Whether a query has an id that an event before it has named."""
    if len(columns) < FEW:
        return False
    usual = np.flatnonzero(columns.kinds != ODD)
    ids: dict[int, Any] = dict(zip(usual.tolist(), columns.texts(usual, ID), strict=True))
    asks, named = columns.kinds == QUERY, set[Any]()
    for i in range(len(columns)):
        event = None if i in ids else columns.event(i)
        id = ids[i] if event is None else event.id
        if isinstance(id, str):
            if (asks[i] or type(event) is Query) and id in named:
                return True
            named.add(id)
    return False


def asked_in(batch: UsualBatch, key: str) -> list[Record]:
    """The records of a turn's queries."""
    return [
        Record(number, id, key, loaded(hint), time, loaded(probability), certificate, None, None, None)
        for number, id, _, hint, time, probability, certificate in batch.query_rows()
    ]


def closed_by(records: list[Record], closings: Iterable[Row]) -> Iterator[Record]:
    """The records, with their closing if it is one of these."""
    closing = {asked: (number, loaded_outcome(value), time) for number, asked, value, time in closings}
    for record in records:
        found = closing.get(record.number)
        yield record if found is None else Record(*record[:7], *found)


def _values_of(config: KeyConfig) -> tuple[Any, ...]:
    """All fields that forecasts depend on, so not `max_jump`."""
    return tuple(value for name, value in asdict(config).items() if name != "max_jump")
