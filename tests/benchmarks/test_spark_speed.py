"""The engine as an operator of Spark against the plain engine: the same events, one after the other."""

import os
import random
import shutil
import time

import polars as pl
import pytest

from onlinecal.engine import Engine, Outcome, Query
from tests.benchmarks.conftest import timed

EVENTS, KEYS, BATCHES, WAIT = 100_000, 1000, 6, 2000


def make_batches():
    """Rows (type, id, key, position, hint, value, time): hinted queries, and outcomes that come late."""
    rng, rows = random.Random(0), []
    for t in range(BATCHES * EVENTS // 2):
        at, late = len(rows), t - WAIT
        rows.append(("query", f"q{t}", f"shop/{7 * t % KEYS}", at, rng.random(), None, float(at)))
        if late >= 0:
            came = str(rng.randrange(2))
            rows.append(("outcome", f"q{late}", f"shop/{7 * late % KEYS}", at + 1, None, came, at + 1.0))
    return [rows[start : start + EVENTS] for start in range(0, len(rows), EVENTS)]


def engine_speeds(batches, path):
    """Events per second of each batch, in transactions of a thousand events."""
    speeds = []
    with Engine(path) as engine:
        for rows in batches:
            events = [
                Query(id, key, hint, at) if kind == "query" else Outcome(id, int(value), key, at)
                for kind, id, key, _, hint, value, at in rows
            ]

            def handled(events=events):
                for first in range(0, len(events), 1000):
                    engine.handle(events[first : first + 1000])

            speeds.append(len(events) / timed(handled, time.perf_counter)[0])
    return speeds


def spark_run(batches, root):
    """The progress of each micro-batch of EVENTS events."""
    from onlinecal.engine.spark import calibrated_stream, local_session

    schema = "type string, id string, key string, position long, hint double, value string, time double"
    names = [field.split()[0] for field in schema.split(", ")]
    (root / "in").mkdir()
    for number, rows in enumerate(batches):
        file = root / "in" / f"{number}.parquet"
        random.Random(number).shuffle(shuffled := list(rows))
        kinds = {"hint": pl.Float64, "value": pl.String}
        pl.DataFrame(shuffled, schema=names, schema_overrides=kinds, orient="row").write_parquet(file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    spark = local_session(2)
    try:
        events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / "in"))
        answers = calibrated_stream(events, check=False).writeStream.format("parquet")
        query = answers.option("path", str(root / "out")).option("checkpointLocation", str(root / "cp"))
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        return [progress for progress in running.recentProgress if progress.numInputRows]
    finally:
        spark.stop()


def test_events_a_second_of_the_operator_and_of_the_engine(tmp_path, note):
    pytest.importorskip("pyspark", reason="needs onlinecal[spark]")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    batches = make_batches()
    memory, disk = engine_speeds(batches, None), engine_speeds(batches, tmp_path / "ledger")
    progress = spark_run(batches, tmp_path)
    spark = [one.numInputRows / one.durationMs["triggerExecution"] * 1000 for one in progress]
    note(f"events/s, {EVENTS:,} events over {KEYS:,} keys a batch; load {os.getloadavg()[0]:.1f}:")
    named = {"engine in memory": memory, "engine with a ledger": disk, "operator on local[2]": spark}
    for name, speeds in named.items():
        note(f"    {name:30s} " + " ".join(f"{speed:8,.0f}" for speed in speeds))
    state = progress[-1].stateOperators[0]
    note(f"    keys in the state store: {state.numRowsTotal}, its memory: {state.memoryUsedBytes:,} bytes")
    assert state.numRowsTotal >= KEYS
