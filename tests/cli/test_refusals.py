"""Wrong requests: one line that says what is wrong, exit code 2, and nothing is written."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from onlinecal.simulations.experiments import made_up_table
from tests.commands import refused

SEGMENTS = "river:name=ImageSegments"
SIDES = "events.csv --forecast side --outcome ill"
DECISION = "recalibrate net.csv --label finding --method decision"
LP, GROUPS = "recalibrate net.csv --label finding --method lp", "recalibrate events.csv --method groups"
WRONG = [
    ("measure nbaa --forecast p --outcome y", "no such file: nbaa"),
    ("measure events.csv", "the outcomes? Name it with --outcome. Its columns: risk, ill"),
    ("measure net.csv --outcome finding", "which column has the forecasts? Name it with --forecast"),
    ("measure games.csv --forecast p --forecast p", "--forecast 'p' is given twice: give it once"),
    ("measure games.csv --outcome wn", "has no column 'wn'; did you mean 'won'?"),
    ("measure games.csv --together match", "no value at row 0"),
    ("measure games.csv --budget 0", "--budget must be a positive number, or the word exact, got '0'"),
    ("measure games.csv --forecast q", "must lie in [0, 1], got '1.5' at row 0"),
    ("measure games.csv --out taken", "--out must be a folder, but taken is a file"),
    (
        "measure games.csv --out new/all.CSV",
        "into which files are written, got new/all.CSV: give --out new/all",
    ),
    ("combine games.csv --outcome won --forecast p --forecast won", "is named for the outcomes and for"),
    ("column games.csv --state s", "--state needs --id: --state is the file"),
    ("column games.csv --state s --id won --together won", "--together does not go with --state"),
    ("column games.csv --state taken --id won", "taken is not a file of a recalibrated column"),
    ("column games.csv --state s --id p", "ids must be all whole numbers, or all texts"),
    ("combine games.csv --outcome won", "--forecast must be given at least twice"),
    ("combine games.csv --forecast p", "at least twice, once for each model, got 'p' alone"),
    ("combine games.csv --forecast p --forecast p", "--forecast 'p' is given twice: give it once"),
    ("combine events.csv --outcome risk --forecast ill --forecast age", "must be 0, 1 or boolean"),
    ("recalibrate bad.npz", "bad.npz cannot be read as npz"),
    ("recalibrate net.csv --method lq", "there is no method 'lq'. Known: lp, decision, groups, boost"),
    ("recalibrate net.csv --method lp", "has no labels to fit to: name their column with --label"),
    ("recalibrate net.csv --label finding --forecast p_cat", "--label and --forecast exclude each other"),
    ("recalibrate net.csv --label finding --set alpha=1", "--set belongs to --method lp and decision and"),
    ("recalibrate net.csv --label finding --split finding", "the column must hold fit (or train"),
    ("recalibrate net.csv --method groups --losses costs.csv", "--losses belongs to --method decision, not"),
    (f"{LP} --set p", "--set must be NAME=VALUE, like n_levels=5, got 'p'"),
    (f"{LP} --choose lp", "--choose belongs to the comparison of all, not to"),
    (f"{LP} --split 0.9", "at least 10 rows, got 4 to fit and 36 to test: give more rows, or another"),
    ("recalibrate net.csv --label finding --split day", "--split day: the file has no column 'day'"),
    (
        f"{GROUPS} --outcome ill --forecast risk --group sidee",
        "--group sidee: the file has no column 'sidee'; did",
    ),
    (f"{LP} --split 0.2 --apply net.csv", "leave out --split and --together"),
    (f"{GROUPS} --outcome ill --group side", "--method groups needs --forecast"),
    (f"{GROUPS} --outcome ill --forecast risk", "--method groups needs --group"),
    (
        "recalibrate events.csv --method lp --probabilities risk,side --label ill",
        "'side' must hold numbers, got '",
    ),
    ("recalibrate events.csv --method boost --outcome ill --features age,side", "'side' must hold numbers"),
    ("recalibrate events.csv", "which column has the outcomes? Name it with --outcome, or class"),
    ("recalibrate events.csv --outcome ill --choose groups", "none of the methods tried: it needs --group"),
    ("stream", "--ledger is missing"),
    ("stream --ledger l.db --resume", "--resume needs --input"),
    ("stream --ledger l.db --input nowhere", "nowhere is neither a file nor a folder"),
    ("stream --ledger l.db --input /dev/null", "/dev/null is neither a file"),
    ("stream repair --ledger nowhere.db --into new.db", "there is no such ledger"),
    (
        "stream archive --ledger l.db --into old.archive",
        "needs either --keep or --before, one of the two, got neither",
    ),
    ("evaluate", "Missing argument 'STREAM"),
    ("evaluate Phisching", "did you mean 'Phishing'?"),
    ("evaluate Phishing --rounds 99999", "at most the 1250"),
    ("evaluate Phishing --outcome y", "other options about columns need a file, and Phishing is none"),
    ("evaluate flip --model tree", "--model needs features"),
    ("simulate --adversary coi", "unknown adversary 'coi'; did you mean 'coin'? Known: alternating"),
    ("simulate --adversary river:name=Phishing --rounds 99999", "has only 1250 rounds"),
    ("simulate --adversary file:path=games.csv", "has no column 'outcome'"),
    ("simulate --adversary file:path=games.csv,outcome=match", "got nothing at row 0"),
    ("simulate --classes 1", "--classes must be from 2 to 100, got 1"),
    (f"simulate --classes 3 --adversary {SEGMENTS}", "n_classes must be at least 7, the classes of"),
    (f"simulate --classes 7 --adversary {SEGMENTS} --rounds 9999", "has only 2310 rounds"),
    ("simulate --classes 3 --adversary file:path=games.csv", "must be a numpy archive"),
    ("sweep demmo", "no such file: demmo; did you mean 'demo'? Names that need no file: demo"),
    ("sweep demo --out taken", "--out must be a folder, but taken is a file"),
    ("sweep demo --out mine", "mine has a file rates.csv that no sweep has written, and that would be lost"),
    ("simulate --out taken/games", "--out must be a folder, but taken is a file"),
    ("simulate --adversary file:path=results.csv --out .", "the results could overwrite the input"),
    (
        "worst --rounds 3 --out worst.png",
        "into which files are written, got worst.png: give --out worst",
    ),
    ("sweep demo --scheduler 127.0.0.1:1", "--scheduler needs --backend dask or ray"),
    ("sweep demo --backend ray --scheduler 127.0.0.1:1 --jobs 2", "--jobs and --scheduler exclude"),
    ("plot nowhere", "no results in nowhere"),
    ("forecasters --load nowhere.py", "no such file: nowhere.py"),
    ("worst --minimax --rounds 9", "--rounds must be at most 8 with --minimax, and is 9"),
    ("worst --minimax", "and is 16: give --rounds 8, or leave --minimax out"),
    ("plot taken", "no results in taken, which is a file: name the folder of a sweep"),
    ("evaluate coin", "there is no file 'coin', nor a stream of this name. Known: flip, "),
    (
        "column games.csv --forecast p --outcome won --state taken/s --id won",
        "taken/s: cannot be written here: Not a directory; name a file in a folder",
    ),
    ("stream --ledger l.db --input events.csv --config nowhere", "onlinecal: no such file: nowhere"),
    ("stream --ledger l.db --input events.csv --config .", "onlinecal: not a file: ."),
    (f"{DECISION} --losses taken/costs.csv", "cannot be there, since taken is a file and not a folder"),
    (f"{DECISION} --losses events.csv", "events.csv, line 2: losses must be finite numbers, got 'left'"),
    (f"{LP} --set p=2 --set p=3", "--set p is given twice: give it once"),
    (f"{LP} --apply games.csv", "games.csv must have the columns of probabilities of net.csv, got p, q, won"),
    (
        f"{LP} --probabilities p_cat,p_dog",
        "got 0.75 at row 0: is a class left out?",
    ),
    (
        f"measure {SIDES}",
        "'left' at row 0; no row is good: name another column",
    ),
    (
        f"measure {SIDES} --drop-invalid",
        "no row is good: name another column",
    ),
    (
        f"measure {SIDES} --scale logits",
        "no row is good: name another column",
    ),
    ("worst --minimax --rounds 3 --out x", "--minimax is about the distance and writes nothing"),
    ("experiment few.npz --figure map", "--figure must be one of steps, actions, classes, drift, got 'map'"),
    ("experiment bare.npz", "has no labels to fit to"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, few = tmp_path_factory.mktemp("refused"), made_up_table(19, 3)
    (path / "games.csv").write_text("p,q,won,match\n0.5,1.5,1,\n0.25,0.5,0,1\n")
    (path / "costs.csv").write_text("action,owl,cat,dog\nleave,0,0,4\nact,1,1,0\n")
    (path / "bad.npz").write_bytes(b"PK")
    (path / "taken").touch()
    (path / "mine").mkdir()
    (path / "mine/rates.csv").touch()
    (path / "results.csv").write_text("forecast,outcome\n0.5,1\n")
    np.savez(path / "few.npz", predictions=few.probabilities, ground_truth=few.labels)
    np.savez(path / "bare.npz", predictions=few.probabilities)
    row = np.arange(40)
    net = {"p_cat": 0.5 + 0 * row, "p_dog": 0.25 + 0 * row, "p_owl": 0.25 + 0 * row}
    labels = ["cat", "dog", "cat", "owl"] * 10
    pl.DataFrame({**net, "finding": labels}).write_csv(path / "net.csv")
    events = {"risk": row / 40, "ill": row % 2, "side": ["left", "right"] * 20, "age": row}
    pl.DataFrame(events).write_csv(path / "events.csv")
    return path


@pytest.mark.parametrize("request_, words", WRONG)
def test_wrong_requests_get_a_line_and_write_nothing(folder, monkeypatch, request_, words):
    monkeypatch.chdir(folder)
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    assert words in refused(*request_.split())
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before
