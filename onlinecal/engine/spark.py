"""The event engine as a stateful operator of Spark's Structured Streaming.

A key's state is the state that the engine on one machine keeps, in the same bytes, and the same judge looks
at its events; Spark keeps the states, spreads the keys over machines, and makes it happen exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from onlinecal.engine.batch import Batch
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.events import Answer, Forecast, Incoming, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.hot import HotKeys
from onlinecal.engine.ledger import Record, Snapshot
from onlinecal.engine.spark_session import check_workers, need_pyspark

need_pyspark()

from pyspark.sql import Row  # noqa: E402
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = (
    "type string, id string, key string, position long, hint double, hints map<string, double>, "
    "value string, time double"
)
"""A schema for reading events; `hint` or `hints` may be missing, and `value` may have another type."""

ANSWERS = (
    "type string, id string, key string, position long, probability double, "
    "probabilities map<string, double>, certificate double, reason string, detail string"
)
"""The schema of the answers."""

NEEDED = ("type", "id", "key", "position", "value")
VERSION = 1
BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


class SparkState(Struct, array_like=True):
    """What Spark keeps of a key: the engine's state, and the events it can still answer again.

    `records` has every open forecast and the latest closed ones, in the order in which they were asked for.
    """

    version: int
    number: int
    state: bytes | None
    records: list[Record]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SparkState)


class KeyStep:
    """One key's turn in a micro-batch: bytes and events in, bytes and answers out. Needs no Spark."""

    def __init__(self, config: EngineConfig, remember: int) -> None:
        self.config, self.remember = config, remember
        self._keys = HotKeys(config)

    def __call__(
        self, key: str, data: bytes | None, events: Iterable[Incoming | Rejected]
    ) -> tuple[bytes, list[Answer]]:
        """Answer a key's events in their order; the state after them."""
        before = SparkState(VERSION, 0, None, []) if data is None else _decoder.decode(data)
        if before.version != VERSION:
            raise ValueError(f"the state of key {key!r} has version {before.version}, not {VERSION}")
        keys = self._keys
        if before.state is not None:
            keys.load([Snapshot(1, key, keys.config.place_for(key), before.number, before.state)])
        records = {record.id: record for record in before.records}
        batch = Batch(keys, records, before.number, 0)
        judged = [batch.judge(event) for event in events]
        keys.run()
        answers = [batch.answer(one) for one in judged]
        state = keys.states.get(key)
        after = SparkState(VERSION, batch.number, None, [])
        if state is not None:
            after.records = self._remembered(records, batch, state.open)
            after.state = state.dump()
            keys.drop(state)
        return _encoder.encode(after), answers

    def _remembered(self, records: dict[str, Record], batch: Batch, still_open: Any) -> list[Record]:
        known = dict(records)
        for id, (event, _, hint, issued) in batch.asked.items():
            known[id] = Record(
                issued.number, id, event.key, hint, event.time, issued.probability, issued.certificate,
                None, None, None,
            )  # fmt: skip
        for id, closed in batch.closed.items():
            known[id] = known[id]._replace(closed=closed.number, value=closed.value, closed_time=closed.time)
        spare = len(known) - len(still_open) - self.remember
        kept = []
        for id, record in known.items():
            if id in still_open or spare <= 0:
                kept.append(record)
            else:
                spare -= 1
        return kept


class Calibrator(StatefulProcessor):
    """Lets every key with events take its turn."""

    def __init__(self, config: EngineConfig, remember: int) -> None:
        self._config, self._remember = config, remember

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it on the worker, once a task."""
        self._state = handle.getValueState("onlinecal", "state binary")
        self._step = KeyStep(self._config, self._remember)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Spark calls it once a key and micro-batch, with all rows of the key in any order."""
        name, ordered = key[0], sorted(rows, key=position_of)
        if name is None:
            answers: list[Answer] = [Rejected(row.id, "invalid", "key must not be null") for row in ordered]
        else:
            held = self._state.get()
            binary = self._config.at(self._config.place_for(name)).kind == "binary"
            events = [event_of(row, binary) for row in ordered]
            data, answers = self._step(name, bytes(held[0]) if held else None, events)
            self._state.update((bytearray(data),))
        for row, answer in zip(ordered, answers, strict=True):
            yield row_of(answer, name, row.position)

    def close(self) -> None:
        """Nothing is held open."""


