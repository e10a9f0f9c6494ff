"""The one reader of tables: columns of files, as they are or as outcomes and forecasts."""

import gzip
import io
import sys

import numpy as np
import polars as pl
import pytest

from onlinecal.tables.files import read_columns, read_frame
from onlinecal.tables.rounds import Reading, forecast_column, outcome_column, read_rounds

FRAME = pl.DataFrame({"p": [0.25, 1.0], "y": [1, 0], "day": ["2024-01-02", "2024-01-01"]})


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def file(request, tmp_path):
    path = tmp_path / f"a[0].{request.param}"
    write = {"csv": FRAME.write_csv, "jsonl": FRAME.write_ndjson, "parquet": FRAME.write_parquet}
    write[request.param](path)
    return path


def test_a_frame_has_the_columns_of_the_file_and_rounds_the_same_numbers(file):
    assert read_columns(file) == ["p", "y", "day"]
    frame = read_frame(file)
    assert frame.equals(FRAME)
    assert read_frame(file, ["y"])["y"].to_list() == [1, 0]
    with pytest.raises(ValueError, match=r"has no column 'dy'; did you mean 'day'\? Its columns: p, y, day"):
        read_frame(file, ["dy"])
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_frame(file.with_name("b.csv"))
    rounds = read_rounds(file, "y", ["p"], sort="day")
    assert rounds.outcomes.tolist() == outcome_column(frame["y"], file).tolist()[::-1]
    assert rounds.forecasts["p"].tolist() == forecast_column(frame["p"], file).tolist()[::-1]


ROWS = "p{0}y\n0.25{0}1\n1{0}0\n"
PACKED = gzip.compress(ROWS.format(",").encode())
ARRAYS = io.BytesIO()
np.savez(ARRAYS, p=np.array([0.25, 1.0]), y=np.array([True, False]), q=np.array([[0.2, 0.8], [0.5, 0.5]]))
AS_THEY_ARE = {
    "semicolons.csv": ROWS.format(";").encode(),
    "tabs.tsv": ROWS.format("\t").encode(),
    "bars.csv": ROWS.format("|").encode(),
    "spaces.csv": ROWS.format(" , ").encode(),
    "quotes.csv": b'"p";"y";"a, b, c, d"\n0.25;1;"x, y"\n1;0;z\n',
    "packed.csv.gz": PACKED,
    "marked.csv": ROWS.format(",").replace("\n", "\r\n").encode("utf-8-sig") + b"\r\n\r\n",
    "excel.csv": ROWS.format("\t").encode("utf-16"),
    "windows.csv": b"stra\xdfe,p,y\n\xe4,0.25,1\n\xe4,1,0\n",
    "words.csv": b"p,y\n25%,Yes\n100 %,no\n",
    "arrays.npz": ARRAYS.getvalue(),
    "array.json": b' [\n {"p": 0.25, "y": true}, {"y": 0, "p": 1}]',
    "lines.jsonl.gz": gzip.compress(b'{"p": 0.25, "y": true}\n{"p": "1", "y": 0}\n'),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_files_are_read_as_they_are_also_from_a_pipe(tmp_path, monkeypatch, name):
    content = AS_THEY_ARE[name]
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    for path, called in ((tmp_path / name, name), ("-", "standard input")):
        rounds = read_rounds(path, "y", ["p"])
        assert rounds.name == called
        assert rounds.outcomes.tolist() == [1, 0]
        assert rounds.forecasts["p"].tolist() == [0.25, 1.0]


def test_tables_in_npz_are_columns_and_must_be_equally_long(tmp_path):
    (tmp_path / "a.npz").write_bytes(ARRAYS.getvalue())
    assert read_columns(tmp_path / "a.npz") == ["p", "y", "q_0", "q_1"]
    assert read_rounds(tmp_path / "a.npz", "y", ["q_1"]).forecasts["q_1"].tolist() == [0.8, 0.5]
    np.savez(tmp_path / "b.npz", p=[0.5], y=[0, 1])
    with pytest.raises(ValueError, match="its columns must have the same length, got p 1, y 2"):
        read_rounds(tmp_path / "b.npz", "y", ["p"])


def rounds_of(path, text, options):
    path.write_text(text)
    return read_rounds(path, "y", ["p"], reading=Reading(**options))


@pytest.mark.parametrize(
    ("options", "text", "p", "y", "remark"),
    [
        ({"positive": "b", "scale": "percent"}, "63,b 5%,a 0,c", [0.63, 0.05, 0], [1, 0, 0], "0: 'a', 'c'"),
        ({"positive": "2", "scale": "logits"}, "0,2 -1000,1 inf,2.0", [0.5, 0, 1], [1, 0, 1], ""),
        (
            {"drop_invalid": True},
            "0.5,1 ,0 NA,0 0.5,a 1,0",
            [0.5, 1],
            [1, 0],
            "2 by p, which must lie in [0, 1]",
        ),
    ],
)
def test_columns_are_read_as_said(tmp_path, options, text, p, y, remark):
    found = rounds_of(tmp_path / "a.csv", f"p,y {text}".replace(" ", "\n"), options)
    assert found.forecasts["p"].tolist() == p
    assert found.outcomes.tolist() == y
    assert remark in "".join(found.remarks)
    assert len(found.frame) == len(y)


@pytest.mark.parametrize(
    ("name", "text", "options", "words"),
    [
        ("a.txt", "p\n1\n", {}, 'cannot tell the format of .* Standard input, "-", needs no extension'),
        ("a.parquet", "p\n1\n", {}, "cannot be read as parquet"),
        ("a.csv", "p,y\n", {}, "has no rows: it needs at least one"),
        ("a.csv", " \n\n", {}, "has no rows: it needs at least one"),
        ("a.csv", "p,y\n0.5,1\n1,maybe\n", {}, "'y' must be 0, 1 or boolean, got 'maybe' at row 1"),
        ("a.csv", "p;y\n0,5;1\n", {}, "got '0,5' at row 0: is this a decimal comma"),
        ("a.csv", "p,y\n0,5,1\n", {}, "row 0 has more fields than the header, 3 for 2: decimal commas"),
        ("a.csv", "0.5,1\n0.3,0\n", {}, "has no header"),
        ("a.csv", "p,y\n50,1\n", {}, r"are they percentages \(--scale percent\)"),
        ("a.csv", "p,y\n0.5,1\n-3,1\n", {}, r"got '-3' at row 1: are they log-odds \(--scale logits\)"),
        ("a.csv", "p,y\n0.5,1\nNA,1\n", {}, r"got 'NA' at row 1 \(1 row like that\); --drop-invalid"),
        ("a.csv", "p,y\n0.5,won\n0.5,lost\n", {}, "--positive LABEL says .* its values: 'won', 'lost'"),
        ("a.csv", "p,y\n0.5,won\n", {"positive": "Won"}, "never has the value 'Won'; did you mean 'won'"),
        ("a.csv", "p,y\n2,1\n0.3,x\n", {"drop_invalid": True}, "y .* .x. at row 1. Correct them"),
    ],
)
def test_refusals_say_what_may_help(tmp_path, name, text, options, words):
    with pytest.raises(ValueError, match=words):
        rounds_of(tmp_path / name, text, options)
