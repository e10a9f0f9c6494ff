"""The engine inside Spark's Structured Streaming: the same answers, exactly once, come what may.

These take a minute; `test_without_spark.py` has their small forms.
"""

import importlib.util
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Query
from onlinecal.engine import spark as on_spark
from onlinecal.engine.spark.rows import KeyRows, line_columns, packed
from onlinecal.engine.turns import KeyTurns
from tests import ROOT
from tests.engine.scripts import CONFIG, events_of, script
from tests.engine.spark import stream_run
from tests.engine.spark.stream_run import STRAYS, read, run, said, told, write_events

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def played(root, events, files, spark):
    """An undisturbed stream: its answers to events, those to strays, the engine's to events."""
    write_events(events, root / "in", files, STRAYS)
    query = run(spark, root)
    assert len(query.recentProgress) >= files
    rows, strays = read(spark, root), {stray.get("id") for stray in STRAYS}
    with Engine(config=CONFIG) as engine:
        wanted = [said(answer) for answer in engine.handle(events)]
    return [row for row in rows if row[2] not in strays], [row for row in rows if row[2] in strays], wanted


@pytest.fixture(scope="module")
def stream(spark, tmp_path_factory):
    """Root folder, answers to events and to strays, the engine's answers."""
    root = tmp_path_factory.mktemp("stream")
    return root, *played(root, events_of(script(0, 2_000, keys=60)), 2, spark)


def test_forecasts_are_those_of_the_engine_on_one_machine(stream):
    _, answers, _, wanted = stream
    assert [told(row) for row in answers] == wanted


def test_rows_that_make_no_sense_are_refused_and_stop_nothing(stream):
    _, _, strays, _ = stream
    assert len(strays) == 2 * len(STRAYS)
    assert {(*row[:4], row[7], re.split("[,:]", row[8])[0]) for row in strays} == {
        (None, "rejected", "no key", 3, "invalid", "key must not be null"),
        (None, "rejected", None, None, "invalid", "key must not be null"),
        ("plain/0", "rejected", "no position", None, "invalid", "position must not be null"),
        ("lanes/1", "rejected", "no type", -5, "malformed", "type must be query"),
        ("lanes/1", "rejected", "no value", -4, "malformed", "value is missing"),
    }


def killed_in_a_batch(root, seconds):
    """Run the stream as a program and kill it, with its JVM, so long after a batch has begun."""
    checkpoint = root / "checkpoint"
    before = {path.name for path in (checkpoint / "commits").glob("[0-9]*")}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", stream_run.__name__, str(root)],
        cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def running():
        kinds = ("offsets", "commits")
        began, over = ({path.name for path in (checkpoint / kind).glob("[0-9]*")} for kind in kinds)
        return (began - over) if over > before or not before else set()

    try:
        while not running():
            assert process.poll() is None, "the stream came to its end before it could be killed"
            time.sleep(0.01)
        time.sleep(seconds)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return running()


@pytest.mark.parametrize("kills", [1, 5])
def test_a_stream_killed_in_a_batch_goes_on_as_if_nothing_had_been(spark, stream, tmp_path, kills):
    whole, answers, strays, _ = stream
    shutil.copytree(whole / "in", tmp_path / "in")
    rng = random.Random(kills)
    assert any([killed_in_a_batch(tmp_path, 0.6 * rng.random()) for _ in range(kills)])
    run(spark, tmp_path)
    assert sorted(map(str, read(spark, tmp_path))) == sorted(map(str, answers + strays))


def test_a_stream_that_begins_with_the_states_of_a_ledger_goes_on_as_the_engine_does(spark, tmp_path):
    path, events = tmp_path / "ledger.db", events_of(script(3, 2_000, keys=40))
    begun, rest = events[:2_000], events[2_000:]
    with Engine(path, CONFIG) as engine:
        engine.handle(begun)
        # of what was closed before the move Spark knows nothing
        there, waiting = {event.id for event in begun}, set(engine._book.open)
    rest = [event for event in rest if event.id not in there or event.id in waiting]
    assert sum(event.id in waiting for event in rest) > 20
    write_events(rest, tmp_path / "in", 2)
    run(spark, tmp_path, initial=on_spark.ledger_states(spark, path))
    with Engine(path) as engine:
        wanted = [said(answer) for answer in engine.handle(rest)]
    assert [told(row) for row in read(spark, tmp_path)] == wanted


def test_a_checkpoint_of_another_configuration_is_refused(spark, tmp_path):
    from pyspark.errors import StreamingQueryException

    def play(number, config):
        file = tmp_path / "in" / f"{number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'{{"type": "query", "id": "q{number}", "key": "k", "position": {number}}}')
        rows = spark.readStream.schema(on_spark.EVENTS).json(str(tmp_path / "in"))
        answers = on_spark.calibrated_stream(rows, config, check=False).writeStream.format("noop")
        query = answers.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    play(1, None)
    with pytest.raises(StreamingQueryException, match="state of key 'k' was kept with another configuration"):
        play(2, EngineConfig(KeyConfig(slack=2.0)))


RIGHT = "type string, id string, key string, position int, value "