def position_of(row: Row) -> tuple[int, str]:
    """Where a row stands among its key's."""
    return (-1 if row.position is None else row.position), row.id or ""


def event_of(row: Row, binary: bool) -> Incoming | Rejected:
    """The event that a row holds; texts are read as numbers if the key's outcomes are 0 and 1."""
    fields = row.asDict()
    kind, id, key, time = fields["type"], fields["id"], fields["key"], fields.get("time")
    if fields["position"] is None:
        return Rejected(id, "invalid", "position must not be null")
    if kind == "query":
        hints = fields.get("hints")
        return Query(id, key, fields.get("hint") if hints is None else dict(hints), time)
    if kind == "withdraw":
        return Withdraw(id, key, time)
    if kind == "outcome":
        value = fields["value"]
        if binary and isinstance(value, str):
            value = BINARY.get(value.strip().lower(), value)
        return Outcome(id, value, key, time)
    return Rejected(id, "malformed", f"type must be query, outcome or withdraw, got {kind!r}")


def row_of(answer: Answer, key: str | None, position: int | None) -> Row:
    """An answer as a row of ANSWERS."""
    probability = probabilities = certificate = reason = detail = None
    if isinstance(answer, Forecast):
        certificate = answer.certificate
        if isinstance(answer.probability, dict):
            probabilities = answer.probability
        else:
            probability = answer.probability
    elif isinstance(answer, Rejected):
        reason, detail = answer.reason, answer.detail
    kind = answer.__struct_config__.tag
    return Row(
        type=kind, id=answer.id, key=key, position=position, probability=probability,
        probabilities=probabilities, certificate=certificate, reason=reason, detail=detail,
    )  # fmt: skip


def calibrated_stream(
    events: DataFrame, config: EngineConfig | None = None, *, remember: int = 100, check: bool = True
) -> DataFrame:
    """Forecasts and settlements for a stream of queries and outcomes, key by key.

    Parameters
    ----------
    events
        A streaming (or batch) DataFrame with the columns type, id, key, position and value, and hint, hints
        and time as far as they are used: see EVENTS. Outcomes need the key too, since it decides where they
        go. `position` orders the events of a key; Spark does not keep the order of rows in a micro-batch, and
        a later micro-batch must hold later positions. `value` may be a number, a boolean or a string.
    config
        What forecasters the keys get.
    remember
        How many closed forecasts a key can still answer again in the same way; a repeat of an older one is
        refused as "unknown", and an old query's id is taken for a new one.
    check
        Run a small job first that sees whether the workers can run this package as the driver does.

    Returns
    -------
    One row an event, with the columns of ANSWERS: write it with outputMode "append" and a checkpoint. The
    forecasts are those of `Engine` for the same events in the same order per key.

    Raises
    ------
    ValueError
        A column is missing, pyspark or protobuf is missing, or the workers run something else.
    """
    from pyspark.sql import functions

    missing = [name for name in NEEDED if name not in events.columns]
    if missing:
        raise ValueError(f"events need the columns {', '.join(NEEDED)}; missing: {', '.join(missing)}")
    try:
        import google.protobuf  # noqa: F401
    except ImportError as error:
        raise ValueError("protobuf is missing: pip install 'onlinecal[spark]'") from error
    session = events.sparkSession
    provider = session.conf.get("spark.sql.streaming.stateStore.providerClass")
    if events.isStreaming and "RocksDB" not in (provider or ""):
        raise ValueError(
            "Spark's operator needs spark.sql.streaming.stateStore.providerClass to be the RocksDB provider, "
            f"got {provider!r}: see onlinecal.engine.spark_session.ROCKSDB"
        )
    if check:
        check_workers(session)
    typed = events.withColumn("position", functions.col("position").cast("long"))
    processor = Calibrator(config or EngineConfig(), remember)
    return typed.groupBy("key").transformWithState(processor, ANSWERS, "append", "none")
