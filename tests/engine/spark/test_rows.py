"""Rows of a key on their way through Spark: the same events and answers, however they were packed."""

import json
import random

import pytest

from onlinecal.engine import EngineConfig, Outcome, Query
from onlinecal.engine.events import decode
from onlinecal.engine.turns import KeyTurns

pa = pytest.importorskip("pyarrow", reason="needs onlinecal[spark]")

from onlinecal.engine.spark.rows import KeyRows, packed  # noqa: E402

VALUES = ("0", "1", "0.0", "1.0", "false", " TRUE\t", 0, 1, 0.0, 1.0, False, True, "2", '"value":"1"')
NUMBERS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, " TRUE\t": 1}


def some_rows(count, seed):
    """Rows of a key, and its events: late outcomes, repeats, what is no event, full hints."""
    rng, rows, events, waiting = random.Random(seed), [], [], []
    for position in range(count):
        time = rng.choice([None, float(position)])
        if rng.random() < 0.05:
            line = rng.choice(
                ['{"type":"withdraw","id":"q3"}', "{}", '{"type":"outcome","id":"q1","value":7}']
            )
            events.append(decode(line.encode()))
        else:
            if len(waiting) > 5:
                id, value = rng.choice(waiting), rng.choice(VALUES)
                if rng.random() < 0.9:
                    waiting.remove(id)
                said = {"type": "outcome", "id": id, "value": value}
                events.append(Outcome(id, NUMBERS.get(value, value), None, time))
            else:
                id = rng.choice([f"q{position}", f'"value":"1"{position}', "\u00fc" * 201])
                said = {"type": "query", "id": id, "key": "k", "hint": rng.choice([None, rng.random()])}
                events.append(Query(id, "k", said["hint"], time))
                waiting.append(id)
            line = json.dumps({**said, "time": time}, separators=(",", ":"))
        rows.append(("k", position, line))
    return rows, events


def as_packed(rows):
    names = ("key", "position", "line")
    columns = map(pa.array, zip(*rows, strict=True), (pa.string(), pa.int64(), pa.string()))
    batches = packed([pa.record_batch(list(columns), names=names)])
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("count, packs", [(5, 1), (11, 3), (200, 1), (200, 4)])
def test_rows_are_answered_as_their_events_in_order_however_they_were_packed(count, packs):
    rows, events = some_rows(count, count + packs)
    order = list(range(count))
    random.Random(packs).shuffle(order)
    shuffled = [rows[i] for i in order]
    size = -(-count // packs)
    parts = [row for start in range(0, count, size) for row in as_packed(shuffled[start : start + size])]
    read = KeyRows(parts)
    assert read.positions == list(range(count))
    assert read.lines == [line for _, _, line in rows]
    step = KeyTurns(EngineConfig(), 20)
    data, wanted = step("k", None, events)
    after, batch = step.turn("k", None, read.columns(is_binary=True))
    assert after == data
    assert batch.answers() == wanted


def test_of_rows_with_one_position_outcomes_come_first_and_then_the_smaller_id():
    rows = [("k", 1, f'{{"type":"query","id":"{id}","key":"k"}}') for id in "cab"]
    rows.append(("k", 1, '{"type":"outcome","id":"z","value":0}'))
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert KeyRows(as_packed(rows)).columns(True).ids == ["z", "a", "b", "c"]
