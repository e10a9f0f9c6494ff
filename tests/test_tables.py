"""The one reader of tables: columns of files, as they are or as outcomes and forecasts."""

import numpy as np
import polars as pl
import pytest

from onlinecal.tables import (
    check_columns,
    forecast_column,
    outcome_column,
    read_columns,
    read_frame,
    read_history,
)

FRAME = pl.DataFrame({"p": [0.25, 1.0], "y": [1, 0], "day": ["2024-01-02", "2024-01-01"]})


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def file(request, tmp_path):
    path = tmp_path / f"a[0].{request.param}"
    write = {"csv": FRAME.write_csv, "jsonl": FRAME.write_ndjson, "parquet": FRAME.write_parquet}
    write[request.param](path)
    return path


def test_a_frame_has_the_columns_of_the_file(file):
    assert read_columns(file) == ["p", "y", "day"]
    assert read_frame(file).equals(FRAME)
    assert read_frame(file, ["y"])["y"].to_list() == [1, 0]
    with pytest.raises(ValueError, match=r"has no column 'dy'; did you mean 'day'\? Its columns: p, y, day"):
        read_frame(file, ["dy"])


def test_histories_and_frames_read_the_same_numbers(file):
    history = read_history(file, "y", "p", sort="day")
    frame = read_frame(file)
    assert history.outcomes.tolist() == outcome_column(frame["y"], file).tolist()[::-1]
    assert history.forecasts.tolist() == forecast_column(frame["p"], file).tolist()[::-1]


def test_numbers_may_be_texts_and_booleans_but_nothing_else(tmp_path):
    ones = pl.Series("y", ["1", " True", "false", "0.0"])
    assert outcome_column(ones, tmp_path).tolist() == [1, 1, 0, 0]
    assert outcome_column(pl.Series("y", [True, False]), tmp_path).dtype == np.uint8
    assert forecast_column(pl.Series("p", ["0.5", "1"]), tmp_path).tolist() == [0.5, 1.0]
    for values, got in (([1, 2], "2"), (["1", "yes"], "'yes'"), ([True, None], "nothing")):
        with pytest.raises(ValueError, match=f"column 'y' must be 0, 1 or boolean, got {got} at row 1"):
            outcome_column(pl.Series("y", values), tmp_path)
    with pytest.raises(ValueError, match=r"column 'p' must lie in \[0, 1\], got nan at row 0"):
        forecast_column(pl.Series("p", [float("nan")]), tmp_path)


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_frame(tmp_path / "a.csv")
    for name, text, words in (
        ("a.txt", "p\n1\n", "cannot tell what"),
        ("a.csv", "p,y\n", "holds no rounds"),
        ("b.csv", " \n\n", "holds no rounds"),
        ("a.parquet", "p\n1\n", "cannot be read as parquet"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=words):
            read_frame(tmp_path / name)
    with pytest.raises(ValueError, match=r"the table has no column 'z'\. Its columns: p"):
        check_columns(["p"], ["z"])
