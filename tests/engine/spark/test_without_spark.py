"""What Spark's workers run, run here without Spark: the small form of the tests beside this one."""

import json
import random
import re
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, LedgerError, read_report
from onlinecal.engine.spark import rows as spark_rows
from onlinecal.engine.spark.rows import NEEDED_COLUMNS, KeyRows, check_events, packed, packs
from onlinecal.engine.spark.tables import MEASURES, _on_frames, check_table, measures_of_counts
from onlinecal.measures import (
    calibration_distance,
    expected_calibration_error,
    smooth_calibration_error,
)
from onlinecal.measures.counts import check_counts
from tests.engine.fault_tools import changed
from tests.engine.scripts import CONFIG, events_of, script, script_with_parked
from tests.engine.spark.stream_run import REMEMBER, STRAYS, as_row, said, told

types = pytest.importorskip("pyspark.sql.types", reason="needs onlinecal[spark]")
pa = pytest.importorskip("pyarrow", reason="needs onlinecal[spark]")


class Workers:
    """Plays the part of Spark: packs the rows of a micro-batch, and keeps the state of every key."""

    def __init__(self, config):
        from onlinecal.engine.spark.stream import Calibrator

        self.states, self.key = {}, None
        self.processor = Calibrator(config, REMEMBER)
        self.processor.init(SimpleNamespace(getValueState=lambda name, schema: self))

    def get(self):
        """The state of the key whose turn it is, as Spark hands it to the processor."""
        return self.states.get(self.key)

    def update(self, state):
        """Keep the state of the key whose turn it is, for the processor."""
        self.states[self.key] = state

    def begin(self, key, state):
        """Give a key its first state."""
        self.key = key
        self.processor.handleInitialState((key,), SimpleNamespace(state=state), None)

    def play(self, rows):
        """The answers to a micro-batch, as rows of the stream's answers."""
        columns = zip(*((row.get("key"), row.get("position"), line_of(row)) for row in rows), strict=True)
        arrays = list(map(pa.array, columns, (pa.string(), pa.int64(), pa.string())))
        batch = pa.record_batch(arrays, names=("key", "position", "line"))
        of_key = defaultdict(list)
        for part in packs(iter([batch[: len(rows) // 2], batch[len(rows) // 2 :]])):
            for row in part.to_pylist():
                of_key[row["key"]].append(row)
        answers = []
        for key, lines in of_key.items():
            self.key = key
            for row in self.processor.handleInputRows((key,), iter(lines), None):
                answers += unpacked(**row.asDict())
        return answers


def line_of(row):
    """The line that Spark's expressions make of a row: with the fields of its type, without nulls."""
    fields = {
        "query": ("type", "id", "key", "hint", "time"),
        "outcome": ("type", "id", "value", "time"),
        "withdraw": ("type", "id", "time"),
    }
    names = fields.get(row.get("type"), ("type", "id"))
    line = {name: row.get(f"{name}s", row.get(name)) for name in names}
    return json.dumps(
        {name: value for name, value in line.items() if value is not None}, separators=(",", ":")
    )


def unpacked(key, ids, positions, probabilities, certificates, others):
    """Rows of the stream's answers, one an event."""
    if others is None:
        for id, position, probability, certificate in zip(
            ids, positions, probabilities, certificates, strict=True
        ):
            kind = "settled" if probability is None else "forecast"
            yield key, kind, id, position, probability, None, certificate, None, None
    else:
        names = ("type", "id", "position", "probability", "probabilities", "certificate", "reason", "detail")
        for one in json.loads(others):
            yield key, *map(one.get, names)


def in_micro_batches(events, count, seed=0):
    """Rows of events, shuffled within each of the micro-batches."""
    rows, size = [as_row(event, at) for at, event in enumerate(events)], -(-len(events) // count)
    for start in range(0, len(rows), size):
        yield random.Random(seed).sample(rows[start : start + size], len(rows[start : start + size]))


def in_order(answers):
    return [told(row) for row in sorted(answers, key=lambda row: row[3])]


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_forecasts_are_those_of_the_engine_on_one_machine(share):
    """Also where outcomes come before their queries, and are parked in the states of their keys."""
    (events, parked), _ = script_with_parked(0, 600, keys=30, share=share)
    workers, events = Workers(CONFIG), events_of(events)
    assert (len(parked) > 100) == (share > 0)
    answers = [row for rows in in_micro_batches(events, 2) for row in workers.play(rows)]
    with Engine(config=CONFIG) as engine:
        assert in_order(answers) == [said(answer) for answer in engine.handle(events)]


def test_rows_that_make_no_sense_are_refused_and_stop_nothing():
    good = {"type": "query", "id": "q", "key": "plain/0", "position": 9}
    rows = {row[2] or "no fields": row for row in Workers(CONFIG).play([*STRAYS, good])}
    assert len(rows) == len(STRAYS) + 1
    assert rows.pop("q")[:4] == ("plain/0", "forecast", "q", 9)
    assert {(*row[:4], row[7], re.split("[,:]", row[8])[0]) for row in rows.values()} == {
        (None, "rejected", "no key", 3, "invalid", "key must not be null"),
        (None, "rejected", None, None, "invalid", "key must not be null"),
        ("plain/0", "rejected", "no position", None, "invalid", "position must not be null"),
        ("lanes/1", "rejected", "no type", -5, "malformed", "type must be query"),
        ("lanes/1", "rejected", "no value", -4, "malformed", "value is missing"),
    }


def test_a_micro_batch_that_is_played_again_after_a_loss_is_answered_the_same():
    first, second = in_micro_batches(events_of(script(1, 200, keys=10)), 2)
    workers = Workers(CONFIG)
    workers.play(first)
    kept = dict(workers.states)
    lost = workers.play(second)
    again = Workers(CONFIG)
    again.states = kept
    assert again.play(second[::-1]) == lost


def test_keys_that_begin_with_the_states_of_a_ledger_go_on_as_the_engine_does(tmp_path):
    from onlinecal.engine.spark.stream import states_in

    # of what was closed before the move Spark knows nothing: nothing expires in these keys
    lasting = ("plain", "lanes", "grid", "weather")
    path, events = tmp_path / "ledger.db", events_of(script(3, 600, keys=20, kinds=lasting, latest=200))
    begun, rest = events[:600], events[600:]
    with Engine(path, CONFIG) as engine:
        closed = {answer.id for answer in engine.handle(begun) if said(answer)[1] in ("settled", "withdrawn")}
    there = {event.id for event in begun}
    rest = [event for event in rest if event.id not in closed]
    assert sum(event.id in there for event in rest) > 20
    workers = Workers(CONFIG)
    for key, state in states_in(path):
        workers.begin(key, state)
    answers = [row for rows in in_micro_batches(rest, 1) for row in workers.play(rows)]
    with Engine(path) as engine:
        assert in_order(answers) == [said(answer) for answer in engine.handle(rest)]


def test_a_ledger_whose_states_are_behind_or_whose_keys_have_no_names_is_refused(tmp_path):
    from onlinecal.engine.spark.stream import states_in

    path = tmp_path / "ledger.db"
    with pytest.raises(LedgerError, match="there is no such ledger"):
        list(states_in(path))
    engine = Engine(path, CONFIG)
    engine.handle(events_of(script(0, 100)))
    with pytest.raises(ValueError, match=r"ledger\.db: the ledger lacks the newest states of its keys"):
        list(states_in(path))
    engine.close()
    assert {key for key, _ in states_in(path)} == {line.name for line in read_report(path).keys}
    changed(path, "UPDATE keys SET name = 'k' || char(0) WHERE number = 2", with_sums=True)
    with pytest.raises(LedgerError, match=r"'k\\x00' cannot be the name of a key\. .*repair"):
        list(states_in(path))


def test_a_state_of_another_configuration_is_refused():
    workers, row = Workers(EngineConfig()), {"type": "query", "id": "a", "key": "k", "position": 1}
    workers.play([row])
    other = Workers(EngineConfig(KeyConfig(slack=2.0)))
    other.states = workers.states
    with pytest.raises(ValueError, match="state of key 'k' was kept with another configuration"):
        other.play([{**row, "id": "b", "position": 2}])


RIGHT = dict.fromkeys(NEEDED_COLUMNS, types.StringType()) | {"position": types.IntegerType()}


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("id", types.DoubleType(), "column 'id' .* got double"),
        ("time", types.DateType(), "column 'time' .* got date"),
        ("position", types.DoubleType(), "column 'position' .* got double"),
        ("value", types.DateType(), "column 'value' .* got date"),
        (
            "hints",
            types.MapType(types.IntegerType(), types.DoubleType()),
            "events: column 'hints' must hold maps of strings to numbers, got map<int,double>: cast",
        ),
        ("position", None, "missing: position"),
    ],
)
def test_tables_with_wrong_columns_are_refused(name, kind, message):
    def table(columns):
        schema = types.StructType([types.StructField(name, kind) for name, kind in columns.items() if kind])
        return SimpleNamespace(columns=schema.names, schema=schema)

    check_events(table(RIGHT))
    with pytest.raises(ValueError, match=message):
        check_events(table({**RIGHT, name: kind}))


def test_what_is_no_table_of_spark_is_refused():
    with pytest.raises(ValueError, match=r"table must be a Spark data frame, got a builtins\.list: make one"):
        check_table([])


def test_the_counts_of_a_group_are_measured_as_its_rows_are():
    rng = np.random.default_rng(5)
    p = rng.integers(0, 21, 300) / 20
    y = (rng.random(300) < p**2).astype(int)
    values, rounds = np.unique(p, return_counts=True)
    ones = np.array([y[p == value].sum() for value in values])
    found = measures_of_counts(check_counts(values, rounds - ones, ones), 0.2, 0.0)
    local = calibration_distance(p, y, budget=0.2)
    assert found == {
        "rounds": 300,
        "ones": y.sum(),
        "distinct": len(values),
        "ece": expected_calibration_error(p, y, normalize=False),
        "smooth": smooth_calibration_error(p, y, normalize=False),
        "brier": pytest.approx(float(np.sum((p - y) ** 2)), rel=1e-13),
        "distance_lower": local.lower,
        "distance_upper": local.upper,
        "exact": local.exact is not None,
    }
    assert found.keys() == MEASURES.keys()


def as_packed(rows):
    names = ("key", "position", "line")
    columns = map(pa.array, zip(*rows, strict=True), (pa.string(), pa.int64(), pa.string()))
    batches = packed([pa.record_batch(list(columns), names=names)])
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(5))
def test_rows_come_in_order_however_they_were_packed_and_only_outcomes_become_numbers(seed):
    """Of rows with one position, outcomes come first and then the smaller id."""
    text, value = r"\"value\":\"1\"", '"value":" TRUE\\t"'
    lines = [f'{{"type":"query","id":"{id}","key":"k"}}' for id in ("a", "b", text)]
    rows = [("k", None, lines[2]), ("k", -2, lines[1]), ("k", 7, f'{{"type":"outcome","id":"z",{value}}}')]
    rows += [("k", 7, line) for line in sorted(lines)]
    shuffled = random.Random(seed).sample(rows, len(rows))
    parts = [shuffled[:seed], shuffled[seed:]] if seed else [shuffled]
    read = KeyRows([row for part in parts for row in as_packed(part)])
    assert list(zip(read.positions, read.lines, strict=True)) == [row[1:] for row in rows]
    columns = read.columns(is_binary=True)
    assert columns.refusals[0].detail == "position must not be null"
    assert columns.ids[1:] == ["b", "z", '"value":"1"', "a", "b"]
    assert (columns.value(2), read.columns(is_binary=False).value(2)) == (1, " TRUE\t")


def test_rows_are_packed_together_up_to_so_many_bytes(monkeypatch):
    names = ("key", "position", "line")
    batches = [
        pa.record_batch([pa.array(["k"]), pa.array([i]), pa.array([f"line {i}"])], names=names)
        for i in range(5)
    ]
    assert list(packs(iter(batches))) == packed(batches)
    # the second of two is more
    monkeypatch.setattr(spark_rows, "PACK", batches[0].nbytes)
    assert list(packs(iter(batches))) == [*packed(batches[:2]), *packed(batches[2:4]), *packed(batches[4:])]


def test_missing_java_or_pyspark_is_said_before_spark_starts(monkeypatch, tmp_path):
    from onlinecal.engine.spark import session

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="Spark needs Java 17 or newer, but JAVA_HOME is"):
        session.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="there is no java on the PATH"):
        session.check_java()
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pyspark is missing: .*, pip install '.\[spark\]'"):
        session.local_session()


def test_frames_become_series_of_numbers_or_of_lists():
    frame = pytest.importorskip("pandas").DataFrame({"a": [1.0, 2.0]})
    numbers = _on_frames(lambda frame: frame["a"].to_numpy() / 4)
    assert numbers(frame).tolist() == [0.25, 0.5]
    rows = _on_frames(lambda frame: np.stack([frame["a"], 1 - frame["a"]], axis=1))
    assert list(map(list, rows(frame))) == [[1.0, 0.0], [2.0, -1.0]]