@pytest.mark.parametrize(
    "schema, told",
    [
        ("type string, key string, value string", "missing: id, position"),
        ("type string, id double, key string, position long, value string", "column 'id' .* got double"),
        ("type string, id string, key string, position double, value int", "column 'position' .* got double"),
        (RIGHT + "date", "column 'value' .* got date"),
        (RIGHT + "int, hints map<int, double>", "column 'hints' .* map<int,double>"),
    ],
)
def test_tables_with_wrong_columns_are_refused(spark, schema, told):
    with pytest.raises(ValueError, match=told):
        on_spark.calibrated_stream(spark.createDataFrame([], schema), check=False)


def test_what_cannot_work_is_refused_before_the_stream_starts(spark, tmp_path, monkeypatch):
    rows = spark.readStream.schema(on_spark.EVENTS).json(str(tmp_path))
    with pytest.raises(ValueError, match="remember must be a whole number of at least 1, got 0"):
        on_spark.calibrated_stream(rows, remember=0)
    for given in ({"events": None}, {"events": rows, "initial": 5}):
        with pytest.raises(ValueError, match="must be a Spark data frame, got a builtins"):
            on_spark.calibrated_stream(**given)
    with pytest.raises(ValueError, match="initial must have the columns key and state, but lacks state"):
        on_spark.calibrated_stream(rows, initial=rows)
    for ask in (on_spark.check_workers, lambda session: on_spark.ledger_states(session, tmp_path)):
        with pytest.raises(ValueError, match=r"spark must be a SparkSession, as local_session\(\), got None"):
            ask(None)
    with pytest.raises(ValueError, match="slack"):
        on_spark.calibrated_stream(rows, EngineConfig(KeyConfig(slack=0.1)))
    kept = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, "some.other.Provider")
    try:
        with pytest.raises(ValueError, match=r"RocksDB provider, got 'some\.other\.Provider'"):
            on_spark.calibrated_stream(rows)
    finally:
        spark.conf.set(PROVIDER, kept)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "python"))
    with pytest.raises(ValueError, match=r"Cannot run program .*Set the environment variable PYSPARK_PYTHON"):
        on_spark.calibrated_stream(rows)
    assert importlib.util.find_spec("google.protobuf")
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ValueError, match=r"protobuf is missing: .*, pip install '.\[spark\]'"):
        on_spark.calibrated_stream(spark.createDataFrame([], on_spark.EVENTS), check=False)


@pytest.mark.parametrize(
    ("kind", "values", "refused"),
    [
        ("string", [" TRUE", "0.0", "2", "NaN", None], ["invalid", "invalid", "malformed"]),
        ("double", [1.0, 0.0, 2.0, float("nan"), None], ["invalid", "invalid", "malformed"]),
        ("decimal(3,1)", [Decimal("1.0"), Decimal(0), Decimal(2), None], ["invalid", "malformed"]),
        ("boolean", [True, False, None], ["malformed"]),
    ],
)
def test_outcomes_may_be_texts_numbers_or_booleans(spark, kind, values, refused):
    table = spark.createDataFrame(list(enumerate(values)), f"position int, value {kind}")
    rows = table.selectExpr("'outcome' AS type", "'q' AS id", "'k' AS key", "position", "value")
    read = rows.select(*line_columns(rows)).orderBy("position").toArrow()
    step, found = KeyTurns(EngineConfig(), 2), []
    begun, _ = step("k", None, [Query("q", "k")])
    for i in range(len(read)):
        alone = packed(read.slice(i, 1).to_batches())[0].to_pylist()
        [answer] = step.turn("k", begun, KeyRows(alone).columns(is_binary=True))[1].answers()
        found.append(getattr(answer, "reason", "settled"))
    assert found == ["settled", "settled", *refused]


@pytest.mark.parametrize(
    ("kind", "time"),
    [
        ("double", 1769851800.5),
        ("string", "2026-01-31T09:30:00.5Z"),
        ("timestamp", datetime(2026, 1, 31, 9, 30, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_ids_may_be_whole_numbers_and_times_instants(spark, kind, time):
    table = spark.createDataFrame([(7, 3, 1, time)], f"id bigint, key int, position int, time {kind}")
    rows = table.selectExpr("'query' AS type", "id", "key", "position", "NULL AS value", "time")
    read = rows.select(*line_columns(rows)).toArrow()
    columns = KeyRows(packed(read.to_batches())[0].to_pylist()).columns(is_binary=True)
    assert (columns.ids, columns.keys, list(columns.times)) == (["7"], ["3"], [1769851800.5])


def test_bytes_that_are_no_text_stop_nothing(spark):
    table = spark.createDataFrame([(b"\xff\xfe", b"a\xff", 1)], "key binary, id binary, position int")
    texts = (f"CAST({name} AS string) AS {name}" for name in ("id", "key"))
    broken = table.selectExpr("'query' AS type", *texts, "position", "NULL AS value")
    [answer] = on_spark.calibrated_stream(broken, check=False).collect()
    assert (answer.type, answer.id) == ("forecast", "a\ufffd")
