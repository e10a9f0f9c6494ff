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
from onlinecal.cli.measure import BY_CHANCE
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
def table(history, tmp_path_factory):
    rounded, raw, outcomes = history
    path = tmp_path_factory.mktemp("measured") / "games.csv"
    day = np.random.default_rng(6).permutation(ROUNDS)
    pl.DataFrame({"day": day, "rounded": rounded, "raw": raw, "won": outcomes}).write_csv(path)
    return path


@pytest.fixture
def common(table):
    return [table, "--outcome", "won", "--forecast", "rounded"]


def expected(p, y, bins=15, **options):
    """The library's answers, as sums."""
    distance = measures.calibration_distance(p, y, **options)
    lower = measures.lower_calibration_distance(p, y)
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
        "miscalibration": measures.brier_decomposition(p, y, normalize=False).miscalibration,
        "discrimination": measures.brier_decomposition(p, y, normalize=False).discrimination,
        "log_loss": sklearn.metrics.log_loss(y, np.clip(p, 1e-15, 1 - 1e-15), normalize=False),
        "log_loss_constant": sklearn.metrics.log_loss(y, np.full(len(y), y.mean()), normalize=False),
    }


def test_json_has_the_numbers_of_the_library(history, common):
    rounded, _, outcomes = history
    (column,) = columns(*common)
    assert column.pop("forecast") == "rounded"
    assert set(column.pop("chance")) == {*BY_CHANCE}
    assert column == pytest.approx(expected(rounded, outcomes))


def test_the_table_shows_sums_and_averages(history, common):
    rounded, _, outcomes = history
    numbers = expected(rounded, outcomes)
    lines = dict(
        re.split(r"\s{2,}", line.strip(), maxsplit=1)
        for line in run("measure", *common).stdout.splitlines()
        if re.search(r"\S\s{2,}\S", line)
    )
    assert lines["rounds"] == str(ROUNDS)
    for label, name in (
        ("ECE by exact value", "ece"),
        ("ECE in 15 bins", "ece_bins"),
        ("cumulative calibration error (ECCE-R)", "cumulative"),
        ("averaged two-bin error (ATB)", "two_bin"),
        ("smooth calibration error (smCE)", "smooth"),
        ("Brier score", "brier"),
        ("+ Brier score of the best constant", "brier_constant"),
        ("= miscalibration", "miscalibration"),
        ("log loss", "log_loss"),
    ):
        average, total = re.fullmatch(r"([\d.]+) \(([\d.]+)\)", lines[label].split("  ")[0]).groups()
        assert float(total) == pytest.approx(numbers[name], abs=0.06)
        assert float(average) == pytest.approx(numbers[name] / ROUNDS, abs=6e-5)
    half, middle, twice = map(float, lines["½ smCE ≤ lower distance ≤ 2 smCE"].split(" ≤ "))
    assert half <= middle <= twice
    assert twice == pytest.approx(2 * numbers["smooth"] / ROUNDS, abs=6e-5)
    shown = lines["lower distance to calibration"].split(" (")[1].split(")")[0]
    ends = [float(end) for end in shown.split(" … ")]
    low, high = ends[0], ends[-1]
    assert low == pytest.approx(numbers["lower_distance_low"], abs=0.06)
    assert high == pytest.approx(numbers["lower_distance_high"], abs=0.06)


def test_an_exact_distance_is_marked(common):
    assert re.search(r"distance to calibration +=", run("measure", *common, "--budget", "exact").stdout)
    (column,) = columns(*common, "--budget", "exact")
    assert column["distance_low"] == column["distance_high"]


def test_a_bracket_shows_both_ends(table):
    answer = run("measure", table, "--forecast", "raw", "--outcome", "won", "--budget", 1e-3)
    assert re.search(r"\n distance to calibration +0\.\d{4} \([\d.]+ … [\d.]+\)", answer.stdout)
    (column,) = columns(table, "--forecast", "raw", "--outcome", "won", "--budget", 1e-3)
    assert column["distance_low"] < column["distance_high"]


