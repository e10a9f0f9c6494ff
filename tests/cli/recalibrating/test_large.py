"""Files of many rows, handled in chunks: the same answers, and nothing half-written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import polars.testing
import pytest

from onlinecal import tables
from onlinecal.cli.recalibrating import choose, reading
from onlinecal.cli.recalibrating.alone import recalibrate
from onlinecal.cli.recalibrating.asked import Asked
from onlinecal.cli.recalibrating.reading import read_known, read_table


def in_small_pieces(monkeypatch):
    """Have files read, CSV from disk, and written in many chunks, and only some of their rows scored."""
    for name, size in {"LARGE": 1500, "SCORED": 800, "CHUNK": 128}.items():
        monkeypatch.setattr(reading, name, size)
    monkeypatch.setattr(tables, "IN_MEMORY", 0)


def test_chunks_say_what_whole_tables_say(tmp_path, monkeypatch):
    """A CSV to fit, and a Parquet file of float32 to recalibrate."""
    rng, old, new = np.random.default_rng(4), tmp_path / "old.csv", tmp_path / "new.parquet"
    for path in (old, new):
        P = rng.dirichlet([0.4, 0.6, 0.8], 900).astype(np.float32)
        labels = [rng.choice(["ant", "bee", "cat"], p=np.sqrt(row) / np.sqrt(row).sum()) for row in P]
        frame = pl.DataFrame({f" p_{one}": P[:, j] for j, one in enumerate(("ant", "bee", "cat"))})
        frame = frame.with_columns(pl.Series("kind", labels))
        frame.write_csv(path) if path == old else frame.write_parquet(path)
    asked = Asked(old, apply=new, label="kind")
    whole = recalibrate(asked, "lp")
    in_small_pieces(monkeypatch)
    chunks = recalibrate(asked, "lp")
    assert read_table(new, label="kind").probabilities.dtype == np.float32
    both = [pl.concat(one.probabilities) for one in (chunks, whole)]
    assert both[0].height == 900
    pl.testing.assert_frame_equal(*both, rel_tol=0, abs_tol=1e-12)
    assert chunks.record["facts"] == whole.record["facts"]
    found, known = (report.record["measures"][-1]["values"] for report in (chunks, whole))
    assert found["lp"] != known["lp"] == pytest.approx(found["lp"], abs=0.05)


def loans(n, seed):
    """Risks that are wrong in some groups, what came, columns of groups and features, one more."""
    rng = np.random.default_rng(seed)
    risk, age = rng.beta(1, 3, n), rng.integers(20, 70, n)
    region = rng.choice(["north", "south", "west"], n)
    truth = np.clip(risk + 0.15 * (region == "north") - 0.1 * (age > 55), 0.0, 1.0)
    columns = {"risk": risk, "age": age, "region": region, "note": ["-"] * n}
    return pl.DataFrame(columns).with_columns(pl.Series("defaulted", (rng.random(n) < truth).astype(int)))


ASKED = Asked(Path("old.csv"), forecast="risk", outcome="defaulted")


@pytest.mark.parametrize(
    ("method", "asked", "outcomes"),
    [
        ("groups", {"group": ["region", "age"]}, True),
        ("boost", {"features": ["age"]}, False),
        ("boost", {"forecast": None}, True),
    ],
)
def test_chunks_of_events_say_what_whole_columns_say(tmp_path, monkeypatch, method, asked, outcomes):
    old, new = tmp_path / "old.csv", tmp_path / "new.parquet"
    loans(1200, 1).write_csv(old)
    (loans(900, 2) if outcomes else loans(900, 2).drop("defaulted")).write_parquet(new)
    asked = replace(ASKED, file=old, apply=new, **asked)
    whole = recalibrate(asked, method)
    in_small_pieces(monkeypatch)
    chunks = recalibrate(asked, method)
    assert max(part.height for part in chunks.probabilities) == 128
    pl.testing.assert_frame_equal(pl.concat(chunks.probabilities), pl.concat(whole.probabilities))
    assert chunks.record["facts"] == whole.record["facts"]
    assert chunks.record["rows"] == whole.record["rows"] == {"fit": 1200, "apply": 900}
    assert any("random rows" in one for one in chunks.record["warnings"])
    sampled, known = (report.record["measures"][-1]["values"] for report in (chunks, whole))
    assert sampled == {name: pytest.approx(known[name], abs=0.05) for name in sampled}
    with pytest.raises(ValueError, match="no column 'income'"):
        recalibrate(replace(asked, forecast="income"), method)


def test_what_fails_midway_leaves_the_old_file(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 10)
    path = tmp_path / "rows.parquet"

    def make(rows):
        if rows.start >= 20:
            raise RuntimeError("no more")
        return pl.DataFrame({"row": range(rows.start, rows.stop)})

    reading.Chunks(20, make).write(path)
    with pytest.raises(Exception, match="no more"):
        reading.Chunks(100, make).write(path)
    assert pl.read_parquet(path)["row"].to_list() == list(range(20))
    assert [one.name for one in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_comparison_reads_the_groups_and_features_of_large_files(tmp_path, monkeypatch):
    file = tmp_path / "loans.parquet"
    loans(600, 3).write_parquet(file)
    in_small_pieces(monkeypatch)
    asked = replace(ASKED, file=file, group=["region"], features=["age"])
    frame = read_known(asked, False, ["region", "age"])[0].frame
    assert frame.columns == ["risk", "defaulted", "region", "age"]
    assert {"groups", "boost"} <= set(choose.recalibrate(asked).record["methods"])
