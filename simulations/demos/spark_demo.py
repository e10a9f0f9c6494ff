"""A thousand streams on Spark: forecasts for late outcomes, then how far from calibrated they were.

python -m simulations.demos.spark_demo --out results/demo-spark

A second run in the same folder goes on from the checkpoint, where there is nothing left to do.

    <out>/events/*.parquet      what goes in; a file is a micro-batch
    <out>/answers               what comes out; read it with Spark, which knows which files count
    <out>/checkpoint            where Spark is, and the state of every key
    <out>/keys.png, .svg, .csv  the picture, and a row a key

Events for the Spark demo: many streams whose probabilities drift, and a model that is too sure of itself.

Every key has a number of rounds of its own, its probability of outcome 1 swings about a level of its own,
and the hints are a noisy look at it whose log-odds are taken 2.5 times too large. Outcomes come a few rounds
late, in no order; one query in a hundred is sent again; each key ends with a query that nobody has settled.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from onlinecal.plots.style import HALO, INK, OKABE_ITO, QUIET, along, colour_key, headline, in_house_style

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


PROVEN, MEASURED = OKABE_ITO[1], OKABE_ITO[0]

SUMS = ("certificate", "forecasts_lower", "forecasts_upper", "hints_lower", "hints_upper")


def prepare(keys: pl.DataFrame) -> pl.DataFrame:
    """A row a key: key, rounds, and per round the certificate and both ends of the distances."""
    return keys.select("key", "rounds", *(pl.col(name) / pl.col("rounds") for name in SUMS))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Two dots a key, above the lower end of its hints' distance; below the diagonal the forecasts win."""
    figure = Figure(figsize=(9.6, 7.0))
    axis = figure.subplots(gridspec_kw={"left": 0.085, "right": 0.975, "top": 0.835, "bottom": 0.09})
    hints, proven, measured = (
        table[name].to_numpy() for name in ("hints_lower", "certificate", "forecasts_upper")
    )
    better, at_once = (int(np.sum(y < hints)) for y in (measured, proven))
    headline(
        figure,
        f"Forecasts are nearer to calibrated than the hints in {better:,} of {table.height:,} streams",
        f"For {at_once:,} the certificate alone, known while the stream ran, proves it. Two dots a stream, "
        "larger with more rounds; averages per round.",
    )
    colour_key(
        figure,
        [("the certificate", PROVEN), ("the forecasts' distance, at most", MEASURED)],
        "Above each stream's hints:",
        0.72,
    )
    # a few short streams whose hints happen to fit lie on the edges
    low = 0.6 * max(float(np.quantile(np.minimum(hints, measured), 0.01)), 1e-3)
    high = 1.25 * float(max(hints.max(), proven.max()))
    sizes = np.clip(1.2 * np.sqrt(table["rounds"].to_numpy()), 5.0, 60.0)
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="auto")
    axis.set(xlabel="hints: distance to calibration per round, at least", ylabel="forecasts, per round")
    axis.plot([low, high], [low, high], color=INK, lw=1.0, zorder=2)
    along(
        axis, "as far from calibrated as the hints", 1.15 * low, 1.17 * low, 2.3 * low, 2.34 * low, color=INK
    )
    rounds = table["rounds"].to_numpy()
    words: Any = {"textcoords": "offset points", "fontsize": 9, "fontweight": "bold", "path_effects": HALO}
    across, up = axis.get_yaxis_transform(), axis.get_xaxis_transform()
    for heights, colour, name in ((proven, PROVEN, "certificate"), (measured, MEASURED, "distance")):
        dots: Any = {"s": sizes, "color": colour, "alpha": 0.45, "lw": 0, "zorder": 3}
        axis.scatter(np.maximum(hints, low), np.maximum(heights, low), **dots)
        mean = float(np.sum(heights * rounds) / rounds.sum())
        axis.axhline(mean, color=colour, lw=1.2, ls=(0, (4, 2)), zorder=4)
        text = f"all rounds: {name} {mean:.3f}"
        axis.annotate(
            text, (1.0, mean), (-4, 4), xycoords=across, ha="right", color=colour, zorder=6, **words
        )
    everyone = float(np.sum(hints * rounds) / rounds.sum())
    axis.axvline(everyone, color=QUIET, lw=1.2, ls=(0, (4, 2)), zorder=2)
    text = f"all rounds: hints {everyone:.3f}"
    axis.annotate(text, (everyone, 0.0), (4, 6), xycoords=up, color="#555555", zorder=6, **words)
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        one.set_minor_formatter(NullFormatter())
    return figure


