"""The Spark demo: its streams, its picture, and the whole of it with a few keys."""

import json
import shutil
import subprocess
import sys

import polars as pl
import pytest

from simulations.demos.spark_demo import Streams, compared, main, make_events, write_streams


def test_every_outcome_comes_after_its_query_and_each_key_has_one_open_query():
    events = make_events(Streams(keys=300, rounds=40))
    assert events["position"].to_list() == list(range(events.height))
    queries, outcomes = (events.filter(pl.col("type") == kind) for kind in ("query", "outcome"))
    first = queries.group_by("id").agg(pl.col("position").min(), pl.col("key", "hint", "time").n_unique())
    assert first.select("key", "hint", "time").unique().rows() == [(1, 1, 1)]
    assert queries.height > first.height
    joined = outcomes.join(first, on="id", suffix="_query")
    assert joined.height == outcomes.height == outcomes["id"].n_unique()
    assert (joined["position"] > joined["position_query"]).all()
    still_open = first.join(outcomes, on="id", how="anti")
    ends = events.group_by("key").agg(pl.col("id").sort_by("position").last())
    assert sorted(still_open["id"]) == sorted(ends["id"])
    assert sorted(still_open["id"]) == sorted(f"{key}/last" for key in events["key"].unique())


def test_files_are_written_once_and_hold_all_events(tmp_path, capsys):
    def written():
        write_streams(Streams(5, 20, 3), tmp_path)
        return {file: file.stat().st_mtime_ns for file in sorted((tmp_path / "events").iterdir())}

    files = written()
    assert written() == files
    assert [*files.values()] == sorted({*files.values()})
    assert len(files) == 3
    assert pl.read_parquet([*files]).sort("position").equals(make_events(Streams(5, 20, 3)))
    with pytest.raises(ValueError, match="holds other streams"):
        write_streams(Streams(6, 20, 3), tmp_path)
    assert main(["--out", str(tmp_path), "--keys", "0"]) == 2
    assert capsys.readouterr().err == "spark_demo: keys must be a whole number of at least 1, got 0\n"


def test_a_different_bit_is_found():
    schema = ["id", "key", "position", "probability", "certificate"]
    rows = [("a", "k", 0, 0.5, 0.0), ("b", "k", 1, 0.25, 0.5)]
    wanted = pl.DataFrame(rows, schema=schema, orient="row")
    assert compared(wanted[::-1], wanted) == (2, 0)
    off = wanted.with_columns(probability=pl.Series([0.5, 0.25000000000000006]))
    assert compared(off, wanted) == (2, 1)
    assert compared(wanted[:1], wanted) == (2, 1)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="the Spark demo needs Java")
def test_the_demo_plays_once_and_agrees_with_one_machine(tmp_path):
    pytest.importorskip("pyspark", reason="the Spark demo needs onlinecal[spark]")
    out = tmp_path / "demo"
    options = ["--out", out, "--keys", "30", "--rounds", "40", "--master", "local[2]"]
    for told in ("micro-batches", "none: all had been played before"):
        command = [sys.executable, "-m", "simulations.demos.spark_demo", *options]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert told in run.stdout
        assert "forecasts equal, bit for bit" in run.stdout
    assert json.loads((out / "streams.json").read_text())["keys"] == 30
    table = pl.read_csv(out / "keys.csv")
    assert table.height == 30
    assert (table["forecasts_lower"] <= table["certificate"]).all()
    assert (out / "keys.png").exists()
