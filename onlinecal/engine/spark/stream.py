"""The event engine as a stateful operator of Spark's Structured Streaming.

A key's state is the state that the engine on one machine keeps, in the same bytes, and the same judge decides
about its events. Spark keeps the states, spreads the keys over machines, and makes each event count once.

Spark hands rows to Python one value at a time, which takes longer than a forecast. So `rows` packs all rows
of a key into one. The states of a ledger can be a stream's first states.

Spark calls `init` once for a task, `handleInitialState` for keys that come with a state, `handleInputRows`
for each key and micro-batch, and `close`. A key's state is the bytes of `KeyTurns`, which `_state` keeps:
`handleInitialState` writes them, and `handleInputRows` does if they have changed. All else that a
`Calibrator` has may be made anew at any time. Checkpoints keep STATE_VARIABLE, its column and these bytes;
ANSWERS and STATES are what users read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger.file import REPAIR_ADVICE
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.replay import config_of
from onlinecal.engine.spark.rows import (
    PACKED,
    PACKED_ANSWERS,
    REPLY,
    KeyRows,
    line_columns,
    pack_answers,
    packs,
)
from onlinecal.engine.spark.session import ROCKSDB, check_workers, need_pyspark
from onlinecal.engine.turns import KeyTurns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

need_pyspark()

from pyspark.sql import Row  # noqa: E402
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle  # noqa: E402

ANSWERS = f"key string, {REPLY}"
"""The schema of the answers: the key, and the answer to one event."""

STATES = "key string, state binary"
"""The schema of `ledger_states`."""

KEYS_READ_TOGETHER = 1000
"""How many keys of a ledger are read together."""

STATE_VARIABLE = "onlinecal"
"""The name of the state variable in a checkpoint; it has one column, `state`, of bytes."""


class Calibrator(StatefulProcessor):
    """Spark's processor, which lets every key with events take its turn."""

    def __init__(self, config: EngineConfig, remember: int) -> None:
        self._config, self._remember = config, remember

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls this on the worker, once for each task."""
        self._state = handle.getValueState(STATE_VARIABLE, "state binary")
        self._step = KeyTurns(self._config, self._remember)
        self._row = Row(*(field.split()[0] for field in PACKED_ANSWERS.split(", ")))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Spark calls this once for each key and micro-batch, with all rows of the key in any order."""
        [name], events = key, KeyRows(rows)
        if name is None:
            answers = events.refusals()
        else:
            held = self._state.get()
            before = bytes(held[0]) if held else None
            is_binary = self._config._at(self._config._place_for(name)).kind == "binary"
            after, batch = self._step.turn(name, before, events.columns(is_binary))
            if after is not None and after != before:
                self._state.update((bytearray(after),))
            answers = batch.answers()
        for row in pack_answers(events.positions, answers):
            yield self._row(name, *row)

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        """Spark calls this in the first micro-batch, for every key that comes with a state."""
        self._state.update((bytearray(initialState.state),))

    def close(self) -> None:
        """Nothing is held open."""


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
        A streaming (or batch) DataFrame with the columns type, id, key, position and value, and hint, hints,
        values and time as far as they are used: see EVENTS. Other columns are ignored. Outcomes need the key
        too, since it decides where they go. `position` orders the events of a key; Spark does not keep the
        order of rows in a micro-batch, and a later micro-batch must hold later positions. `value` may be a
        number, a boolean or a text; "0", "1", "true", "false" are understood where outcomes are 0 and 1. A
        soft label stands in `values`, by class.
    config
        What forecasters the keys get, always the same for a checkpoint; None: `EngineConfig()`.
    remember
        An accepted event that comes again is answered as it was the first time as long as its forecast is
        open or fewer than so many events of the key were accepted since. After that an outcome is refused as
        "unknown", and a query is a new one. At least 1.
    initial
        States that keys begin with, from `ledger_states`; `config` must be that of their ledger. Only looked
        at when a checkpoint is new. None: all keys are new.
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
    columns = line_columns(events)
    try:
        import google.protobuf  # noqa: F401
    except ImportError as error:
        raise ValueError("protobuf is missing: in a checkout of onlinecal, pip install '.[spark]'") from error
    session = events.sparkSession
    provider = session.conf.get("spark.sql.streaming.stateStore.providerClass")
    if events.isStreaming and "RocksDB" not in (provider or ""):
        raise ValueError(
            "Spark's setting spark.sql.streaming.stateStore.providerClass must be the RocksDB provider, got "
            f"{provider!r}: set it to {ROCKSDB} before the query starts"
        )
    settings = config or EngineConfig()
    KeyTurns(settings, remember)
    if check:
        check_workers(session)
    from pyspark.sql import functions as F

    packed = events.select(*columns).mapInArrow(packs, PACKED)
    begun = None if initial is None else initial.select("key", "state").groupBy("key")
    answers = packed.groupBy("key").transformWithState(
        Calibrator(settings, remember), PACKED_ANSWERS, "append", "none", initialState=begun
    )
    # arrays that are too short are filled up with nulls
    no_text, no_map = F.array().cast("array<string>"), F.array().cast("array<map<string, double>>")
    together = F.arrays_zip(
        no_text, "ids", "positions", "probabilities", no_map, "certificates", no_text, no_text
    )
    listed = f"array<struct<{REPLY}>>"
    replies = F.inline(F.coalesce(F.from_json("others", listed), together.cast(listed)))
    kind = F.when(F.col("probability").isNull(), "settled").otherwise("forecast")
    return answers.select("key", replies).withColumn("type", F.coalesce("type", kind))


def ledger_states(spark: SparkSession, ledger: str | Path) -> DataFrame:
    """Every key of a ledger with its state, as `calibrated_stream` takes it for its first micro-batch.

    Reads the file `ledger`, and changes nothing there. The states pass through the driver; a key takes what
    docs/scale.md says. Forecasts that are closed by then are not known any more: events about them are
    answered as if their ids were new.

    Returns
    -------
    A table of the session `spark`, one row a key: its name `key`, and `state`, bytes.

    Raises
    ------
    LedgerError
        There is no such ledger, it cannot be read, or it is damaged.
    ValueError
        Its log is ahead of its states: an engine is at work on it, or was killed; or pyspark is missing.
    """
    need_pyspark()
    return spark.createDataFrame(list(states_in(Path(ledger))), STATES)


def states_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """The keys of a ledger that nobody writes to, and their bytes for `KeyTurns`."""
    with closing(Ledger(path, read_only=True)) as ledger, ledger.transaction("DEFERRED"):
        number, _ = ledger.last_numbers()
        if number != (ledger.about("tail") or 0):
            raise ValueError(
                f"{path}: its states are behind its log; stop the engine that is at work, or run "
                "`onlinecal stream --ledger FILE < /dev/null`, which writes them"
            )
        config = config_of(ledger)
        step, book, names = KeyTurns(config, 1), Book(config), ledger.summaries()
        while some := [name for name, _, _ in islice(names, KEYS_READ_TOGETHER)]:
            snapshots = ledger.keys_named(some)
            with ledger.content_errors():
                if len(snapshots) < len(some):
                    lost = set(some).difference(snapshot.name for snapshot in snapshots)
                    raise ValueError(f"{min(lost)!r} cannot be the name of a key. {REPAIR_ADVICE}")
                book.load(snapshots)
            records = ledger.recall(book.open)
            for snapshot in snapshots:
                key = book.keys[snapshot.name]
                waiting = [records[book.ids[entry]] for entry in key.entries()]
                yield snapshot.name, step.adopt(snapshot.name, number, key.dump(book.ids), waiting)
                book.drop([key])
