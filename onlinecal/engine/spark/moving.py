"""From one machine to Spark: the states of a ledger as a stream's first states."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.step import KeyStep
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.report import config_of
from onlinecal.engine.spark.session import need_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATES = "key string, state binary"
CHUNK = 1000


def ledger_states(spark: SparkSession, ledger: str | Path) -> DataFrame:
    """Every key of a ledger with its state, as `calibrated_stream` takes it for its first micro-batch.

    From the file `ledger` into a table of the session `spark`. The states pass through the driver; a key
    takes what docs/scale.md says. Events of before the move whose forecast was closed then are not known any
    more, as if they had been forgotten.

    Returns
    -------
    The columns of STATES.

    Raises
    ------
    LedgerError
        There is no such ledger, or it is damaged.
    ValueError
        Its log is ahead of its states: an engine is at work on it, or was killed; or pyspark is missing.
    """
    need_pyspark()
    return spark.createDataFrame(list(states_in(Path(ledger))), STATES)


def states_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """The keys of a ledger at rest and their bytes for `KeyStep`."""
    ledger = Ledger(path, read_only=True)
    try:
        with ledger.snapshot():
            number, _ = ledger.last_numbers()
            if number != (ledger.about("tail") or 0):
                raise ValueError(
                    f"{path}: its states are behind its log; stop the engine that is at work, or run "
                    "`onlinecal stream --ledger FILE < /dev/null`, which writes them"
                )
            config = config_of(ledger)
            step, keys, names = KeyStep(config, 1), KeyCache(config), ledger.summaries()
            while some := [name for name, _, _ in islice(names, CHUNK)]:
                snapshots = ledger.keys_named(some)
                with ledger.content_errors():
                    if len(snapshots) < len(some):
                        lost = set(some).difference(one.name for one in snapshots)
                        raise ValueError(f"{min(lost)!r} cannot be the name of a key")
                    keys.load(snapshots)
                records = ledger.recall(keys.open)
                for snapshot in snapshots:
                    state = keys.states[snapshot.name]
                    open_records = [records[id] for id in state.open]
                    yield (
                        snapshot.name,
                        step.adopt(snapshot.name, number, state.dump(), open_records),
                    )
                    keys.drop(state)
    finally:
        ledger.close()