def test_averages_are_the_sums_over_rounds(common):
    (sums,), (averages,) = columns(*common), columns(*common, "--average")
    for name in set(sums) - {"forecast", "rounds", "ones", "chance"}:
        assert averages[name] == pytest.approx(sums[name] / ROUNDS)
    assert averages["rounds"] == ROUNDS
    told = run("measure", *common, "--average").stdout
    assert f"{sums['ece'] / ROUNDS:.4f}" in told
    by_chance, mean = sums["chance"]["smooth"], averages["chance"]["smooth"]["mean"]
    assert mean == pytest.approx(by_chance["mean"] / ROUNDS)
    assert averages["chance"]["smooth"]["p_value"] == by_chance["p_value"]
    assert "(" not in told.split("ECE by exact value")[1].split("\n")[0]


def test_the_number_of_bins_can_be_chosen(history, common):
    rounded, _, outcomes = history
    (column,) = columns(*common, "--bins", 4)
    assert column["ece_bins"] == pytest.approx(expected(rounded, outcomes, 4)["ece_bins"])
    assert "ECE in 4 bins" in run("measure", *common, "--bins", 4).stdout


def test_columns_stand_side_by_side(history, common):
    rounded, raw, outcomes = history
    first, second = columns(*common, "--forecast", "raw", "--draws", 0)
    assert (first["forecast"], second["forecast"]) == ("rounded", "raw")
    for one, p in ((first, rounded), (second, raw)):
        assert one["ece"] == pytest.approx(expected(p, outcomes)["ece"])
    heading = run("measure", *common, "--forecast", "raw").stdout.splitlines()[2]
    assert heading.split() == [
        "rounded",
        *["if", "calibrated", "p-value", "raw", "if", "calibrated", "p-value"],
    ]
    heading = run("measure", *common, "--forecast", "raw", "--draws", 0).stdout.splitlines()[2]
    assert heading.split() == ["rounded", "raw"]


def test_the_packages_own_games_are_measured_by_name():
    (found,) = columns("nba", "--draws", 0)
    assert (found["forecast"], found["rounds"]) == ("forecast", 8886)
    assert found["brier"] / 8886 == pytest.approx(0.2147, abs=1e-4)
    assert "no such file: nbaa" in refused("measure", "nbaa", "--forecast", "p", "--outcome", "y")


def test_pictures_stand_beside_their_numbers(history, common, tmp_path):
    out = tmp_path / "out"
    answer = run("measure", *common, "--forecast", "raw", "--out", out)
    assert answer.exit_code == 0
    names = ["reliability", "transport"]
    written = {f"{name}.{kind}" for name in names for kind in ("png", "svg", "csv")} | {"results.csv"}
    assert {path.name for path in out.iterdir()} == written
    for name in names:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n")
        assert (out / f"{name}.png").stat().st_size > 20_000
        assert f"{name}.png" in answer.stdout
    rounded, _, outcomes = history
    reliability = pl.read_csv(out / "reliability.csv").filter(pl.col("forecaster") == "rounded")
    assert reliability["rounds"].sum() == ROUNDS
    assert (reliability["frequency"] * reliability["rounds"]).sum() == pytest.approx(outcomes.sum())
    results = pl.read_csv(out / "results.csv")
    for row in results.to_dicts():
        moves = pl.read_csv(out / "transport.csv").filter(pl.col("forecaster") == row["forecast"])
        assert moves["rounds"].sum() == ROUNDS
        assert moves["moved"].sum() == pytest.approx(row["distance_high"])
        up = moves.filter(pl.col("value") > pl.col("forecast"))["moved"].sum()
        net = pl.read_csv(common[0])[row["forecast"]].sum() - outcomes.sum()
        assert row["distance_high"] - 2 * up == pytest.approx(net)
        assert (moves["forecast"] * moves["rounds"]).sum() == pytest.approx(
            pl.read_csv(common[0])[row["forecast"]].sum()
        )
    assert results["ece"].to_list()[0] == pytest.approx(expected(rounded, outcomes)["ece"])


