"""A stream from files to files through Spark; as a program, so that it can be killed:

python -m tests.engine.spark.stream_run ROOT      reads ROOT/in, writes ROOT/out, goes on from ROOT/checkpoint
"""

import json
import os
import random
import sys
from pathlib import Path

from onlinecal.engine import Forecast, Outcome, Query, Rejected
from tests.engine.scripts import CONFIG

REMEMBER = 10_000
STRAYS = (
    {"type": "query", "id": "no key", "position": 3},
    {"type": "query", "id": "no position", "key": "plain/0"},
    {"type": "dance", "id": "no type", "key": "lanes/1", "position": -5},
    {"type": "outcome", "id": "no value", "key": "lanes/1", "position": -4},
    {},
)
"""Rows that make no sense, in every file."""


def write_events(events, folder, files, strays=()):
    """Files in the order of their times; rows shuffled within each, and strays in each."""
    folder.mkdir(parents=True)
    rng, size = random.Random(0), -(-len(events) // files)
    for number in range(files):
        start = number * size
        lines = [*strays, *map(as_row, events[start : start + size], range(start, len(events)))]
        rng.shuffle(lines)
        path = folder / f"{number:03d}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (1_700_000_000 + number,) * 2)


def as_row(event, position):
    row = {"type": event.__struct_config__.tag, "id": event.id, "key": event.key, "position": position}
    row["time"] = event.time
    if isinstance(event, Outcome):
        soft = isinstance(event.value, dict)
        row["values" if soft else "value"] = event.value if soft else str(event.value)
    elif isinstance(event, Query) and event.hint is not None:
        row["hints" if isinstance(event.hint, dict) else "hint"] = event.hint
    return row


def run(spark, root, initial=None):
    """Play all files that are there, one a micro-batch."""
    from onlinecal.engine.spark import EVENTS, calibrated_stream

    rows = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).json(str(root / "in"))
    answers = calibrated_stream(rows, CONFIG, remember=REMEMBER, initial=initial, check=False)
    query = (
        answers.writeStream.format("parquet")
        .option("path", str(root / "out"))
        .option("checkpointLocation", str(root / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def read(spark, root):
    """The answers that count, in order; Spark goes by what the sink says it has committed."""
    rows = spark.read.parquet(str(root / "out")).collect()
    return sorted((tuple(row) for row in rows), key=lambda row: (row[3] is not None, row[3] or 0, str(row)))


def told(row):
    """What a row of the answers says, comparable with what `said` makes of the engine's answers."""
    _, kind, id, _, probability, probabilities, certificate, reason, detail = row
    if kind == "forecast":
        return id, probability if probabilities is None else probabilities, certificate
    return (id, reason, detail) if kind == "rejected" else (id, kind)


def said(answer):
    if isinstance(answer, Forecast):
        return answer.id, answer.probability, answer.certificate
    if isinstance(answer, Rejected):
        return answer.id, answer.reason, answer.detail
    return answer.id, answer.__struct_config__.tag


if __name__ == "__main__":
    from onlinecal.engine.spark import local_session

    run(local_session(2), Path(sys.argv[1]))
