"""The engine inside Spark's Structured Streaming: the same answers, exactly once, come what may."""

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from decimal import Decimal

import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Query
from onlinecal.engine.turns import KeyTurns
from tests import ROOT
from tests.engine.key_events import CONFIG, everything
from tests.engine.spark import stream_run
from tests.engine.spark.stream_run import read, run, said, told, write_events

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STRAYS = (
    {"type": "query", "id": "no key", "position": 3},
    {"type": "query", "id": "no position", "key": "k0"},
    {"type": "dance", "id": "no type", "key": "k1", "position": -5},
    {"type": "outcome", "id": "no value", "key": "k1", "position": -4},
    {},
)
"""Rows that make no sense, in every file."""


def names(count):
    kinds = ("k{}", "k{}", "plain/{}", "u/{}", "w/{}", "w/lp{}")
    return [kinds[i % 5].format(i) for i in range(count)]


def played(root, events, files, spark):
    """A folder with a stream that ran without interruption: its answers, and the engine's."""
    write_events(events, root / "in", files, strays=STRAYS)
    query = run(spark, root)
    assert len(query.recentProgress) >= files
    with Engine(config=CONFIG) as engine:
        return read(spark, root), [said(answer) for answer in engine.handle(events)]


@pytest.fixture(scope="module")
def stream(spark, tmp_path_factory):
    """Root folder, answers, the engine's answers."""
    root = tmp_path_factory.mktemp("stream")
    return root, *played(root, everything(10_000, names(100)), 4, spark)


def split(answers):
    """The answers to events, in order, and those to strays."""
    is_stray = {stray.get("id") for stray in STRAYS}
    return [row for row in answers if row[2] not in is_stray], [row for row in answers if row[2] in is_stray]


def test_forecasts_are_those_of_the_engine_on_one_machine(stream):
    _, answers, wanted = stream
    assert [told(row) for row in split(answers)[0]] == wanted


def test_rows_that_make_no_sense_are_refused_and_stop_nothing(stream):
    _, answers, _ = stream
    strays = split(answers)[1]
    assert len(strays) == 4 * len(STRAYS)
    assert {(row[0], row[1], row[2], row[3], row[7], row[8]) for row in strays} == {
        (None, "rejected", "no key", 3, "invalid", "key must not be null"),
        (None, "rejected", None, None, "invalid", "key must not be null"),
        ("k0", "rejected", "no position", None, "invalid", "position must not be null"),
        ("k1", "rejected", "no type", -5, "malformed", "Invalid value 'dance' - at `$.type`"),
        ("k1", "rejected", "no value", -4, "malformed", "Object missing required field `value`"),
    }


def killed_in_a_batch(root, seconds):
    """Run the stream as a program and kill it, with its JVM, so long after a batch has begun."""
    before = {path.name for path in (root / "checkpoint" / "commits").glob("[0-9]*")}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", stream_run.__name__, str(root)],
        cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def running():
        began, over = (
            {path.name for path in (root / "checkpoint" / kind).glob("[0-9]*")}
            for kind in ("offsets", "commits")
        )
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


def test_a_stream_killed_in_a_batch_goes_on_as_if_nothing_had_been(spark, stream, tmp_path):
    whole, answers, _ = stream
    shutil.copytree(whole / "in", tmp_path / "in")
    assert killed_in_a_batch(tmp_path, 0.3)
    run(spark, tmp_path)
    assert read(spark, tmp_path) == answers


@pytest.mark.slow
def test_a_stream_killed_five_times(spark, tmp_path):
    rng, events = random.Random(2), everything(30_000, names(300), seed=2)
    answers, wanted = played(tmp_path / "whole", events, 12, spark)
    assert [told(row) for row in split(answers)[0]] == wanted
    root = tmp_path / "killed"
    shutil.copytree(tmp_path / "whole" / "in", root / "in")
    in_batch = [bool(killed_in_a_batch(root, rng.random())) for _ in range(5)]
    print("killed within a batch:", in_batch)
    assert any(in_batch)
    run(spark, root)
    assert read(spark, root) == answers


def test_what_ran_to_its_end_does_nothing_when_it_is_started_again(spark, stream):
    root, answers, _ = stream
    assert sum(progress.numInputRows for progress in run(spark, root).recentProgress) == 0
    assert read(spark, root) == answers


def test_a_checkpoint_of_another_configuration_is_refused(spark, tmp_path):
    from pyspark.errors import StreamingQueryException

    from onlinecal.engine.spark import EVENTS, calibrated_stream

    def play(number, config):
        file = tmp_path / "in" / f"{number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'{{"type": "query", "id": "q{number}", "key": "k", "position": {number}}}')
        rows = spark.readStream.schema(EVENTS).json(str(tmp_path / "in"))
        answers = calibrated_stream(rows, config, check=False).writeStream.format("noop")
        query = answers.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    play(1, None)
    with pytest.raises(StreamingQueryException, match="state of key 'k' was kept with another configuration"):
        play(2, EngineConfig(KeyConfig(slack=2.0)))