def test_plot_has_a_folder_of_its_own(common, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run("measure", *common, "--out", "results/measure", "--json")
    assert [Path(path).name for path in json.loads(answer.stdout)["pictures"]] == [
        "results.csv", "reliability.png", "transport.png",
    ]  # fmt: skip
    assert (tmp_path / "results" / "measure" / "transport.png").exists()


def test_forecasts_that_are_calibrated_already_can_be_drawn(tmp_path):
    path = tmp_path / "calibrated.csv"
    path.write_text("p,won\n0.5,0\n0.5,1\n1,1\n0,0\n")
    answer = run("measure", path, "--forecast", "p", "--outcome", "won", "--out", tmp_path / "out")
    assert answer.exit_code == 0
    assert re.search(r"\n distance to calibration +=", answer.stdout)
    assert (tmp_path / "out" / "transport.png").stat().st_size > 10_000


def test_outcomes_between_zero_and_one_just_run_and_what_is_left_out_is_said(tmp_path):
    path = tmp_path / "ties.csv"
    rng = np.random.default_rng(0)
    p = rng.random(300).round(2)
    y = np.where(rng.random(300) < 0.2, 0.5, rng.random(300) < p)
    path.write_text("p,points\n" + "".join(f"{a},{b:g}\n" for a, b in zip(p, y, strict=True)))
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
    assert column["distance_low"] < column["distance_high"]
    found = measures.calibration_distance(p, y)
    assert (column["distance_low"], column["distance_high"]) == (found.lower, found.upper)
    assert column["brier_constant"] == pytest.approx(((y - y.mean()) ** 2).sum())


def test_measures_that_contradict_each_other_fail(common, monkeypatch):
    monkeypatch.setattr(summary, "smooth_calibration_error", lambda p, y, normalize: 1000.0)
    answer = run("measure", *common)
    assert answer.exit_code == 1
    assert "BROKEN: ½ smCE 500 > lower distance" in answer.stdout
    assert "(rounded)" in answer.stdout
    monkeypatch.setattr(summary, "smooth_calibration_error", lambda p, y, normalize: 0.1)
    answer = run("measure", *common, "--json")
    assert answer.exit_code == 1
    assert "> 2 smCE 0.2" in json.loads(answer.stdout)["broken"][0]


GOOD = ["games.csv", "--forecast", "p", "--outcome", "won"]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("p,won\n0.5,1\n", ["nowhere.csv", *GOOD[1:]], "no such file: nowhere.csv"),
        ("p,won\n0.5,1\n", GOOD[1:], "Missing argument"),
        ("p,a\n0.5,1\n", GOOD[:3], "'--outcome', the column of outcomes. games.csv has the columns p, a"),
        (
            "a,won\n0.5,1\n",
            [GOOD[0], *GOOD[3:]],
            "Missing option '--forecast', a column of forecasts. games.csv has",
        ),
        ("p,won\n0.5,1\n", [*GOOD, "--forecast", "p"], "a forecast is listed twice: p, p"),
        ("p,won\n0.5,1\n", [*GOOD, "--forecast", "q"], "has no column 'q'"),
        ("p,won\n0.5,1\n", [*GOOD[:4], "wn"], "has no column 'wn'; did you mean 'won'?"),
        ("p,won\n0.5,1\n", [*GOOD, "--together", "day"], "has no column 'day'"),
        ("p,won\n0.5,1\n", [*GOOD, "--budget", "0"], "--budget must be a positive number or exact, got '0'"),
        ("p,won\n0.5,1\n", [*GOOD, "--budget", "all"], "--budget must be a positive number or exact"),
        ("p,won\n0.5,1\n", [*GOOD, "--bins", "0"], "--bins"),
        ("p,won\n0.5,1\n0.5,2\n", GOOD, "must be boolean or lie in [0, 1], got '2' at row 1"),
        ("p,won\n0.5,1\n,0\n", GOOD, "must lie in [0, 1], got nothing at row 1"),
        ("p,won\nnan,1\n", GOOD, "must lie in [0, 1], got 'nan' at row 0"),
        ("p,q,won\n0.5,1.5,1\n", [*GOOD, "--forecast", "q"], "must lie in [0, 1], got '1.5' at row 0"),
        ("p,won\n", GOOD, "holds no rounds"),
        ("", GOOD, "holds no rounds"),
    ],
)
def test_wrong_requests_get_one_line_and_write_nothing(tmp_path, monkeypatch, text, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "games.csv").write_text(text)
    assert words in refused("measure", *arguments, "--out", "out")
    assert [path.name for path in tmp_path.iterdir()] == ["games.csv"]


