"""Files as people and programs write them: the same rows in all formats, whatever is around them."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.tables.classes import read_table
from onlinecal.tables.files import read_columns, read_frame
from onlinecal.tables.names import FORECAST_NAMES, OUTCOME_NAMES, usual
from onlinecal.tables.rounds import Reading, read_rounds
from tests.properties import examples

# a bare carriage return ends no line, and no byte of text is zero
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)
ONE_ROW = st.tuples(st.integers(0, 1000), st.booleans(), TEXTS, st.integers(0, 10**6))
ROWS = st.lists(ONE_ROW, min_size=1, max_size=8)
NAMES = "p", "y", "note", "id"


def as_csv(rows, separator=",", quoting=csv.QUOTE_MINIMAL, names=NAMES):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[p / 1000, int(y), note, one] for p, y, note, one in rows])
    return out.getvalue()


def written(folder, rows):
    """The same rows in every format and shape that is read."""
    frame = pl.DataFrame({"p": row[0] / 1000, "y": int(row[1]), "note": row[2], "id": row[3]} for row in rows)
    dicts = frame.to_dicts()
    columns = frame.to_dict(as_series=False)
    texts = {
        "plain.csv": as_csv(rows),
        "quoted.csv": as_csv(rows, quoting=csv.QUOTE_ALL),
        "semicolons.csv": as_csv(rows, ";"),
        "tabs.tsv": as_csv(rows, "\t"),
        "told.csv": "sep=;\n" + as_csv(rows, ";"),
        "remarks.csv": "# made by hand\n# with, as, many, commas\n" + as_csv(rows, quoting=csv.QUOTE_ALL),
        "windows.csv": "\ufeff" + as_csv(rows).replace("\n", "\r\n"),
        "lines.jsonl": "".join(json.dumps(row) + "\n" for row in dicts),
        "marked.jsonl": "\ufeff" + "".join(json.dumps(row) + "\r\n" for row in dicts),
        "boxed.jsonl": "".join(json.dumps({k: [v] for k, v in row.items()}) + "\n" for row in dicts),
        "rows.json": json.dumps(dicts, indent=1),
        "columns.json": json.dumps(columns),
        "pandas.json": json.dumps({k: dict(enumerate(v)) for k, v in columns.items()}),
        "envelope.json": json.dumps({"count": len(dicts), "markets": dicts}, indent=2),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    frame.write_parquet(folder / "whole.parquet")
    np.savez(folder / "arrays.npz", p=frame["p"], y=frame["y"], id=frame["id"])
    return [*texts, "whole.parquet", "arrays.npz"]


@settings(max_examples=examples(25), deadline=None)
@given(rows=ROWS)
def test_the_same_rows_in_all_formats_give_the_same_numbers(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("formats")
    for name in written(folder, rows):
        path = folder / name
        found = read_rounds(path, "y", ["p"], more=["id"])
        assert found.forecasts["p"].tolist() == [row[0] / 1000 for row in rows], name
        assert found.outcomes.tolist() == [row[1] for row in rows], name
        assert found.frame["id"].to_list() == [row[3] for row in rows], name
        assert set(read_columns(path)) >= {"p", "y", "id"}


@settings(max_examples=examples(60), deadline=None)
@given(rows=ROWS, broken=st.data(), quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_a_row_with_more_fields_than_the_header_is_named_and_no_column_shifted(
    tmp_path_factory, rows, broken, quoting
):
    flat = [(p, y, note.replace("\n", " "), one) for p, y, note, one in rows]
    lines = as_csv(flat, quoting=quoting).split("\n")
    row = broken.draw(st.integers(0, len(rows) - 1))
    lines[row + 1] += broken.draw(st.sampled_from([',"more"', ",5", ',"a, b",7']))
    path = tmp_path_factory.mktemp("surplus") / "a.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    if len(rows) > 1:
        with pytest.raises(ValueError, match=rf"a\.csv cannot be read as csv: row {row} has more"):
            read_rounds(path, "y", ["p"])


@pytest.mark.parametrize("quotes", ['"', ""])
def test_names_of_rows_without_a_header_are_a_column_of_their_own(tmp_path, quotes):
    path = tmp_path / "r.csv"
    rows = [(0.9, 0.6, 0), (0.8, 0.7, 1), (0.3, 0.2, 0)]
    body = "".join(f"{quotes}{n}{quotes},{q},{p},{y}\n" for n, (q, p, y) in enumerate(rows, 1))
    path.write_text("q,p,y\n" + body)
    found = read_rounds(path, "y", ["p"], more=["row names"])
    assert found.forecasts["p"].tolist() == [0.6, 0.7, 0.2]
    assert found.frame["row names"].to_list() == [1, 2, 3]
    # what repeats names no rows: it is the beginning of numbers with commas
    path.write_text("p,y\n0,5,1\n0,7,0\n")
    with pytest.raises(ValueError, match="row 0 has more fields than the header, 3 for 2: decimal commas"):
        read_rounds(path, "y", ["p"])
    # an end without a field has no name, and is none
    path.write_text("p,y\n0.5,1,\n0.7,0,\n")
    assert read_rounds(path, "y", ["p"]).forecasts["p"].tolist() == [0.5, 0.7]


def test_the_row_that_is_too_long_is_found_in_the_middle_of_many(tmp_path):
    path = tmp_path / "a.csv"
    lines = ["p,y", *["0.5,1"] * 70_000]
    lines[50_001] += ",3"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="row 50000 has more fields than the header, 3 for 2"):
        read_frame(path, ["p"])


def test_names_that_are_longer_than_numbers_stay_names(tmp_path):
    ids = ["9" * 45, "0" * 3 + "7", "7"]
    (tmp_path / "a.csv").write_text("p,y,id\n" + "".join(f"0.5,1,{one}\n" for one in ids))
    assert read_rounds(tmp_path / "a.csv", "y", ["p"], more=["id"]).frame["id"].to_list() == ids
    (tmp_path / "a.jsonl").write_text("".join(f'{{"p":0.5,"y":1,"id":{one}}}\n' for one in ("9" * 45, "7")))
    assert read_rounds(tmp_path / "a.jsonl", "y", ["p"], more=["id"]).frame["id"].to_list() == ["9" * 45, "7"]


def test_python_s_nan_in_json_is_no_value(tmp_path):
    for name in ("a.jsonl", "a.json"):
        rows = [{"p": p, "y": 1} for p in (math.nan, 0.5, math.inf)]
        text = json.dumps(rows) if name == "a.json" else "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name).write_text(text)
        found = read_rounds(tmp_path / name, "y", ["p"], reading=Reading(drop_invalid=True))
        assert found.forecasts["p"].tolist() == [0.5]
        found = read_rounds(tmp_path / name, "y", ["p"], reading=Reading(scale="logits", drop_invalid=True))
        assert found.forecasts["p"].tolist()[-1] == 1.0


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "p,y,p\n0.5,1,0.2\n", "has two columns 'p': rename one"),
        ("a.json", '{"p": 0.5, "y": 1, "p": 0.2}\n', "an object has two values for 'p', 0.5 and 0.2: keep"),
        ("a.json", '{"a": [{"p": 1}], "b": [{"p": 1}]}', "several lists of rows, a, b: keep one"),
        ("a.json", '{"p": [0.5, 0.2], "y": [1]}', "its columns must have the same length, got p 2, y 1"),
        ("a.json", "[0.5, 0.2]", "cannot be read as json: it must be a list of rows"),
        ("a.json", '{"ok": 1, "rows": []}', "one object, {ok, rows}, and 'rows' in it is empty: it must be"),
        ("a.json", '{"p": [0.5], "y": 1}', "one object, {p, y}, and 'y' in it is 1, no list: it must be a"),
        ("a.json", '{"p": {"0": 1}, "y": {"1": 1}}', "its columns 'p' and 'y' have other names of rows: it"),
        ("a.csv", "p,y\n2.5,1\n1.8,0\n", "are they decimal odds"),
    ],
    ids=["twice", "twice in JSON", "two lists", "unequal", "numbers", "none", "number", "names", "odds"],
)
def test_what_has_two_readings_is_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        read_rounds(tmp_path / name, "y", ["p"], reading=Reading())


def test_two_columns_of_a_name_that_nobody_asks_for_are_left_alone(tmp_path):
    (tmp_path / "a.csv").write_text("p,y,x,x\n0.5,1,2,3\n")
    assert read_rounds(tmp_path / "a.csv", "y", ["p"]).forecasts["p"].tolist() == [0.5]


@pytest.mark.parametrize("name", ["probwin", "forecast_prob", "Probability Yes", "FORECAST", "y-prob"])
def test_usual_names_are_found_however_their_words_are_written(name):
    assert usual(["id", name, "won"], FORECAST_NAMES) == name
    assert usual(["id", name, "Home Won"], OUTCOME_NAMES) == "Home Won"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"p": n / 1000, "y": 1} for n in range(1000)]),
        ",".join(f"column {n}" for n in range(1000)) + "\n1\n",
        "p" * 9999 + "\n1\n",
    ],
    ids=["JSON called CSV", "many columns", "a long name"],
)
def test_names_in_errors_do_not_grow_with_the_file(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match="has no column 'y'") as told:
        read_frame(tmp_path / "a.csv", ["y"])
    assert len(str(told.value)) < 2000


def test_a_header_may_begin_with_a_hash(tmp_path):
    (tmp_path / "a.csv").write_text("# made by hand\n#p,y\n0.5,1\n25%,yes\n")
    assert read_columns(tmp_path / "a.csv") == ["#p", "y"]


def test_decimal_commas_are_told_from_other_texts_in_tables_of_classes_too(tmp_path):
    (tmp_path / "a.csv").write_text("p_a;p_b;label\n0,25;0,75;a\n")
    with pytest.raises(
        ValueError, match="column 'p_a' must hold numbers, got '0,25' at row 0: is this a decimal comma"
    ):
        read_table(tmp_path / "a.csv")
