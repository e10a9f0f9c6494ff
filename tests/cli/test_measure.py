"""The verb `measure`: the library's numbers in a table, as JSON and as pictures; nothing from bad input."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sklearn.metrics

from onlinecal import measures
from onlinecal.cli.measure import BY_CHANCE, LABELS
from onlinecal.measures import summary
from tests.commands import record, refused, run

ROUNDS = 400


def columns(*arguments):
    """What --json says about each column of forecasts."""
    return record("measure", *arguments)["columns"]


@pytest.fixture(scope="module")
def history():
    """Rounded and raw forecasts, both bolder than the truth, and outcomes."""
    rng = np.random.default_rng(5)
    forecasts = rng.random(ROUNDS)
    return np.round(forecasts, 2), forecasts, (rng.random(ROUNDS) < 0.2 + 0.6 * forecasts).astype(int)


@pytest.fixture(scope="module")
def common(history, tmp_path_factory):
    path = tmp_path_factory.mktemp("measured") / "games.csv"
    pl.DataFrame(dict(zip(("rounded", "raw", "won"), history, strict=True))).write_csv(path)
    return [path, "--outcome", "won", "--forecast", "rounded"]


def expected(p, y, bins=15):
    """The library's answers, as sums."""
    distance, lower = measures.calibration_distance(p, y), measures.lower_calibration_distance(p, y)
    parts = measures.brier_decomposition(p, y, normalize=False)
    return {
        "rounds": len(y),
        "ones": int(y.sum()),
        "ece": measures.expected_calibration_error(p, y, normalize=False),
        "ece_bins": measures.expected_calibration_error(p, y, bins, normalize=False),
        "cumulative": measures.cumulative_calibration_error(p, y, normalize=False).error,
        "two_bin": len(y) * measures.two_bin_error(p, y),
        "smooth": measures.smooth_calibration_error(p, y, normalize=False),
        "lower_distance_low": lower.lower,
        "lower_distance_high": lower.upper,
        "distance_low": distance.lower,
        "distance_high": distance.upper,
        "brier": float(np.sum((p - y) ** 2)),
        "brier_constant": float(np.sum((y - y.mean()) ** 2)),
        "miscalibration": parts.miscalibration,
        "discrimination": parts.discrimination,
        "log_loss": sklearn.metrics.log_loss(y, np.clip(p, 1e-15, 1 - 1e-15), normalize=False),
        "log_loss_constant": sklearn.metrics.log_loss(y, np.full(len(y), y.mean()), normalize=False),
    }


@pytest.mark.parametrize("bins", [15, 4])
def test_json_has_the_numbers_of_the_library_as_sums_or_averages(history, common, bins):
    rounded, _, outcomes = history
    (sums,), (averages,) = (columns(*common, "--bins", bins, *more) for more in ((), ("--average",)))
    chance = [one.pop("chance") for one in (sums, averages)]
    assert [one.pop("forecast") for one in (sums, averages)] == ["rounded"] * 2
    assert sums == pytest.approx(expected(rounded, outcomes, bins))
    for name in set(sums) - {"rounds", "ones"}:
        assert averages[name] == pytest.approx(sums[name] / ROUNDS)
    assert (averages["rounds"], averages["ones"]) == (ROUNDS, sums["ones"])
    assert set(chance[0]) == {*BY_CHANCE}
    for name, one in chance[0].items():
        assert chance[1][name]["mean"] == pytest.approx(one["mean"] / ROUNDS)
        assert chance[1][name]["p_value"] == one["p_value"]


def lines_of(answer):
    """The lines of the table by their names."""
    lines = [line.strip() for line in answer.stdout.splitlines() if re.search(r"\S\s{2,}\S", line)]
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines)


