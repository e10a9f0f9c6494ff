"""The event engine as a stateful operator of Spark's Structured Streaming.

A key's state is the state that the engine on one machine keeps, in the same bytes, and the same judge looks
at its events; Spark keeps the states, spreads the keys over machines, and makes it happen exactly once.

Events reach the workers as the lines that the engine on one machine reads, and a key's answers leave as one
text: Spark hands rows to Python one value at a time, which takes longer than a forecast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.events import Answer, Forecast, Incoming, Outcome, Rejected, decode
from onlinecal.engine.keys.step import KeyStep
from onlinecal.engine.spark.event_lines import line_of, valid_key
from onlinecal.engine.spark.session import check_workers, need_pyspark

need_pyspark()

from pyspark.sql import Row  # noqa: E402
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle  # noqa: E402

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

REPLY = (
    "type string, id string, position long, probability double, probabilities map<string, double>, "
    "certificate double, reason string, detail string"
)
ANSWERS = f"key string, {REPLY}"
"""The schema of the answers: the key and what a worker says of one event."""

STATE = "onlinecal"
"""What the state variable is called in a checkpoint: one column, `state`, of bytes."""

BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
PACK = 32 << 20
"""Bytes of rows that are packed together before they are shuffled."""

TOGETHER = 1000
"""Answers of a key that leave in one text."""

NOWHERE = -(1 << 63) - 1
"""Stands for a missing position: before all others."""


class Reply(Struct, omit_defaults=True):
    """An answer as it leaves the worker; the fields of REPLY."""

    type: str
    id: str | None
    position: int | None
    probability: float | None = None
    probabilities: dict[str, float] | None = None
    certificate: float | None = None
    reason: str | None = None
    detail: str | None = None


_encoder = msgspec.json.Encoder()


class Calibrator(StatefulProcessor):
    """Lets every key with events take its turn."""

    def __init__(self, config: EngineConfig, remember: int) -> None:
        self._config, self._remember = config, remember

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it on the worker, once a task."""
        self._state = handle.getValueState(STATE, "state binary")
        self._step = KeyStep(self._config, self._remember)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Spark calls it once a key and micro-batch, with all rows of the key in any order."""
        [name], ordered = key, in_order(rows)
        held = None if name is None else self._state.get()
        before = bytes(held[0]) if held else None
        after, replies = replies_to(self._step, name, before, ordered)
        if after is not None and after != before:
            self._state.update((bytearray(after),))
        for start in range(0, len(replies), TOGETHER):
            yield Row(key=name, replies=_encoder.encode(replies[start : start + TOGETHER]).decode())

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        """Spark calls it in the first micro-batch, for every key that comes with a state."""
        self._state.update((bytearray(initialState.state),))

    def close(self) -> None:
        """Nothing is held open."""


def packs(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The lines of a key in one row, as far as PACK bytes of rows go.

    Spark hands rows to a stateful operator one value at a time, which takes longer than a forecast.
    """
    waiting: list[pyarrow.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size > PACK:
            yield from packed(waiting)
            waiting, size = [], 0
    yield from packed(waiting)


def packed(batches: list[pyarrow.RecordBatch]) -> list[pyarrow.RecordBatch]:
    """Rows with the same key joined to one, their lines one below the other."""
    if not batches:
        return []
    import pyarrow
    from pyarrow import compute

    grouped = pyarrow.Table.from_batches(batches).group_by("key").aggregate([("lines", "list")])
    lines = compute.binary_join(grouped["lines_list"], "\n")
    return pyarrow.table({"key": grouped["key"], "lines": lines}).to_batches()


def in_order(rows: Iterator[Row]) -> list[tuple[int, str]]:
    """The positions and lines of a key's rows, sorted by position."""
    ordered = []
    for row in rows:
        for text in row.lines.split("\n"):
            position, _, line = text.partition(" ")
            ordered.append((int(position) if position else NOWHERE, line))
    return sorted(ordered)


def replies_to(
    step: KeyStep, key: str | None, data: bytes | None, ordered: list[tuple[int, str]]
) -> tuple[bytes | None, list[Reply]]:
    """A key's bytes after its lines, and a reply to each; without a key all lines are refused."""
    if key is None:
        after, answers = data, list[Answer](refused(line, "key") for _, line in ordered)
    else:
        is_binary = step.config.at(step.config.place_for(key)).kind == "binary"
        after, answers = step(key, data, [event_of(at, line, is_binary) for at, line in ordered])
    return after, [
        reply_of(answer, None if at == NOWHERE else at)
        for answer, (at, _) in zip(answers, ordered, strict=True)
    ]


def event_of(position: int, line: str, is_binary: bool) -> Incoming | Rejected:
    """The event that a line holds; texts are read as numbers if the key's outcomes are 0 and 1."""
    if position == NOWHERE:
        return refused(line, "position")
    event = decode(line.encode())
    if is_binary and type(event) is Outcome and isinstance(event.value, str):
        value = BINARY.get(event.value.strip().lower())
        return event if value is None else Outcome(event.id, value, event.key, event.time)
    return event


def refused(line: str, missing: str) -> Rejected:
    """The refusal of a row without a key or a position."""
    return Rejected(decode(line.encode()).id, "invalid", f"{missing} must not be null")


def reply_of(answer: Answer, position: int | None) -> Reply:
    """An answer as it leaves the worker."""
    if isinstance(answer, Forecast):
        if isinstance(answer.probability, dict):
            return Reply("forecast", answer.id, position, None, answer.probability, answer.certificate)
        return Reply("forecast", answer.id, position, answer.probability, None, answer.certificate)
    kind = str(answer.__struct_config__.tag)
    if isinstance(answer, Rejected):
        return Reply(kind, answer.id, position, reason=answer.reason, detail=answer.detail)
    return Reply(kind, answer.id, position)


def calibrated_stream(
    events: DataFrame,
    config: EngineConfig | None = None,
    *,
    remember: int = 100,
    initial: DataFrame | None = None,
    check: bool = True,
) -> DataFrame:
    """Forecasts and settlements for a stream of queries and outcomes, key by key.

    Parameters
    ----------
    events
        A streaming (or batch) DataFrame with the columns type, id, key, position and value, and hint, hints
        and time as far as they are used: see EVENTS. Other columns are ignored. Outcomes need the key too,
        since it decides where they go. `position` orders the events of a key; Spark does not keep the order
        of rows in a micro-batch, and a later micro-batch must hold later positions. `value` may be a number,
        a boolean or a text; "0", "1", "true", "false" are understood where outcomes are 0 and 1.
    config
        What forecasters the keys get; always the same for a checkpoint.
    remember
        An accepted event that comes again is answered as it was the first time as long as its forecast is
        open or fewer than so many events of the key were accepted since. After that an outcome is refused as
        "unknown", and a query is a new one.
    initial
        States that keys begin with, from `ledger_states`; `config` must be that of their ledger. Only looked
        at when a checkpoint is new.
    check
        Run a small job first that sees whether the workers can run this package as the driver does.

    Returns
    -------
    One row an event, with the columns of ANSWERS: write it with outputMode "append" and a checkpoint. The
    forecasts are those of `Engine` for the same events in the same order per key. Rows that make no sense,
    also those without a key or a position, are answered with "rejected" and stop nothing.

    Raises
    ------
    ValueError
        A column is missing or has a type that cannot be, the state store is not RocksDB's, the configuration
        or remember cannot be, pyspark or protobuf is missing, or the workers run something else. Later, when
        the stream runs, the query fails if its checkpoint was made with another configuration.
    """
    line = line_of(events)
    try:
        import google.protobuf  # noqa: F401
    except ImportError as error:
        raise ValueError("protobuf is missing: pip install 'onlinecal[spark]'") from error
    session = events.sparkSession
    provider = session.conf.get("spark.sql.streaming.stateStore.providerClass")
    if events.isStreaming and "RocksDB" not in (provider or ""):
        raise ValueError(
            "Spark's operator needs spark.sql.streaming.stateStore.providerClass to be the RocksDB provider, "
            f"got {provider!r}: see onlinecal.engine.spark.ROCKSDB"
        )
    settings = config or EngineConfig()
    KeyStep(settings, remember)
    if check:
        check_workers(session)
    from pyspark.sql import functions as F

    position = F.coalesce(F.col("position").cast("string"), F.lit(""))
    rows = events.select(valid_key().alias("key"), F.concat(position, F.lit(" "), line).alias("lines"))
    packed = rows.mapInArrow(packs, "key string, lines string")
    begun = None if initial is None else initial.select("key", "state").groupBy("key")
    told = packed.groupBy("key").transformWithState(
        Calibrator(settings, remember), "key string, replies string", "append", "none", initialState=begun
    )
    return told.select("key", F.inline(F.from_json("replies", f"array<struct<{REPLY}>>")))
