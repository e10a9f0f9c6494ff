"""Files of many rows, handled in chunks: the same answers, and nothing half-written."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from onlinecal.cli.recalibrating import large
from onlinecal.cli.recalibrating.tables import read_table
from tests.cli.recalibrating.runs import record, value


@pytest.fixture
def files(tmp_path):
    """A CSV to fit, and a Parquet file of float32 to recalibrate, of 900 rows each."""
    rng = np.random.default_rng(4)
    for name in ("old.csv", "new.parquet"):
        P = rng.dirichlet([0.4, 0.6, 0.8], 900).astype(np.float32)
        labels = [rng.choice(["ant", "bee", "cat"], p=np.sqrt(row) / np.sqrt(row).sum()) for row in P]
        frame = pl.DataFrame({f" p_{one}": P[:, j] for j, one in enumerate(("ant", "bee", "cat"))})
        frame = frame.with_columns(pl.Series("kind", labels))
        frame.write_csv(tmp_path / name) if name == "old.csv" else frame.write_parquet(tmp_path / name)
    return tmp_path


def test_chunks_say_what_whole_tables_say(files, monkeypatch):
    asked = (
        files / "old.csv",
        "--method",
        "lp",
        "--label",
        "kind",
        "--apply",
        files / "new.parquet",
        "--out",
    )
    whole = record(*asked, files / "whole")
    for name, size in (("LARGE", 1500), ("CHUNK", 128), ("SCORED", 800)):
        monkeypatch.setattr(large, name, size)
    chunks = record(*asked, files / "chunks")
    assert read_table(files / "new.parquet", label="kind").probabilities.dtype == np.float32
    written = [pl.read_parquet(files / name / "recalibrated.parquet") for name in ("whole", "chunks")]
    assert written[1].height == 900
    for name in written[0].columns:
        if name.startswith("p_") or name in ("row", "label"):
            assert written[0][name].to_list() == written[1][name].to_list()
        else:
            np.testing.assert_allclose(written[0][name], written[1][name], atol=1e-12)
    assert chunks["facts"] == whole["facts"]
    before, after = (value(one, "log loss", "apply", "lp") for one in (whole, chunks))
    assert before != after == pytest.approx(before, abs=0.05)
    assert {path.name for path in (files / "chunks").iterdir()} >= {"recalibrated.parquet", "report.json"}
    assert not list((files / "chunks").glob(".*"))


def test_what_fails_midway_leaves_the_old_file(tmp_path, monkeypatch):
    monkeypatch.setattr(large, "CHUNK", 10)
    path = tmp_path / "rows.parquet"

    def make(rows: slice) -> pl.DataFrame:
        if rows.start >= 20:
            raise RuntimeError("no more")
        return pl.DataFrame({"row": list(range(rows.start, rows.stop))})

    large.write_chunks(large.Chunks(20, make), path)
    assert pl.read_parquet(path)["row"].to_list() == list(range(20))
    with pytest.raises(Exception, match="no more"):
        large.write_chunks(large.Chunks(100, make), path)
    assert pl.read_parquet(path).height == 20
    assert [one.name for one in tmp_path.iterdir()] == ["rows.parquet"]
