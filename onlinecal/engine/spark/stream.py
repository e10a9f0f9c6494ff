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
from onlinecal.engine.spark.session import (
    ROCKSDB,
    check_frame,
    check_session,
    check_workers,
    need_pyspark,
)
from onlinecal.engine.turns import KeyTurns
from onlinecal.validation import check_flag, check_path

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
        A streaming (or batch) DataFrame, a row for each event, with the columns `type` ("query", "outcome" or
        "withdraw"), `id`, `key`, `position` and `value`, and `hint`, `hints`, `values` and `time` as far as
        they are used; EVENTS has their types. Other columns are ignored. Outcomes need the key, too, since it
        decides where they go. `position`, a whole number, orders the events of a key; Spark does not keep the
        order of rows in a micro-batch, and a later micro-batch must hold later positions. `hint` is a
        probability, or `hints` a map of probabilities by class. `value` is an outcome, a number, a boolean or
        a text; "0", "1", "true", "false" are understood where outcomes are 0 and 1. `values` is an outcome
        that has a probability for each class, a map.
    config
        An `EngineConfig`, what forecasters the keys get, always the same for a checkpoint; None: the default.
    remember
        An accepted event that comes again is answered as it was the first time as long as its forecast is
        open or fewer than so many events of the key were accepted since. After that an outcome is refused as
        "unknown", and a query is a new one. A whole number of at least 1.
    initial
        A table from `ledger_states`, the states that keys begin with; `config` must be that of their ledger.
        It is only looked at when a checkpoint is new. None: all keys are new.
    check
        Whether to run a small job first, `check_workers`, which sees whether the workers can run this package
        as the driver does.

    Returns
    -------
    A DataFrame with one row for each event, its answer, and the columns of ANSWERS: `key`, `type`
    ("forecast", "settled", "withdrawn", "parked" or "rejected"), `id`, `position`, `probability` or
    `probabilities` (a map by class), `certificate`, `reason` and `detail`; what does not apply is null. Write
    it with outputMode "append" and a checkpoint. The forecasts are those of `Engine` for the same events in
    the same order per key. Rows that make no sense, also those without a key or a position, are answered as
    "rejected" and stop nothing.

    Raises
    ------
    ValueError
        `events` or `initial` is no Spark data frame, a column is missing or has a type that cannot be, the
        state store of a stream is not RocksDB's, the configuration or remember cannot be, pyspark or protobuf
        is missing, or the workers run something else. Later, when the stream runs, its query fails if the
        checkpoint was made with another configuration.
    """
    check_frame(events, "events")
    if initial is not None:
        check_frame(initial, "initial")
        for name in ("key", "state"):
            if name not in initial.columns:
                raise ValueError(
                    f"initial must have the columns key and state, but lacks {name}: make it by ledger_states"
                )
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
    if check_flag(check, "check"):
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

    Reads the file `ledger`, and changes nothing there. The states are read at once, and pass through the
    driver; what a key takes is in docs/scale.md. Forecasts that are closed by then are not known any more:
    events about them are answered as if their ids were new. Outcomes that are parked are left out.

    Returns
    -------
    DataFrame
        A table of the session `spark`, one row a key: its name `key`, and `state`, bytes.

    Raises
    ------
    LedgerError
        There is no such ledger, it cannot be read, or it is damaged.
    ValueError
        The ledger lacks the newest states of its keys: an engine is at work on it, or was killed. Or pyspark
        is missing.
    """
    need_pyspark()
    check_session(spark)
    return spark.createDataFrame(list(states_in(check_path(ledger, "ledger"))), STATES)


def states_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """The keys of a ledger that nobody writes to, and their bytes for `KeyTurns`."""
    with closing(Ledger(path, read_only=True)) as ledger, ledger.transaction("DEFERRED"):
        number, _ = ledger.last_numbers()
        if number != (ledger.about("tail") or 0):
            raise ValueError(
                f"{path}: the ledger lacks the newest states of its keys; stop the engine that is at work on "
                f"it, or, if one was killed, run `onlinecal stream --ledger {path} < /dev/null`, which "
                "writes them"
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
