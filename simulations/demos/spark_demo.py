"""A thousand streams on Spark: forecasts for late outcomes, then how far from calibrated they were.

python -m simulations.demos.spark_demo --out results/demo-spark

A second run in the same folder goes on from the checkpoint, where there is nothing left to do.

    <out>/events/*.parquet      what is asked and settled; a file is a micro-batch
    <out>/answers               the forecasts; read it with Spark, which knows which files count
    <out>/checkpoint            where Spark is, and the state of every key
    <out>/keys.png, .svg, .csv  the picture, and a row a key

The probabilities of the streams drift, and their model is too sure of itself. Every key has a number of
rounds of its own. Its probability of outcome 1 swings about a level of its own, and the hints are a noisy
look at it whose log-odds are taken 2.5 times too large. Outcomes come a few rounds late, in no order; one
query in a hundred is sent again; each key ends with a query that nobody has settled.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from scipy.special import expit

from onlinecal.plots.style import (
    HALO,
    INK,
    OKABE_ITO,
    QUIET,
    along,
    colour_key,
    headline,
    in_house_style,
    near,
)
from onlinecal.validation import check_count
from simulations.plots import Drawing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLUSTER = "local-cluster[2,1,1024]"
"""Two executors of this machine, each a process with a core and 1024 MiB."""

BUDGET = 0.004
"""Seconds of work, about, for the distance of one key."""

OVERCONFIDENCE = 2.5
LATE = 3.0
"""Rounds of its key for which an outcome is waited for, on average."""

AGAIN = 0.01
"""Share of the queries that are sent again."""

EPOCH = 1_700_000_000
"""Spark reads files in the order of their times: the first file's."""

COMPARED = ("id", "key", "position", "probability", "certificate")
SUMS = ("certificate", "forecasts_lower", "forecasts_upper", "hints_lower", "hints_upper")


@dataclass(frozen=True)
class Streams:
    """How many streams there are; `rounds` of each on average, `files` for all of them together."""

    keys: int = 1000
    rounds: int = 100
    files: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("keys", "rounds", "files"):
            check_count(getattr(self, name), name)


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
        # what one file holds may be in any order
        part = events[number * size : (number + 1) * size].sample(fraction=1.0, shuffle=True, seed=number)
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
    hint = np.round(expit(OVERCONFIDENCE * (log_odds + rng.normal(0.0, 0.5, n))), 2)
    outcome = rng.random(n) < expit(log_odds)
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


class Found(NamedTuple):
    """What a run of the demo comes to.

    Attributes
    ----------
    seconds
        Spark's time for each micro-batch of this run.
    new_events
        How many events this run has played; 0 if an earlier one had played them all.
    keys
        A row a key: key, rounds, certificate, and lower and upper ends of the distances of forecasts and
        hints; sums over rounds.
    answers, differences
        How many forecasts there are, and in how many Spark and the engine on one machine differ.
    """

    seconds: list[float]
    new_events: int
    keys: pl.DataFrame
    answers: int
    differences: int


def play(spark: SparkSession, out: Path) -> Found:
    """Play what was not played yet, measure what has been answered, and play it again on one machine."""
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
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    forecasts = spark.read.parquet(str(out / "answers")).where("type = 'forecast'")
    keys = measured_keys(spark.read.parquet(str(out / "events")), forecasts)
    return Found(
        [batch.durationMs["triggerExecution"] / 1000 for batch in batches],
        sum(batch.numInputRows for batch in batches),
        keys.sort("rounds", "key", descending=[True, False]),
        *compared(_collected(forecasts.select(*COMPARED)), forecasts_of_one_machine(out)),
    )


def measured_keys(events: DataFrame, forecasts: DataFrame) -> pl.DataFrame:
    """Certificates and distances of every key."""
    from pyspark.sql import functions as F

    from onlinecal.engine.spark import distances

    # sent again is not asked again
    asked = events.where("type = 'query'").select("id", "hint").dropDuplicates(["id"])
    settled = events.where("type = 'outcome'").select("id", F.col("value").cast("int").alias("outcome"))
    forecasts = forecasts.dropDuplicates(["id"])
    rounds = forecasts.join(settled, "id").join(asked, "id").cache()
    keys = forecasts.groupBy("key").agg(F.max_by("certificate", "position").alias("certificate"))
    for column, name, more in (("probability", "forecasts", ["rounds"]), ("hint", "hints", [])):
        found = distances(rounds, column, by="key", budget=BUDGET)
        ends = [F.col(f"distance_{end}").alias(f"{name}_{end}") for end in ("lower", "upper")]
        keys = keys.join(found.select("key", *more, *ends), "key")
    table = _collected(keys)
    rounds.unpersist()
    return table


def _collected(frame: DataFrame) -> pl.DataFrame:
    table = pl.from_arrow(frame.toArrow())
    assert isinstance(table, pl.DataFrame)
    return table


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


def prepare(keys: pl.DataFrame) -> pl.DataFrame:
    """A row a key: key, rounds, and per round the certificate and both ends of the distances."""
    return keys.select("key", "rounds", *(pl.col(name) / pl.col("rounds") for name in SUMS))


