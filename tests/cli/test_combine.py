"""The verb `combine`: the library's column, weights and scores, as JSON and files; nothing of bad input."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from onlinecal import combine_forecasts
from tests.commands import record, run

ROWS = 300
DAY = np.arange(ROWS) // 10


@pytest.fixture(scope="module")
def history():
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(2, ROWS))
    won = (rng.random(ROWS) < 1 / (1 + np.exp(-one - other))).astype(int)
    silent = np.arange(ROWS) % 5 == 2
    return {"one": 1 / (1 + np.exp(-one)), "other": np.where(silent, np.nan, 1 / (1 + np.exp(-other)))}, won


@pytest.fixture(scope="module")
def common(history, tmp_path_factory):
    models, won = history
    path = tmp_path_factory.mktemp("combined") / "games.csv"
    pl.DataFrame({**models, "won": won, "day": DAY}).with_columns(pl.col("other").fill_nan(None)).write_csv(
        path
    )
    return [path, "--outcome", "won", "--forecast", "one", "--forecast", "other"]


@pytest.mark.parametrize(
    "options", [[], ["--together", "day"], ["--settled-at", "day", "--sort", "day"]], ids=" ".join
)
def test_it_is_the_librarys_answer(common, history, tmp_path, options):
    result = combine_forecasts(*history, DAY * 10 + 9 if options else None)
    found = record("combine", *common, *options, "--out", tmp_path)
    assert found["certificate"] == result.certificate[-1]
    assert found["brier_out"] == pytest.approx(result.report().brier_out)
    assert found["models"]["other"]["n_rounds"] == ROWS - ROWS // 5
    assert found["models"]["one"]["brier_out"] == pytest.approx(result.report().models["one"].brier_out)
    written = pl.read_parquet(tmp_path / "combined.parquet")
    assert np.array_equal(written["combined"].to_numpy(), result.probabilities)
    assert np.array_equal(written["weight_one"].to_numpy(), result.weights[:, 0])
    assert {path.name for path in tmp_path.iterdir()} == {
        "combined.parquet", "report.csv", "weights.png", "weights.svg", "weights.csv",
    }  # fmt: skip


def test_people_see_each_model(common):
    shown = run("combine", *common).stdout
    for text in ("one", "other", "all together", "240", "proven distance to calibration of 300 rows"):
        assert text in shown
