"""Events for the Spark demo: many streams whose probabilities drift, and a model that is too sure of itself.

Every key has a number of rounds of its own, its probability of outcome 1 swings about a level of its own,
and the hints are a noisy look at it whose log-odds are taken 2.5 times too large. Outcomes come a few rounds
late, in no order; one query in a hundred is sent again; each key ends with a query that nobody has settled.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

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
