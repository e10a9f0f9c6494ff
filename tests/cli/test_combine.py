"""The verb `combine`: the library's column, weights and scores, as JSON and files; nothing of bad input."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from onlinecal import combine_forecasts
from tests.commands import record, refused, run

ROWS = 300


@pytest.fixture(scope="module")
def history():
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(2, ROWS))
    said = 1 / (1 + np.exp(-one)), 1 / (1 + np.exp(-other))
    missing = np.arange(ROWS) % 5 == 2
    return (
        said[0],
        np.where(missing, np.nan, said[1]),
        (rng.random(ROWS) < 1 / (1 + np.exp(-one - other))).astype(int),
    )


@pytest.fixture(scope="module")
def table(history, tmp_path_factory):
    one, other, won = history
    day = np.arange(ROWS) // 10
    path = tmp_path_factory.mktemp("combined") / "games.csv"
    frame = pl.DataFrame({"one": one, "other": other, "won": won, "day": day}).with_columns(
        pl.col("other").fill_nan(None)
    )
    frame.write_csv(path)
    return path


@pytest.fixture
def common(table):
    return [table, "--outcome", "won", "--forecast", "one", "--forecast", "other"]


def test_it_is_the_librarys_answer(common, history, tmp_path):
    one, other, won = history
    result = combine_forecasts({"one": one, "other": other}, won)
    found = record("combine", *common, "--out", tmp_path)
    assert found["certificate"] == result.certificate[-1]
    assert found["models"]["other"]["n_rounds"] == ROWS - ROWS // 5
    assert found["models"]["one"]["brier_out"] == pytest.approx(result.report().models["one"].brier_out)
    written = pl.read_parquet(tmp_path / "combined.parquet")
    assert np.array_equal(written["combined"].to_numpy(), result.probabilities)
    assert np.array_equal(written["weight_one"].to_numpy(), result.weights[:, 0])
    assert {path.name for path in tmp_path.iterdir()} == {
        "combined.parquet", "report.csv", "weights.png", "weights.svg", "weights.csv",
    }  # fmt: skip


def test_rows_may_share_when_outcomes_become_known(common, history):
    one, other, won = history
    day = np.arange(ROWS) // 10
    expected = combine_forecasts(np.column_stack([one, other]), won, day * 10 + 9)
    for option in ("--together", "--settled-at"):
        given = [option, "day"] if option == "--together" else [option, "day", "--sort", "day"]
        found = record("combine", *common, *given)
        assert found["brier_out"] == pytest.approx(expected.report().brier_out)


def test_people_see_each_model(common):
    shown = run("combine", *common).stdout
    for text in ("one", "other", "all together", "240", "proven distance to calibration of 300 rows"):
        assert text in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--outcome", "won"], "--forecast must be given for at least 2 models"),
        (["--forecast", "one"], "at least 2 models, got 'one' alone"),
        (["--outcome", "one", "--forecast", "one", "--forecast", "other"], "must be 0, 1 or boolean"),
        (["--outcome", "won", "--forecast", "day", "--forecast", "one"], "must lie in [0, 1]"),
    ],
)
def test_bad_requests_are_refused_in_words(table, arguments, message):
    assert message in refused("combine", table, *arguments)
