"""Rows of a key on their way through Spark: the same events and answers, however they were packed."""

import random

import pytest

from onlinecal.engine import EngineConfig, Outcome, Query
from onlinecal.engine.events import decode
from onlinecal.engine.step import KeyStep

pa = pytest.importorskip("pyarrow", reason="needs onlinecal[spark]")

from onlinecal.engine.spark.rows import ASKS, BINARY, LINE, UNPLACED, VALUES, KeyRows, packed, told  # noqa: E402  # noqa: E402

NAN = float("nan")
TYPES = {
    "key": pa.string(), "position": pa.int64(), "code": pa.int8(), "hint": pa.float64(), "time": pa.float64(),
    "id": pa.string(), "line": pa.string(),
}  # fmt: skip


def some_rows(count, seed):
    """Rows of a key, and its events: late outcomes, repeats, lines, full hints."""
    rng, rows, events, waiting = random.Random(seed), [], [], []
    for position in range(count):
        time = rng.choice([NAN, float(position)])
        at = None if time != time else time
        if rng.random() < 0.05:
            line = rng.choice(
                ['{"type":"withdraw","id":"q3"}', "{}", '{"type":"outcome","id":"q1","value":7}']
            )
            rows.append(("k", position, LINE, NAN, NAN, "", line))
            events.append(decode(line.encode()))
        elif len(waiting) > 5:
            id, code = rng.choice(waiting), ASKS + 1 + rng.randrange(len(VALUES))
            if rng.random() < 0.9:
                waiting.remove(id)
            rows.append(("k", position, code, NAN, time, id, ""))
            events.append(Outcome(id, BINARY[str(VALUES[code - ASKS - 1]).lower()], None, at))
        else:
            id, hint = (
                f"q{position}" if rng.random() < 0.95 else "\u00fc" * 201,
                rng.choice([NAN, rng.random()]),
            )
            rows.append(("k", position, ASKS, hint, time, id, ""))
            events.append(Query(id, "k", None if hint != hint else hint, at))
            waiting.append(id)
    return rows, events


def events_of(rows):
    """The events of a key's rows, one by one."""
    return [rows.event(i) for i in range(len(rows.positions))]


def as_packed(rows):
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), TYPES.values(), strict=True)
    ]
    return [
        row for batch in packed([pa.record_batch(columns, names=list(TYPES))]) for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("count, packs", [(5, 1), (11, 3), (200, 1), (200, 4)])
def test_rows_are_answered_as_their_events_in_order_however_they_were_packed(count, packs):
    rows, events = some_rows(count, count + packs)
    order = list(range(count))
    random.Random(packs).shuffle(order)
    shuffled = [rows[i] for i in order]
    size = -(-count // packs)
    parts = [row for start in range(0, count, size) for row in as_packed(shuffled[start : start + size])]
    read = KeyRows("k", parts, is_binary=True)
    assert read.positions == list(range(count))
    assert events_of(read) == events
    step = KeyStep(EngineConfig(), 20)
    data, wanted = step("k", None, events)
    after, batch = step.turn("k", None, read.columns())
    assert after == data
    assert batch.answers() == wanted


def test_rows_of_several_keys_are_parted_and_those_without_position_come_first():
    rows = [
        ("b", 7, ASKS, 0.25, NAN, "late", ""),
        ("a", 3, LINE, NAN, NAN, "", '{"type":"dance","id":"x"}'),
        ("b", 0, UNPLACED, NAN, NAN, "", '{"type":"query","id":"nowhere","key":"b"}'),
        ("b", -2, ASKS + 2, NAN, 1.0, "early", ""),
    ]
    found = {row["key"]: KeyRows(row["key"], [row], is_binary=False) for row in as_packed(rows)}
    assert found["a"].positions == [3]
    assert found["b"].positions == [None, -2, 7]
    nowhere, *rest = events_of(found["b"])
    assert (nowhere.id, nowhere.detail) == ("nowhere", "position must not be null")
    assert rest == [Outcome("early", "1", None, 1.0), Query("late", "b", 0.25)]


def test_of_rows_with_one_position_outcomes_come_first_and_then_the_smaller_id():
    rows = [("k", 1, ASKS, 0.5, NAN, id, "") for id in "cab"] + [("k", 1, ASKS + 1, NAN, NAN, "z", "")]
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert [event.id for event in events_of(KeyRows("k", as_packed(rows), True))] == ["z", "a", "b", "c"]


def test_answers_leave_in_arrays_where_these_can_say_all():
    events = [Query("a", "k", 0.5), Outcome("a", 1), Outcome("a", 0), Query("b", "k")]
    _, answers = KeyStep(EngineConfig(), 10)("k", None, events)
    together, others = told([4, 5, 6, None], answers)
    ids, positions, probabilities, certificates, none = together
    assert (ids, positions, none) == (("a", "a", "b"), (4, 5, None), None)
    assert probabilities == (answers[0].probability, None, answers[3].probability)
    assert certificates == (0.0, None, answers[3].certificate)
    assert others[:4] == (None, None, None, None)
    assert '"id":"a","position":6,"reason":"settled"' in others[4]
