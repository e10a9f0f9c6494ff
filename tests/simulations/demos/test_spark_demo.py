"""The Spark demo: its streams, and the whole of it with a few keys."""

import shutil
import subprocess
import sys

import polars as pl
import pytest

from onlinecal.simulations.demos.spark_demo import differences, main, make_events, write_events


def test_every_outcome_comes_once_and_after_its_query():
    events = make_events(300, 40)
    assert events["position"].to_list() == list(range(events.height))
    queries, outcomes = (events.filter(pl.col("type") == kind) for kind in ("query", "outcome"))
    joined = outcomes.join(queries, on=["id", "key"], suffix="_query")
    assert joined.height == outcomes.height == outcomes["id"].n_unique() == queries.height == 300 * 40
    assert (joined["position"] > joined["position_query"]).all()


def test_files_hold_all_events_in_the_order_of_their_times(tmp_path, capsys):
    write_events(make_events(5, 20), tmp_path / "events")
    files = sorted((tmp_path / "events").iterdir())
    assert len({file.stat().st_mtime for file in files}) == len(files) == 4
    assert sorted(files, key=lambda file: file.stat().st_mtime) == files
    assert pl.read_parquet(files).sort("position").equals(make_events(5, 20))
    assert main(["--out", str(tmp_path)]) == 2
    assert "holds a demo" in capsys.readouterr().err
    assert main(["--out", str(tmp_path), "--keys", "0"]) == 2
    assert capsys.readouterr().err == "spark_demo: keys must be a whole number of at least 1, got 0\n"


def test_a_different_bit_is_found():
    schema = ["id", "key", "position", "probability", "certificate"]
    rows = [("a", "k", 0, 0.5, 0.0), ("b", "k", 1, 0.25, 0.5)]
    wanted = pl.DataFrame(rows, schema=schema, orient="row")
    assert differences(wanted[::-1], wanted) == 0
    off = wanted.with_columns(probability=pl.Series([0.5, 0.25000000000000006]))
    assert differences(off, wanted) == 1
    assert differences(wanted[:1], wanted) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="the Spark demo needs Java")
def test_the_demo_agrees_with_one_machine(tmp_path):
    pytest.importorskip("pyspark", reason="the Spark demo needs onlinecal[spark]")
    options = ["--out", tmp_path / "demo", "--keys", "30", "--rounds", "40"]
    command = [sys.executable, "-m", "onlinecal.simulations.demos.spark_demo", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "all 1,200 forecasts equal, bit for bit" in run.stdout