def test_the_table_shows_sums_and_averages(history, common):
    rounded, _, outcomes = history
    numbers = expected(rounded, outcomes, 4)
    lines, averages = (lines_of(run("measure", *common, "--bins", 4, *more)) for more in ((), ("--average",)))
    assert lines["rounds"] == str(ROUNDS)
    for name in set(LABELS) - {"distance", "lower_distance"}:
        label = LABELS[name].format("4 bins")
        average, total = re.fullmatch(r"([\d.]+) \(([\d.]+)\)", lines[label].split("  ")[0]).groups()
        assert float(total) == pytest.approx(numbers[name], abs=0.06)
        assert float(average) == pytest.approx(numbers[name] / ROUNDS, abs=6e-5)
        assert averages[label].split("  ")[0] == average
    half, middle, twice = map(float, lines["½ smCE ≤ lower distance ≤ 2 smCE"].split(" ≤ "))
    assert half <= middle <= twice
    assert twice == pytest.approx(2 * numbers["smooth"] / ROUNDS, abs=6e-5)
    shown = lines["lower distance to calibration"].split(" (")[1].split(")")[0]
    ends = [float(end) for end in shown.split(" … ")]
    assert ends[0] == pytest.approx(numbers["lower_distance_low"], abs=0.06)
    assert ends[-1] == pytest.approx(numbers["lower_distance_high"], abs=0.06)


def test_an_exact_distance_is_marked_and_a_bracket_shows_both_ends(common):
    exact = [*common, "--budget", "exact"]
    assert lines_of(run("measure", *exact))["distance to calibration"].startswith("= ")
    (column,) = columns(*exact)
    assert column["distance_low"] == column["distance_high"]
    quick = [*common[:3], "--forecast", "raw", "--budget", 1e-3]
    shown = lines_of(run("measure", *quick))["distance to calibration"]
    assert re.match(r"0\.\d{4} \([\d.]+ … [\d.]+\)", shown)
    (column,) = columns(*quick)
    assert column["distance_low"] < column["distance_high"]


def test_columns_stand_side_by_side(history, common):
    rounded, raw, outcomes = history
    first, second = columns(*common, "--forecast", "raw", "--draws", 0)
    assert (first["forecast"], second["forecast"]) == ("rounded", "raw")
    for one, p in ((first, rounded), (second, raw)):
        assert one["ece"] == pytest.approx(expected(p, outcomes)["ece"])
    chance = ["if", "calibrated", "p-value"]
    for draws, more in ((19, chance), (0, [])):
        answer = run("measure", *common, "--forecast", "raw", "--draws", draws)
        assert answer.stdout.splitlines()[2].split() == ["rounded", *more, "raw", *more]


def test_the_packages_own_games_are_measured_by_name():
    (found,) = columns("nba", "--draws", 0)
    assert (found["forecast"], found["rounds"]) == ("forecast", 8886)
    assert found["brier"] / 8886 == pytest.approx(0.2147, abs=1e-4)
    assert "no such file: nbaa" in refused("measure", "nbaa", "--forecast", "p", "--outcome", "y")


