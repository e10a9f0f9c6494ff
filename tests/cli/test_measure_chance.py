"""What `measure` says of chance, of rows that share an outcome and of forecasts worse than a constant."""

import json
import re

import numpy as np
import polars as pl

from onlinecal import measures
from tests.cli.measuring import columns, run


def test_what_chance_would_score_stands_beside_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("p,won\n0.25,1\n0.25,0\n0.5,1\n1,1\n")
    given = (path, "--forecast", "p", "--outcome", "won", "--draws", 9)
    (column,) = columns(*given)
    for name, found in column["chance"].items():
        chance = measures.chance_level([0.25, 0.25, 0.5, 1], name, [1, 0, 1, 1], 9)
        assert (found["mean"], found["p_value"]) == (chance.mean, chance.p_value)
        assert list(found["quantiles"].values()) == list(chance.quantiles.values())
    assert set(column["chance"]) >= {"lower_distance", "distance", "brier"}
    assert re.search(r"\n Brier score +0.88 \(0.2188\) +0.62 \(0.1562\) +[01].*\n", run(*given).stdout)


def test_rows_that_share_an_outcome_are_noticed_and_can_be_named(tmp_path):
    rng = np.random.default_rng(3)
    match = np.repeat(np.arange(60), 50)
    p = np.repeat(rng.random(60), 50)
    y = np.repeat(rng.random(60) < p[::50], 50).astype(int)
    path = tmp_path / "matches.csv"
    pl.DataFrame({"p": p, "won": y, "match": [f"m{one}" for one in match]}).write_csv(path)
    given = (path, "--forecast", "p", "--outcome", "won", "--budget", 0.01)
    answer = run(*given, "--json")
    assert "do rows share an outcome" in answer.stderr
    (alone,) = json.loads(answer.stdout)["columns"]
    answer = run(*given, "--group", "match", "--json")
    assert answer.stderr == ""
    (together,) = json.loads(answer.stdout)["columns"]
    assert alone["chance"]["smooth"]["p_value"] == 1 / 200
    assert together["chance"]["smooth"]["p_value"] > 0.05
    assert together["chance"]["brier"]["mean"] == alone["chance"]["brier"]["mean"]
    path.write_text("p,won,match\n0.5,1,\n")
    assert "no value at row 0" in run(*given, "--group", "match").stderr


def test_forecasts_worse_than_a_constant_or_than_the_first_column_are_remarked_on(tmp_path):
    rng = np.random.default_rng(4)
    p = rng.random(300).round(2)
    y = (rng.random(300) < p).astype(int)
    path = tmp_path / "a.csv"
    pl.DataFrame({"p": p, "tame": 0.25 + p / 2, "wild": 1 - p, "won": y}).write_csv(path)
    good = run(path, "--forecast", "p", "--outcome", "won", "--draws", 0, "--budget", 0.01)
    assert good.stderr == ""
    answer = run(
        path, "--forecast", "p", "--forecast", "tame", "--forecast", "wild", "--outcome", "won", "--draws", 0
    )
    said = " ".join(answer.stderr.split())
    assert f"tame: worse than p, Brier score {((0.25 + p / 2 - y) ** 2).mean():.4f} instead of" in said
    assert "wild: worse than a constant, Brier score" in said
    assert "tame: worse than a constant" not in said
    assert " p: worse" not in said
