"""One key's turn in a micro-batch of some other system: bytes and events in, bytes and answers out.

That system keeps the bytes, brings each key's events in their order, and sees to it that a turn counts once.
The key's part of the bytes is what the engine on one machine keeps, and the same judge looks at the events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from onlinecal.engine.batch import Batch, in_seconds, refuse
from onlinecal.engine.config import EDITION, PARAMETERS, EngineConfig, KeyConfig
from onlinecal.engine.events import Answer, Incoming, Query, Rejected
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.own_states import note_own
from onlinecal.engine.ledger.records import Record, Snapshot
from onlinecal.validation import check_count

VERSION = EDITION
"""The first byte of every state: by which edition of the configuration it is played (see `EngineConfig`)."""


NEWER = (*(name for name in PARAMETERS["lp"] if name != "classes"), "steering", "alarm")
"""Fields of a configuration that older states were made without."""


class KeptKey(Struct, array_like=True):
    """What is kept of a key, behind the byte of the version.

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
            The bytes are damaged, of another version, or were kept with another configuration.
        """
        try:
            return self._turn(key, data, events)
        except BaseException:
            # what is left of the turn would be in the way of the next one
            self._start_over()
            raise

    def _start_over(self) -> None:
        self._keys_of = {
            edition: KeyCache(replace(self.config, edition=edition)) for edition in range(1, VERSION + 1)
        }
        self._keys = self._keys_of[VERSION]

    def _turn(
        self, key: str, data: bytes | None, events: Iterable[Incoming | Rejected]
    ) -> tuple[bytes | None, list[Answer]]:
        # the first byte; 0, which no version is, if there is none
        version = VERSION if data is None else int.from_bytes(data[:1])
        place = self.config.place_for(key)
        before = self._read(key, data, self._sums[place])
        keys = self._keys = self._keys_of[version]
        if data is not None:
            keys.load([Snapshot(1, key, place, before.number, before.state)])
        records = {record.id: record for record in before.records}
        batch = Batch(keys, records, before.number, 0)
        judged = []
        for event in events:
            self._forget(event.id, records, batch)
            judged.append(_foreign(event, key) or batch.judge(event))
        keys.run()
        answers = list(map(batch.answer, judged))
        state = keys.states.get(key)
        if state is None:
            return data, answers
        kept = [
            record
            for record in (*(_closed(record, batch) for record in records.values()), *_asked(batch))
            if record.id in state.open or self._is_fresh(record.closed or record.number, batch)
        ]
        dumped = state.dump()
        note_own(key, state.settings.mark, dumped)
        after = self.adopt(key, batch.number, dumped, kept, version)
        keys.drop(state)
        return after, answers

    def adopt(self, key: str, number: int, state: bytes, records: list[Record], edition: int) -> bytes:
        """A key's bytes that go on from a state of the engine.

        `number` is that of the last accepted event; `records` has all open forecasts, and the closed ones
        that are remembered; `edition` is that of the engine's configuration.
        """
        config = self._sums[self.config.place_for(key)]
        return bytes([edition]) + _encoder.encode(KeptKey(config, number, state, records))

    def _read(self, key: str, data: bytes | None, config: int) -> KeptKey:
        if data is None:
            return KeptKey(config, 0, b"", [])
        version = int.from_bytes(data[:1])
        if version not in self._keys_of:
            raise ValueError(f"the state of key {key!r} has version {version}, not {VERSION} or one before")
        try:
            kept = _decoder.decode(data[1:])
        except msgspec.MsgspecError as error:
            raise ValueError(f"the state of key {key!r} is damaged: {error}") from error
        if kept.config != config:
            raise ValueError(f"the state of key {key!r} was kept with another configuration than the present")
        return kept

    def _is_fresh(self, number: int, batch: Batch) -> bool:
        return batch.number - number < self.remember

    def _forget(self, id: Any, records: dict[str, Record], batch: Batch) -> None:
        """Drop what is known of a forecast, if it is closed or expired and that is too long ago.

        Looked at whenever an event names it, so that it does not matter where turns begin and end.
        """
        if not isinstance(id, str) or id in self._keys.open:
            return
        record, asked, closed = records.get(id), batch.asked.get(id), batch.closed.get(id)
        if closed is not None:
            number = closed[0][0]
        elif record is not None:
            number = record.closed or record.number
        elif asked is not None:
            number = asked[3].number
        else:
            return
        if not self._is_fresh(number, batch):
            for known in (records, batch.asked, batch.closed, self._keys.given_up):
                known.pop(id, None)


def _values_of(config: KeyConfig) -> tuple[Any, ...]:
    """All fields that forecasts depend on, so not `max_jump`; of the newer fields those that are set."""
    values = asdict(config)
    del values["max_jump"]
    if config.window is None:
        del values["window"]
    newer = [(name, values.pop(name)) for name in NEWER]
    return *values.values(), *(pair for pair in newer if pair[1] is not None)


def _foreign(event: Incoming | Rejected, key: str) -> Rejected | None:
    """The refusal of a query for another key."""
    if type(event) is Query and event.key != key:
        return refuse(event, "invalid", f"key must be that of the turn, {key!r}, got {event.key!r}")
    return None


def _closed(record: Record, batch: Batch) -> Record:
    """A record, with its closing if it was in this turn."""
    closed = batch.closed.get(record.id)
    if closed is None:
        return record
    number, _, value, time = closed[0]
    return record._replace(closed=number, value=value, closed_time=time)


def _asked(batch: Batch) -> Iterable[Record]:
    """The records of the queries of this turn."""
    for event, _, hint, issued in batch.asked.values():
        record = Record(
            issued.number, issued.id, event.key, hint, in_seconds(event.time), issued.probability,
            issued.certificate, None, None, None,
        )  # fmt: skip
        yield _closed(record, batch)