@pytest.mark.parametrize(
    "schema, told",
    [
        ("type string, key string, value string", "missing: id, position"),
        ("type string, id long, key string, position long, value string", "column 'id' .* got bigint"),
        ("type string, id string, key string, position double, value int", "column 'position' .* got double"),
        ("type string, id string, key string, position long, value date", "column 'value' .* got date"),
        (
            "type string, id string, key string, position int, value int, hint string",
            "column 'hint' .* string",
        ),
        (
            "type string, id string, key string, position int, value int, hints map<int, double>",
            "column 'hints' .* map<int,double>",
        ),
    ],
)
def test_tables_with_wrong_columns_are_refused(spark, schema, told):
    from onlinecal.engine.spark import calibrated_stream

    with pytest.raises(ValueError, match=told):
        calibrated_stream(spark.createDataFrame([], schema), check=False)


def test_what_cannot_work_is_refused_before_the_stream_starts(spark, tmp_path, monkeypatch):
    from onlinecal.engine.spark import EVENTS, calibrated_stream

    rows = spark.readStream.schema(EVENTS).json(str(tmp_path))
    with pytest.raises(ValueError, match="remember must be a whole number of at least 1, got 0"):
        calibrated_stream(rows, remember=0)
    with pytest.raises(ValueError, match="slack"):
        calibrated_stream(rows, EngineConfig(KeyConfig(slack=0.1)))
    kept = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, "some.other.Provider")
    try:
        with pytest.raises(ValueError, match=r"RocksDB provider, got 'some\.other\.Provider'"):
            calibrated_stream(rows)
    finally:
        spark.conf.set(PROVIDER, kept)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "python"))
    with pytest.raises(ValueError, match=r"Cannot run program .*Set the environment variable PYSPARK_PYTHON"):
        calibrated_stream(rows)


def test_outcomes_may_be_texts_numbers_or_booleans(spark):
    from onlinecal.engine.spark.rows import KeyRows, line_columns, packed

    kinds = {
        "string": [" TRUE", "0.0", "2", "NaN", None],
        "double": [1.0, 0.0, 2.0, float("nan"), None],
        "decimal(3,1)": [Decimal("1.0"), Decimal(0), Decimal(2), None, None],
        "boolean": [True, False, None, None, None],
    }
    columns = ", ".join(f"`{kind}` {kind}" for kind in kinds)
    table = spark.createDataFrame([(i, *row) for i, row in enumerate(zip(*kinds.values(), strict=True))],
                                  f"position int, {columns}")  # fmt: skip
    found = {}
    for kind, values in kinds.items():
        rows = table.selectExpr(
            "'outcome' AS type", "'q' AS id", "'k' AS key", "position", f"`{kind}` AS value"
        )
        read = rows.select(*line_columns(rows)).orderBy("position").toArrow()
        alone = [packed(read.slice(i, 1).to_batches())[0].to_pylist() for i in range(len(read))]
        step, (begun, _) = (
            KeyTurns(EngineConfig(), 2),
            KeyTurns(EngineConfig(), 2)("k", None, [Query("q", "k")]),
        )
        turns = [step.turn("k", begun, KeyRows(one).columns(is_binary=True))[1] for one in alone]
        answers = [answer for turn in turns for answer in turn.answers()]
        found[kind] = [getattr(answer, "reason", "settled") for answer in answers]
        assert len(found[kind]) == len(values)
    missing = "malformed"
    assert found == {
        "string": ["settled", "settled", "invalid", "invalid", missing],
        "double": ["settled", "settled", "invalid", "invalid", missing],
        "decimal(3,1)": ["settled", "settled", "invalid", missing, missing],
        "boolean": ["settled", "settled", missing, missing, missing],
    }


def test_bytes_that_are_no_text_stop_nothing(spark):
    from onlinecal.engine.spark import calibrated_stream

    table = spark.createDataFrame([(b"\xff\xfe", b"a\xff", 1)], "key binary, id binary, position int")
    broken = table.selectExpr(
        "'query' AS type",
        "CAST(id AS string) AS id",
        "CAST(key AS string) AS key",
        "position",
        "NULL AS value",
    )
    [answer] = calibrated_stream(broken, check=False).collect()
    assert (answer.type, answer.id) == ("forecast", "a\ufffd")


def test_without_protobuf_it_is_said_what_to_install(spark, monkeypatch):
    from onlinecal.engine.spark import EVENTS, calibrated_stream

    assert importlib.util.find_spec("google.protobuf")
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(
        ValueError, match=r"protobuf is missing: in a checkout of onlinecal, pip install '.\[spark\]'"
    ):
        calibrated_stream(spark.createDataFrame([], EVENTS), check=False)