CLUSTER = "local-cluster[2,1,1024]"
"""Two executors of this machine, each a process with a core and 1024 MiB."""

BUDGET = 0.004
"""Seconds of work, about, for the distance of one key."""

COMPARED = ("id", "key", "position", "probability", "certificate")


@dataclass
class Found:
    """What a run of the demo comes to.

    Attributes
    ----------
    new_events
        How many events this run has played; 0 if an earlier one had played them all.
    seconds
        Spark's time for each micro-batch of this run.
    keys
        A row a key: key, rounds, certificate, and lower and upper ends of the distances of forecasts and
        hints; sums over rounds.
    differences
        In how many answers Spark and the engine on one machine differ.
    """

    new_events: int
    seconds: list[float]
    keys: pl.DataFrame
    answers: int
    differences: int


def play(spark: SparkSession, out: Path) -> Found:
    """Run the stream to its end, measure what it has answered, and play it again on one machine."""
    new_events, seconds = run_stream(spark, out)
    answers = spark.read.parquet(str(out / "answers"))
    keys = measured_keys(spark, out, answers)
    found = pl.from_arrow(answers.where("type = 'forecast'").select(*COMPARED).toArrow())
    assert isinstance(found, pl.DataFrame)
    wanted = forecasts_of_one_machine(out)
    return Found(new_events, seconds, keys, *compared(found, wanted))


def run_stream(spark: SparkSession, out: Path) -> tuple[int, list[float]]:
    """Play the events that were not played yet: how many there were, and the seconds of each micro-batch."""
    from onlinecal.engine.spark import EVENTS, calibrated_stream

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
    played = [progress for progress in query.recentProgress if progress.numInputRows]
    return (
        sum(progress.numInputRows for progress in played),
        [progress.durationMs["triggerExecution"] / 1000 for progress in played],
    )


def measured_keys(spark: SparkSession, out: Path, answers: DataFrame) -> pl.DataFrame:
    """Certificates and distances of every key, the keys with the most rounds first."""
    from pyspark.sql import functions as F

    from onlinecal.engine.spark import distances

    events = spark.read.parquet(str(out / "events"))
    # sent again is not asked again
    asked = events.where("type = 'query'").select("id", "hint").dropDuplicates(["id"])
    settled = events.where("type = 'outcome'").select("id", F.col("value").cast("int").alias("outcome"))
    forecasts = answers.where("type = 'forecast'").dropDuplicates(["id"])
    rounds = forecasts.join(settled, "id").join(asked, "id").cache()

    def measured(column: str, name: str) -> DataFrame:
        found = distances(rounds, column, by="key", budget=BUDGET)
        ends = [F.col(f"distance_{end}").alias(f"{name}_{end}") for end in ("lower", "upper")]
        return found.select("key", *(["rounds"] if name == "forecasts" else []), *ends)

    proven = forecasts.groupBy("key").agg(F.max_by("certificate", "position").alias("certificate"))
    keys = proven.join(measured("probability", "forecasts"), "key").join(measured("hint", "hints"), "key")
    table = pl.from_arrow(keys.toArrow())
    rounds.unpersist()
    assert isinstance(table, pl.DataFrame)
    return table.sort("rounds", "key", descending=[True, False])


def forecasts_of_one_machine(out: Path) -> pl.DataFrame:
    """The forecasts of the plain engine for the same events in the order of their positions."""
    from onlinecal.engine import Engine, Forecast, Outcome, Query

    rows = pl.read_parquet(out / "events" / "*.parquet").sort("position")
    events: list[Any] = [
        Query(id, key, hint, at) if kind == "query" else Outcome(id, int(value), key, at)
        for kind, id, key, hint, value, at in rows.select(
            "type", "id", "key", "hint", "value", "time"
        ).iter_rows()
    ]
    with Engine(hot_keys=1 << 20) as engine:
        answers = engine.handle(events)
    found = [
        (one.id, one.key, position, one.probability, one.certificate)
        for one, position in zip(answers, rows["position"], strict=True)
        if isinstance(one, Forecast)
    ]
    return pl.DataFrame(found, schema=list(COMPARED), orient="row")