def test_pictures_stand_beside_their_numbers(history, common, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "results" / "measured"
    answer = run("measure", *common, "--forecast", "raw", "--out", "results/measured", "--json")
    told = [Path(path).name for path in json.loads(answer.stdout)["pictures"]]
    assert told == ["results.csv", "reliability.png", "transport.png"]
    names = ["reliability", "transport"]
    written = {f"{name}.{kind}" for name in names for kind in ("png", "svg", "csv")} | {"results.csv"}
    assert {path.name for path in out.iterdir()} == written
    for name in names:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
    rounded, _, outcomes = history
    reliability = pl.read_csv(out / "reliability.csv").filter(pl.col("forecaster") == "rounded")
    assert reliability["rounds"].sum() == ROUNDS
    assert (reliability["frequency"] * reliability["rounds"]).sum() == pytest.approx(outcomes.sum())
    results = pl.read_csv(out / "results.csv")
    for row, p in zip(results.to_dicts(), history[:2], strict=True):
        moves = pl.read_csv(out / "transport.csv").filter(pl.col("forecaster") == row["forecast"])
        assert moves["rounds"].sum() == ROUNDS
        assert moves["moved"].sum() == pytest.approx(row["distance_high"])
        up = moves.filter(pl.col("value") > pl.col("forecast"))["moved"].sum()
        assert row["distance_high"] - 2 * up == pytest.approx(p.sum() - outcomes.sum())
        assert (moves["forecast"] * moves["rounds"]).sum() == pytest.approx(p.sum())
    assert results["ece"].to_list()[0] == pytest.approx(expected(rounded, outcomes)["ece"])


def test_a_column_that_is_named_as_forecasts_is_not_taken_for_the_outcomes(tmp_path):
    (tmp_path / "a.csv").write_text("y,won\n0.5,0\n0.5,1\n0.2,0\n")
    (found,) = columns(tmp_path / "a.csv", "--forecast", "y", "--draws", 0)
    assert (found["forecast"], found["ones"]) == ("y", 1)


def test_forecasts_that_are_calibrated_already_can_be_drawn(tmp_path):
    path = tmp_path / "calibrated.csv"
    path.write_text("p,won\n0.5,0\n0.5,1\n1,1\n0,0\n")
    answer = run("measure", path, "--out", tmp_path / "out")
    assert answer.exit_code == 0
    assert lines_of(answer)["distance to calibration"].startswith("= ")
    assert (tmp_path / "out" / "transport.png").stat().st_size > 10_000


def test_outcomes_between_zero_and_one_just_run_and_what_is_left_out_is_said(tmp_path):
    path = tmp_path / "ties.csv"
    rng = np.random.default_rng(0)
    p = rng.random(300).round(2)
    y = np.where(rng.random(300) < 0.2, 0.5, rng.random(300) < p)
    pl.DataFrame({"p": p, "points": y}).write_csv(path)
    given = (path, "--forecast", "p", "--outcome", "points")
    answer = run("measure", *given, "--budget", "exact", "--group", "p", "--out", tmp_path / "out")
    assert answer.exit_code == 0
    said = " ".join(answer.stderr.split())
    assert f"points lies between 0 and 1 in {int((y == 0.5).sum())} of 300 rounds" in said
    for text in ("NP-hard", "also with --budget exact", "--group is left out"):
        assert text in said
    assert re.search(rf"sum of the outcomes +{y.sum():.1f}", answer.stdout)
    assert (tmp_path / "out" / "reliability.png").exists()
    (column,) = columns(*given)
    assert column["ones"] == y.sum()
    found = measures.calibration_distance(p, y)
    assert (column["distance_low"], column["distance_high"]) == (found.lower, found.upper)
    assert found.lower < found.upper
    assert column["brier_constant"] == pytest.approx(((y - y.mean()) ** 2).sum())


def test_measures_that_contradict_each_other_fail(common, monkeypatch):
    for error, words in ((1000.0, "½ smCE 500 > lower distance"), (0.1, "> 2 smCE 0.2")):
        monkeypatch.setattr(summary, "smooth_calibration_error", lambda p, y, normalize, e=error: e)
        shown, told = (run("measure", *common, *more) for more in ((), ("--json",)))
        assert (shown.exit_code, told.exit_code) == (1, 1)
        assert words in shown.stdout
        assert "BROKEN" in shown.stdout
        assert "(rounded)" in shown.stdout
        assert words in json.loads(told.stdout)["broken"][0]


ONE = "p,won\n0.5,1\n"
GOOD = ["games.csv", "--forecast", "p", "--outcome", "won"]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (ONE, ["nowhere.csv", *GOOD[1:]], "no such file: nowhere.csv"),
        (ONE, GOOD[1:], "Missing argument"),
        (
            "p,a\n0.5,1\n",
            GOOD[:3],
            "which column has the outcomes? Name it with --outcome. Its columns: p, a",
        ),
        ("a,won\n0.5,1\n", [GOOD[0], *GOOD[3:]], "which column has the forecasts? Name it with --forecast"),
        (ONE, [*GOOD, "--forecast", "p"], "a forecast is listed twice: p, p"),
        (ONE, [*GOOD, "--forecast", "q"], "has no column 'q'"),
        (ONE, [*GOOD[:4], "wn"], "has no column 'wn'; did you mean 'won'?"),
        (ONE, [*GOOD, "--together", "day"], "has no column 'day'"),
        (ONE, [*GOOD, "--budget", "0"], "--budget must be a positive number or exact, got '0'"),
        (ONE, [*GOOD, "--budget", "all"], "--budget must be a positive number or exact"),
        (ONE, [*GOOD, "--bins", "0"], "--bins"),
        ("p,won\n0.5,1\n0.5,2\n", GOOD, "must be boolean or lie in [0, 1], got '2' at row 1"),
        ("p,won\n0.5,1\n,0\n", GOOD, "must lie in [0, 1], got nothing at row 1"),
        ("p,won\nnan,1\n", GOOD, "must lie in [0, 1], got 'nan' at row 0"),
        ("p,q,won\n0.5,1.5,1\n", [*GOOD, "--forecast", "q"], "must lie in [0, 1], got '1.5' at row 0"),
        ("p,won\n", GOOD, "holds no rounds"),
        ("", GOOD, "holds no rounds"),
        (ONE, [*GOOD, "--out", "games.csv"], "is a file, not a folder"),
    ],
)
def test_wrong_requests_get_one_line_and_write_nothing(tmp_path, monkeypatch, text, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "games.csv").write_text(text)
    out = [] if "--out" in arguments else ["--out", "out"]
    assert words in refused("measure", *arguments, *out)
    assert [path.name for path in tmp_path.iterdir()] == ["games.csv"]
    assert (tmp_path / "games.csv").read_text() == text


