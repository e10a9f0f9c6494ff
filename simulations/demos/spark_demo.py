"""A thousand streams on Spark: forecasts for late outcomes, which are the same as on one machine.

python -m onlinecal.simulations.demos.spark_demo --out results/demo-spark

    <out>/events/*.parquet      queries and outcomes; a file is a micro-batch
    <out>/answers               the forecasts; read it with Spark, which knows which files count
    <out>/checkpoint            Spark's position, and the state of every key

The probability of every stream swings about a level of its own. Its model is too sure of itself: hints are
noisy log-odds of this probability, 2.5 times too large. Outcomes come a few rounds late, in no order.

The events are the same in every run with as many keys and rounds. The demonstration keeps nothing but what is
in the folder, and refuses a folder that has events, so it begins anew elsewhere after an interrupt. It
compares the columns COMPARED with those of the engine without Spark, in all bits.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.special import expit

from onlinecal.cli.output import results, table
from onlinecal.texts import number
from onlinecal.validation import check_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 4
"""The number of files of events, which are a micro-batch each."""

OVERCONFIDENCE = 2.5
MEAN_LATENESS = 3.0
"""By how many rounds of its key an outcome is late, on average."""

EPOCH = 1_700_000_000
"""The time of the first file: Spark reads files in the order of their times."""

COMPARED = ("id", "key", "position", "probability", "certificate")


def make_events(keys: int, rounds: int) -> pl.DataFrame:
    """All events in the order of their positions, with the columns of `onlinecal.engine.spark.EVENTS`."""
    rng = np.random.default_rng(0)
    query_times = np.sort(rng.random((keys, rounds)), axis=1)
    swing = rng.uniform(0.5, 2.0, (keys, 1)) * np.sin(2.0 * np.pi * (query_times + rng.random((keys, 1))))
    log_odds = rng.normal(0.0, 1.2, (keys, 1)) + swing
    hints = np.round(expit(OVERCONFIDENCE * (log_odds + rng.normal(0.0, 0.5, query_times.shape))), 2)
    outcomes = rng.random(query_times.shape) < expit(log_odds)
    outcome_times = query_times + rng.exponential(MEAN_LATENESS / rounds, query_times.shape)
    names = [f"shop-{i}" for i in range(keys) for _ in range(rounds)]
    shared = {"id": [f"{name}/{j % rounds}" for j, name in enumerate(names)], "key": names}
    queries = pl.DataFrame({"type": "query", **shared, "hint": hints.ravel(), "time": query_times.ravel()})
    answers = pl.DataFrame(
        {"type": "outcome", **shared, "value": outcomes.ravel(), "time": outcome_times.ravel()}
    )
    answers = answers.with_columns(pl.col("value").cast(pl.Int8).cast(pl.String))
    events = pl.concat([queries, answers], how="diagonal").sort("time", maintain_order=True)
    return events.with_columns(position=pl.int_range(events.height))


def write_events(events: pl.DataFrame, folder: Path) -> None:
    """Write the files of events; FileExistsError if the folder is there."""
    folder.mkdir(parents=True)
    for batch, part in enumerate(events.iter_slices(-(-events.height // BATCHES))):
        path = folder / f"{batch:04d}.parquet"
        # the events of one file may be in any order
        part.sample(fraction=1.0, shuffle=True, seed=batch).write_parquet(path)
        os.utime(path, (EPOCH + batch, EPOCH + batch))


def play(spark: SparkSession, out: Path) -> tuple[list[float], pl.DataFrame, float]:
    """Seconds for each micro-batch of Spark, its forecasts, and a lower bound on the hints' distance."""
    from onlinecal.engine.spark import EVENTS, calibrated_stream, distances

    rows = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).parquet(str(out / "events"))
    query = (
        calibrated_stream(rows)
        .writeStream.format("parquet")
        .option("path", str(out / "answers"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    answers = spark.read.parquet(str(out / "answers")).where("type = 'forecast'").select(*COMPARED)
    forecasts = pl.from_arrow(answers.toArrow())
    assert isinstance(forecasts, pl.DataFrame)
    events = spark.read.parquet(str(out / "events"))
    settled = events.where("type = 'outcome'").selectExpr("id", "cast(value as int) as outcome")
    hinted = events.where("type = 'query'").select("id", "key", "hint").join(settled, "id")
    lower = distances(hinted, "hint", by="key", budget=0.004).groupBy().sum("distance_lower").first()[0]
    return [batch.durationMs["triggerExecution"] / 1000 for batch in batches], forecasts, lower


def forecasts_of_one_machine(events: pl.DataFrame) -> pl.DataFrame:
    """The forecasts of the engine without Spark for the same events, in the order of their positions."""
    from onlinecal.engine import Engine, Forecast, Outcome, Query

    events_in_order: list[Any] = [
        Query(id, key, hint, at) if kind == "query" else Outcome(id, int(value), key, at)
        for kind, id, key, hint, value, at in events.select(
            "type", "id", "key", "hint", "value", "time"
        ).iter_rows()
    ]
    with Engine(hot_keys=1 << 20) as engine:
        answers = engine.handle(events_in_order)
    rows = [
        (answer.id, answer.key, position, answer.probability, answer.certificate)
        for position, answer in enumerate(answers)
        if isinstance(answer, Forecast)
    ]
    return pl.DataFrame(rows, schema=list(COMPARED), orient="row")


def differences(forecasts: pl.DataFrame, wanted: pl.DataFrame) -> int:
    """How many forecasts are missing, too many or different in any bit."""
    equal = forecasts.join(wanted, on=list(COMPARED), how="inner").height
    return max(forecasts.height, wanted.height) - equal


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns 0 if done, 1 if Spark and one machine differ, 2 if the request was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m onlinecal.simulations.demos.spark_demo",
        description="A thousand calibrated streams on Spark.",
    )
    parser.add_argument("--out", type=Path, default=Path("results/demo-spark"), help="a folder of its own")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of a key")
    parsed = parser.parse_args(arguments)
    try:
        keys, rounds = check_count(parsed.keys, "keys"), check_count(parsed.rounds, "rounds")
        events = make_events(keys, rounds)
        write_events(events, parsed.out / "events")
        from onlinecal.engine.spark import local_session

        spark = local_session(2)
    except FileExistsError:
        print(f"spark_demo: {parsed.out} holds a demo: name another folder, or delete it", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"spark_demo: {error}", file=sys.stderr)
        return 2
    try:
        seconds, forecasts, hints = play(spark, parsed.out)
    finally:
        spark.stop()
    different = differences(forecasts, forecasts_of_one_machine(events))
    proven = forecasts.sort("position").group_by("key").agg(pl.col("certificate").last())["certificate"].sum()
    equal = f"all {number(forecasts.height)} forecasts equal, bit for bit"
    lines = [
        ("keys", number(keys)),
        ("rounds", number(keys * rounds)),
        ("hints: distance to calibration per round, at least", f"{hints / (keys * rounds):.4f}"),
        ("forecasts: the same, proven while the stream ran", f"{proven / (keys * rounds):.4f}"),
        ("seconds of the micro-batches", ", ".join(f"{batch_seconds:.1f}" for batch_seconds in seconds)),
        ("the same events without Spark", f"{different} FORECASTS DIFFER" if different else equal),
    ]
    results().print(table("calibrated streams on Spark", ["", ""], lines))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