def compared(found: pl.DataFrame, wanted: pl.DataFrame) -> tuple[int, int]:
    """How many forecasts there are, and how many are missing, too many or different in any bit."""
    equal = found.join(wanted, on=list(COMPARED), how="inner").height
    return wanted.height, max(found.height, wanted.height) - equal


def totals(found: Found) -> dict[str, float]:
    """Averages over all rounds of all keys, measured key by key."""
    keys, n = found.keys, int(found.keys["rounds"].sum())
    names = ("certificate", "forecasts_upper", "hints_lower")
    return {"rounds": n, **{name: float(keys[name].sum()) / n for name in names}}


def show(found: Found, out: Path, seconds: float) -> None:
    """The table for people, and the picture."""
    from onlinecal.cli.output import results, table
    from onlinecal.plots.style import write_figure
    from onlinecal.tables import number

    console, whole = results(), totals(found)
    played = f"{number(found.new_events)} in {len(found.seconds)} micro-batches"
    if found.seconds:
        quickest = found.new_events / len(found.seconds) / min(found.seconds)
        played += f", the quickest at {number(round(quickest, -2))} events/s"
    lines = [
        ("events played in this run", played if found.new_events else "none: all had been played before"),
        ("keys", number(found.keys.height)),
        ("rounds settled", number(whole["rounds"])),
        ("hints: distance to calibration per round, at least", f"{whole['hints_lower']:.4f}"),
        ("forecasts: the same, at most", f"{whole['forecasts_upper']:.4f}"),
        ("forecasts: certificate, proven while the stream ran", f"{whole['certificate']:.4f}"),
        (
            "the same events on one machine without Spark",
            f"all {number(found.answers)} forecasts equal, bit for bit"
            if not found.differences
            else f"{number(found.differences)} of {number(found.answers)} FORECASTS DIFFER",
        ),
        ("seconds in all", number(round(seconds, 1))),
    ]
    console.print(table("calibrated streams on Spark", ["", ""], lines))
    picked = found.keys[np.linspace(0, found.keys.height - 1, min(8, found.keys.height)).astype(int).tolist()]
    names = ("certificate", "forecasts_upper", "hints_lower")
    rows = [
        (row["key"], number(row["rounds"]), *(f"{row[name] / row['rounds']:.4f}" for name in names))
        for row in picked.iter_rows(named=True)
    ]
    columns = ["key", "rounds", "certificate", "forecasts' distance <=", "hints' distance >="]
    console.print(table(f"{len(rows)} of the keys, per round", columns, rows))
    drawn = prepare(found.keys)
    console.print(str(write_figure(draw(drawn), drawn, out / "keys")), soft_wrap=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 done, 1 Spark and one machine differ, 2 the request was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.demos.spark_demo", description="A thousand calibrated streams on Spark."
    )
    parser.add_argument("--out", type=Path, default=Path("results/demo-spark"), help="folder of the demo")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of a key, on average")
    parser.add_argument("--files", type=int, default=4, help="files of events, each a micro-batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--master", default=usual_master(), help="where Spark runs (%(default)s)")
    given = parser.parse_args(arguments)
    begun = time.perf_counter()
    try:
        write_streams(Streams(given.keys, given.rounds, given.files, given.seed), given.out)
        found = in_session(given.master, given.out)
    except (ValueError, OSError) as error:
        print(f"spark_demo: {error}", file=sys.stderr)
        return 2
    show(found, given.out, time.perf_counter() - begun)
    return 1 if found.differences else 0


def usual_master() -> str:
    """Two executors, or two threads where executors could not write their logs."""
    return CLUSTER if os.access(executor_logs("none").parent.parent, os.W_OK) else "local[2]"


def in_session(master: str, out: Path) -> Found:
    """`play` in a session of its own, of which nothing stays behind."""
    import warnings

    from onlinecal.engine.spark import local_session

    # pyspark has not tried the newest pandas; nothing here goes through pandas
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    spark = local_session(2, master)
    logs = executor_logs(spark.sparkContext.applicationId)
    try:
        return play(spark, out)
    finally:
        spark.stop()
        shutil.rmtree(logs, ignore_errors=True)