def test_what_chance_would_score_stands_beside_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("p,won\n0.25,1\n0.25,0\n0.5,1\n1,1\n")
    (column,) = columns(path, "--draws", 9)
    for name, found in column["chance"].items():
        chance = measures.chance_level([0.25, 0.25, 0.5, 1], name, [1, 0, 1, 1], 9, normalize=False)
        assert (found["mean"], found["p_value"]) == (chance.mean, chance.p_value)
        assert list(found["quantiles"].values()) == list(chance.quantiles.values())
    assert set(column["chance"]) >= {"lower_distance", "distance", "brier"}
    shown = lines_of(run("measure", path, "--draws", 9))["Brier score"]
    assert re.fullmatch(r"0\.2188 \(0\.88\) +0\.1562 \(0\.62\) +[01].*", shown)


def test_rows_that_share_an_outcome_are_noticed_and_can_be_named(tmp_path):
    rng = np.random.default_rng(3)
    match = np.repeat(np.arange(60), 50)
    p = np.repeat(rng.random(60), 50)
    y = np.repeat(rng.random(60) < p[::50], 50).astype(int)
    path = tmp_path / "matches.csv"
    pl.DataFrame({"p": p, "won": y, "match": [f"m{one}" for one in match]}).write_csv(path)
    given = (path, "--budget", 0.01, "--json")
    alone, together = (run("measure", *given, *more) for more in ((), ("--together", "match")))
    assert "do rows share an outcome" in alone.stderr
    assert together.stderr == ""
    chance = [json.loads(answer.stdout)["columns"][0]["chance"] for answer in (alone, together)]
    assert chance[0]["smooth"]["p_value"] == 1 / 200
    assert chance[1]["smooth"]["p_value"] > 0.05
    assert chance[1]["brier"]["mean"] == chance[0]["brier"]["mean"]
    path.write_text("p,won,match\n0.5,1,\n")
    assert "no value at row 0" in run("measure", path, "--together", "match").stderr


def test_forecasts_worse_than_a_constant_or_than_the_first_column_are_remarked_on(tmp_path):
    rng = np.random.default_rng(4)
    p = rng.random(300).round(2)
    y = (rng.random(300) < p).astype(int)
    path = tmp_path / "a.csv"
    pl.DataFrame({"p": p, "tame": 0.25 + p / 2, "wild": 1 - p, "won": y}).write_csv(path)
    given = ("measure", path, "--draws", 0, "--budget", 0.01)
    assert run(*given).stderr == ""
    answer = run(*given, "--forecast", "p", "--forecast", "tame", "--forecast", "wild")
    said = " ".join(answer.stderr.split())
    assert f"tame: worse than p, Brier score {((0.25 + p / 2 - y) ** 2).mean():.4f} instead of" in said
    assert "wild: worse than a constant, Brier score" in said
    assert "tame: worse than a constant" not in said
    assert " p: worse" not in said


def test_a_file_that_says_it_is_huge_is_refused_in_words(tmp_path):
    """Its header asks for a petabyte; there are no numbers behind it."""
    header, told = io.BytesIO(), {"descr": "<f8", "fortran_order": False, "shape": (1 << 47,)}
    np.lib.format.write_array_header_1_0(header, told)
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as file:
        for name in ("p", "y"):
            file.writestr(f"{name}.npy", header.getvalue())
    words = refused("measure", tmp_path / "huge.npz", "--forecast", "p", "--outcome", "y")
    assert "there is not enough memory" in words