def test_a_file_is_not_a_folder_to_write_into(common, tmp_path):
    (tmp_path / "out").write_text("mine")
    assert "is a file, not a folder" in refused("measure", *common, "--out", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_what_chance_would_score_stands_beside_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("p,won\n0.25,1\n0.25,0\n0.5,1\n1,1\n")
    given = (path, "--forecast", "p", "--outcome", "won", "--draws", 9)
    (column,) = columns(*given)
    for name, found in column["chance"].items():
        chance = measures.chance_level([0.25, 0.25, 0.5, 1], name, [1, 0, 1, 1], 9, normalize=False)
        assert (found["mean"], found["p_value"]) == (chance.mean, chance.p_value)
        assert list(found["quantiles"].values()) == list(chance.quantiles.values())
    assert set(column["chance"]) >= {"lower_distance", "distance", "brier"}
    assert re.search(
        r"\n Brier score +0.2188 \(0.88\) +0.1562 \(0.62\) +[01].*\n", run("measure", *given).stdout
    )


def test_rows_that_share_an_outcome_are_noticed_and_can_be_named(tmp_path):
    rng = np.random.default_rng(3)
    match = np.repeat(np.arange(60), 50)
    p = np.repeat(rng.random(60), 50)
    y = np.repeat(rng.random(60) < p[::50], 50).astype(int)
    path = tmp_path / "matches.csv"
    pl.DataFrame({"p": p, "won": y, "match": [f"m{one}" for one in match]}).write_csv(path)
    given = (path, "--forecast", "p", "--outcome", "won", "--budget", 0.01)
    answer = run("measure", *given, "--json")
    assert "do rows share an outcome" in answer.stderr
    (alone,) = json.loads(answer.stdout)["columns"]
    answer = run("measure", *given, "--together", "match", "--json")
    assert answer.stderr == ""
    (together,) = json.loads(answer.stdout)["columns"]
    assert alone["chance"]["smooth"]["p_value"] == 1 / 200
    assert together["chance"]["smooth"]["p_value"] > 0.05
    assert together["chance"]["brier"]["mean"] == alone["chance"]["brier"]["mean"]
    path.write_text("p,won,match\n0.5,1,\n")
    assert "no value at row 0" in run("measure", *given, "--together", "match").stderr


def test_forecasts_worse_than_a_constant_or_than_the_first_column_are_remarked_on(tmp_path):
    rng = np.random.default_rng(4)
    p = rng.random(300).round(2)
    y = (rng.random(300) < p).astype(int)
    path = tmp_path / "a.csv"
    pl.DataFrame({"p": p, "tame": 0.25 + p / 2, "wild": 1 - p, "won": y}).write_csv(path)
    good = run("measure", path, "--forecast", "p", "--outcome", "won", "--draws", 0, "--budget", 0.01)
    assert good.stderr == ""
    columns = "--forecast p --forecast tame --forecast wild --outcome won"
    answer = run("measure", path, *columns.split(), "--draws", 0)
    said = " ".join(answer.stderr.split())
    assert f"tame: worse than p, Brier score {((0.25 + p / 2 - y) ** 2).mean():.4f} instead of" in said
    assert "wild: worse than a constant, Brier score" in said
    assert "tame: worse than a constant" not in said
    assert " p: worse" not in said


def test_a_file_that_says_it_is_huge_is_refused_in_words(tmp_path):
    """Its header asks for a petabyte; there are no numbers behind it."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 47,)}
    )
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as file:
        for name in ("p", "y"):
            file.writestr(f"{name}.npy", header.getvalue())
    told = refused("measure", tmp_path / "huge.npz", "--forecast", "p", "--outcome", "y")
    assert "there is not enough memory" in told