def executor_logs(application: str) -> Path:
    """Where the executors of a local cluster keep their logs: beside Spark's own files."""
    found = find_spec("pyspark")
    home = Path(found.origin).parent if found and found.origin else Path()
    return home / "work" / application


if __name__ == "__main__":
    sys.exit(main())

OVERCONFIDENCE = 2.5
LATE = 3.0
"""Rounds of its key for which an outcome is waited for, on average."""

AGAIN = 0.01
"""Share of the queries that are sent again."""

EPOCH = 1_700_000_000
"""Spark reads files in the order of their times: the first file's."""


@dataclass(frozen=True)
class Streams:
    """How many streams there are; `rounds` of each on average, `files` for all of them together."""

    keys: int = 1000
    rounds: int = 100
    files: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("keys", "rounds", "files"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


def write_streams(streams: Streams, out: Path) -> None:
    """Write the files of events, unless they are there; ValueError if those of other streams are."""
    note = out / "streams.json"
    if note.exists():
        before = json.loads(note.read_text())
        if before != asdict(streams):
            raise ValueError(f"{out} holds other streams ({before}): choose another folder, or delete it")
        return
    folder = out / "events"
    folder.mkdir(parents=True, exist_ok=True)
    events = make_events(streams)
    size = -(-events.height // streams.files)
    for number in range(streams.files):
        part = events[number * size : (number + 1) * size]
        # what one file holds may be in any order
        part = part.sample(fraction=1.0, shuffle=True, seed=number)
        path = folder / f"{number:04d}.parquet"
        part.write_parquet(path)
        os.utime(path, (EPOCH + number, EPOCH + number))
    note.write_text(json.dumps(asdict(streams)))


def make_events(streams: Streams) -> pl.DataFrame:
    """All events in the order of their positions, with the columns of `onlinecal.engine.spark.EVENTS`."""
    rng = np.random.default_rng(streams.seed)
    width = len(str(streams.keys - 1))
    parts = [one_key(f"shop-{i:0{width}d}", streams.rounds, rng) for i in range(streams.keys)]
    events = pl.concat(parts).sort("sent", "id", "type", descending=[False, False, True]).drop("sent")
    return events.with_columns(position=pl.int_range(events.height))


def one_key(key: str, mean: int, rng: np.random.Generator) -> pl.DataFrame:
    """The events of one key, in no order; time runs from 0 to 1, and a little beyond for what is late."""
    n = int(np.clip(mean * np.exp(rng.normal(-0.3, 0.8)), min(mean, 10), 20 * mean))
    asked = np.sort(rng.random(n))
    swing = rng.uniform(0.5, 2.0) * np.sin(2.0 * np.pi * (asked + rng.random()))
    log_odds = rng.normal(0.0, 1.2) + swing
    probability = sigmoid(log_odds)
    hint = np.round(sigmoid(OVERCONFIDENCE * (log_odds + rng.normal(0.0, 0.5, n))), 2)
    outcome = rng.random(n) < probability
    settled = asked + rng.exponential(LATE / n, n)
    end = float(settled.max()) + 1.0
    ids = [f"{key}/{j}" for j in range(n)]
    again = np.flatnonzero(rng.random(n) < AGAIN)
    columns = {
        "type": ["query"] * n + ["outcome"] * n + ["query"] * (len(again) + 1),
        "id": ids + ids + [ids[j] for j in again] + [f"{key}/last"],
        "hint": [*hint, *[None] * n, *hint[again], None],
        "value": [None] * n + [str(int(y)) for y in outcome] + [None] * (len(again) + 1),
        "sent": [*asked, *settled, *(asked[again] + 0.5 / n), end],
        # an event that is sent again says what it said before
        "time": [*asked, *settled, *asked[again], end],
    }
    table = pl.DataFrame(columns, strict=False, schema_overrides={"hint": pl.Float64, "value": pl.String})
    return table.with_columns(key=pl.lit(key))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Probabilities from log-odds."""
    return 1.0 / (1.0 + np.exp(-x))