@in_house_style
def draw(table: pl.DataFrame) -> Figure:
    """Two dots a key, above the lower end of its hints' distance; below the diagonal the forecasts win."""
    figure = Figure(figsize=(9.6, 7.0))
    axis = figure.subplots(gridspec_kw={"left": 0.085, "right": 0.975, "top": 0.835, "bottom": 0.09})
    names = ("rounds", "hints_lower", "certificate", "forecasts_upper")
    rounds, hints, proven, measured = (table[name].to_numpy() for name in names)
    better, at_once = (int(np.sum(y < hints)) for y in (measured, proven))
    headline(
        figure,
        f"Forecasts are nearer to calibrated than the hints in {better:,} of {table.height:,} streams",
        f"For {at_once:,} the certificate alone, known while the stream ran, proves it. Two dots a stream, "
        "larger with more rounds; averages per round.",
    )
    heights = {"certificate": (proven, OKABE_ITO[1]), "distance": (measured, OKABE_ITO[0])}
    texts = ("the certificate", "the forecasts' distance, at most")
    key = [(text, colour) for text, (_, colour) in zip(texts, heights.values(), strict=True)]
    colour_key(figure, [("Above each stream's hints:", "#555555"), *key], 0.72)
    # a few short streams whose hints happen to fit lie on the edges
    low = 0.6 * max(float(np.quantile(np.minimum(hints, measured), 0.01)), 1e-3)
    high = 1.25 * float(max(hints.max(), proven.max()))
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="auto")
    axis.set(xlabel="hints: distance to calibration per round, at least", ylabel="forecasts, per round")
    axis.plot([low, high], [low, high], color=INK, lw=1.0, zorder=2)
    text = "as far from calibrated as the hints"
    along(axis, text, 1.15 * low, 1.17 * low, 2.3 * low, 2.34 * low, color=INK)
    sizes = np.clip(1.2 * np.sqrt(rounds), 5.0, 60.0)
    words: Any = {"fontweight": "bold", "path_effects": HALO, "zorder": 6}
    across, up = axis.get_yaxis_transform(), axis.get_xaxis_transform()
    for name, (values, colour) in heights.items():
        dots: Any = {"s": sizes, "color": colour, "alpha": 0.45, "lw": 0, "zorder": 3}
        axis.scatter(np.maximum(hints, low), np.maximum(values, low), **dots)
        mean = float(np.average(values, weights=rounds))
        axis.axhline(mean, color=colour, lw=1.2, ls=(0, (4, 2)), zorder=4)
        text = f"all rounds: {name} {mean:.3f}"
        near(axis, text, (1.0, mean), (-4, 4), xycoords=across, ha="right", color=colour, **words)
    everyone = float(np.average(hints, weights=rounds))
    axis.axvline(everyone, color=QUIET, lw=1.2, ls=(0, (4, 2)), zorder=2)
    near(
        axis,
        f"all rounds: hints {everyone:.3f}",
        (everyone, 0.0),
        (4, 6),
        xycoords=up,
        color="#555555",
        **words,
    )
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        one.set_minor_formatter(NullFormatter())
    return figure


PICTURE = Drawing(prepare, draw)


def show(found: Found, out: Path, seconds: float) -> None:
    """The table for people, and the picture."""
    from onlinecal.cli.output import results, table
    from onlinecal.tables import number

    keys, console = found.keys, results()
    rounds = int(keys["rounds"].sum())
    names = ("hints_lower", "forecasts_upper", "certificate")
    hints, measured, proven = (f"{float(keys[name].sum()) / rounds:.4f}" for name in names)
    played = "none: all had been played before"
    if found.new_events:
        quickest = found.new_events / len(found.seconds) / min(found.seconds)
        played = f"{number(found.new_events)} in {len(found.seconds)} micro-batches, the quickest at "
        played += f"{number(round(quickest, -2))} events/s"
    told = f"all {number(found.answers)} forecasts equal, bit for bit"
    if found.differences:
        told = f"{number(found.differences)} of {number(found.answers)} FORECASTS DIFFER"
    lines = [
        ("events played in this run", played),
        ("keys", number(keys.height)),
        ("rounds settled", number(rounds)),
        ("hints: distance to calibration per round, at least", hints),
        ("forecasts: the same, at most", measured),
        ("forecasts: certificate, proven while the stream ran", proven),
        ("the same events on one machine without Spark", told),
        ("seconds in all", number(round(seconds, 1))),
    ]
    console.print(table("calibrated streams on Spark", ["", ""], lines))
    console.print(str(PICTURE.write(out / "keys", keys)), soft_wrap=True)


def in_session(master: str, out: Path) -> Found:
    """`play` in a session of its own, of which nothing stays behind."""
    from onlinecal.engine.spark import local_session

    # pyspark has not tried the newest pandas; nothing here goes through pandas
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    spark = local_session(2, master)
    logs = spark_home() / "work" / spark.sparkContext.applicationId
    try:
        return play(spark, out)
    finally:
        spark.stop()
        shutil.rmtree(logs, ignore_errors=True)


def spark_home() -> Path:
    """Where Spark's own files are; the executors of a local cluster keep their logs there."""
    found = find_spec("pyspark")
    return Path(found.origin).parent if found and found.origin else Path()


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 done, 1 Spark and one machine differ, 2 the request was wrong."""
    # executors that could not write their logs would not start
    master = CLUSTER if os.access(spark_home(), os.W_OK) else "local[2]"
    parser = argparse.ArgumentParser(
        prog="python -m simulations.demos.spark_demo", description="A thousand calibrated streams on Spark."
    )
    parser.add_argument("--out", type=Path, default=Path("results/demo-spark"), help="folder of the demo")
    parser.add_argument("--keys", type=int, default=Streams.keys)
    parser.add_argument("--rounds", type=int, default=Streams.rounds, help="rounds of a key, on average")
    parser.add_argument(
        "--files", type=int, default=Streams.files, help="files of events, a micro-batch each"
    )
    parser.add_argument("--seed", type=int, default=Streams.seed)
    parser.add_argument("--master", default=master, help="where Spark runs (%(default)s)")
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


if __name__ == "__main__":
    sys.exit(main())
