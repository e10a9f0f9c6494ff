"""The verbs `measure` and `combine`: the library's numbers in a table, as JSON, as pictures and files."""

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

from onlinecal import combine_forecasts, measures, recalibrate_stream
from onlinecal.cli.measure import ERROR_NAMES, QUICK_MEASURES
from onlinecal.measures import summary
from tests.commands import record, refused, run

ROUNDS = 400


def columns(*arguments):
    """What --json says about each column of forecasts."""
    return record("measure", *arguments)["columns"]


def written(path, **named):
    pl.DataFrame(named).write_csv(path)
    return path


@pytest.fixture(scope="module")
def history():
    """Rounded and raw forecasts, both bolder than the truth, and outcomes."""
    rng = np.random.default_rng(5)
    p = rng.random(ROUNDS)
    return {"rounded": np.round(p, 2), "raw": p, "won": (rng.random(ROUNDS) < 0.2 + 0.6 * p).astype(int)}


@pytest.fixture(scope="module")
def common(history, tmp_path_factory):
    path = written(tmp_path_factory.mktemp("measured") / "games.csv", **history)
    return [path, "--outcome", "won", "--forecast", "rounded"]


def expected(p, y, n_bins=15):
    """The library's answers, as sums."""
    distance, lower = measures.calibration_distance(p, y), measures.lower_calibration_distance(p, y)
    parts = measures.brier_decomposition(p, y, normalize=False)
    return {
        "rounds": len(y),
        "ones": int(y.sum()),
        "ece": measures.expected_calibration_error(p, y, normalize=False),
        "ece_bins": measures.expected_calibration_error(p, y, n_bins=n_bins, normalize=False),
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


@pytest.mark.parametrize("n_bins", [15, 4])
def test_json_has_the_numbers_of_the_library_as_sums(history, common, n_bins):
    (sums,) = columns(*common, "--bins", n_bins)
    assert set(sums.pop("chance")) == {*QUICK_MEASURES}
    assert sums.pop("forecast") == "rounded"
    assert sums == pytest.approx(expected(history["rounded"], history["won"], n_bins))


def lines_of(*arguments):
    """The lines of the table by their names."""
    shown = run("measure", *arguments).stdout.splitlines()
    lines = [line.strip() for line in shown if re.search(r"\S\s{2,}\S", line)]
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines)


def test_the_table_shows_sums_and_averages(history, common):
    numbers = expected(history["rounded"], history["won"], 4)
    lines = lines_of(*common, "--bins", 4)
    assert lines["rounds"] == str(ROUNDS)
    for name in set(ERROR_NAMES) - {"distance", "lower_distance"}:
        label = ERROR_NAMES[name].format("4 bins")
        average, total = re.fullmatch(r"([\d.]+) \(([\d.]+)\)", lines[label].split("  ")[0]).groups()
        assert float(total) == pytest.approx(numbers[name], abs=0.06)
        assert float(average) == pytest.approx(numbers[name] / ROUNDS, abs=6e-5)
    half, middle, twice = map(float, lines["½ smCE ≤ lower distance ≤ 2 smCE"].split(" ≤ "))
    assert half <= middle <= twice == pytest.approx(2 * numbers["smooth"] / ROUNDS, abs=6e-5)
    shown = lines["lower distance to calibration"].split(" (")[1].split(")")[0]
    ends = [float(end) for end in shown.split(" … ")]
    assert ends[0] == pytest.approx(numbers["lower_distance_low"], abs=0.06)
    assert ends[-1] == pytest.approx(numbers["lower_distance_high"], abs=0.06)


def test_what_packages_give_stands_below_and_in_the_record(tmp_path):
    p, y = [0.0, 0.3, 0.35, 0.7, 0.95, 1.0, 1.0], [0, 0, 1, 0, 1, 1, 0]
    path = written(tmp_path / "few.csv", forecast=p, outcome=y)
    asked = ["measure", path, "--draws", 0, "--as", "torchmetrics", "--as", "scikit-learn"]
    torch, scikit = record(*asked)["columns"][0]["as"]
    assert (torch["package"], torch["version"], torch["n_bins"]) == ("torchmetrics", "1.9.0", 15)
    assert torch["ece_bins"] == measures.expected_calibration_error(
        p, y, n_bins=15, convention="torchmetrics"
    )
    assert torch.keys() == {"package", "version", "n_bins", "ece_bins"}
    assert scikit.keys() == {"package", "version", "log_loss"}
    assert scikit["log_loss"] == pytest.approx(sklearn.metrics.log_loss(y, p))
    ten = measures.expected_calibration_error(p, y, n_bins=10, convention="torchmetrics")
    assert f"torchmetrics 1.9.0: ECE, bins=10 {ten:.6f}" in " ".join(run(*asked, "--bins", 10).stdout.split())
    # netcal takes ten bins by itself
    (netcal,) = record(*asked[:4], "--as", "netcal")["columns"][0]["as"]
    ten = measures.expected_calibration_error(p, y, n_bins=10, convention="netcal")
    assert (netcal["n_bins"], netcal["ece_bins"]) == (10, ten)
    unknown = refused("measure", path, "--as", "torchmetric")
    assert "--as must be the name of a package" in unknown
    assert "did you mean 'torchmetrics'? Known are: calzone-tool" in unknown
    shares = written(tmp_path / "shares.csv", forecast=p, outcome=[0.5, *y[1:]])
    message = "--as needs outcomes that are 0 or 1, but column 'outcome' has 0.5: other packages refuse"
    assert message in refused("measure", shares, "--as", "netcal")


def test_an_exact_distance_is_marked_and_a_bracket_shows_both_ends(common):
    quick = [*common[:3], "--forecast", "raw", "--budget", 1e-3]
    for given, form, is_exact in (
        ([*common, "--budget", "exact"], "= ", True),
        (quick, r"0\.\d{4} \([\d.]+ … [\d.]+\)", False),
    ):
        assert re.match(form, lines_of(*given)["distance to calibration"])
        (column,) = columns(*given)
        assert (column["distance_low"] == column["distance_high"]) == is_exact


def test_pictures_stand_beside_their_numbers(history, common, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = record("measure", *common, "--forecast", "raw", "--out", "results/measured")["pictures"]
    assert [Path(path).name for path in told] == ["results.csv", "reliability.png", "transport.png"]
    out, names = tmp_path / "results" / "measured", ("results", "transport", "reliability")
    assert len(list(out.iterdir())) == 7
    table, moves, shown = (pl.read_csv(out / f"{name}.csv") for name in names)
    assert table["forecast"].to_list() == ["rounded", "raw"]
    for row in table.to_dicts():
        name = row["forecast"]
        assert row["ece"] == pytest.approx(expected(history[name], history["won"])["ece"])
        assert moves.filter(forecaster=name)["moved"].sum() == pytest.approx(row["distance_high"])
        assert shown.filter(forecaster=name)["rounds"].sum() == ROUNDS


def test_usual_columns_are_found_and_one_that_is_named_as_forecasts_is_not_taken_for_the_outcomes(
    tmp_path, monkeypatch
):
    path = written(tmp_path / "a.csv", y=[0.5, 0.5, 0.2], won=[0, 1, 0])
    (found,) = columns(path, "--forecast", "y", "--draws", 0)
    assert (found["forecast"], found["ones"]) == ("y", 1)
    (found,) = columns("nba", "--draws", 0)
    assert (found["forecast"], found["rounds"]) == ("forecast", 8886)
    # forecasts that are calibrated already can be drawn, in earnest
    monkeypatch.undo()
    calibrated = written(tmp_path / "b.csv", p=[0.5, 0.5, 1, 0], won=[0, 1, 1, 0])
    assert lines_of(calibrated, "--out", tmp_path / "out")["distance to calibration"].startswith("= ")
    assert (tmp_path / "out" / "transport.png").stat().st_size > 3_000


def test_outcomes_between_zero_and_one_just_run_and_what_is_left_out_is_said(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(300).round(2)
    y = np.where(rng.random(300) < 0.2, 0.5, rng.random(300) < p)
    given = (written(tmp_path / "ties.csv", p=p, points=y), "--forecast", "p", "--outcome", "points")
    answer = run("measure", *given, "--budget", "exact", "--group", "p", "--out", tmp_path / "out")
    said = " ".join(answer.stderr.split())
    halves = f"points lies between 0 and 1 in {int((y == 0.5).sum())} of 300 rounds"
    for text in (halves, "NP-hard", "--group are left out"):
        assert text in said
    assert re.search(rf"sum of the outcomes +{y.sum():.1f}", answer.stdout)
    assert (tmp_path / "out" / "reliability.png").exists()
    (column,) = columns(*given)
    found = measures.calibration_distance(p, y)
    assert (column["distance_low"], column["distance_high"]) == (found.lower, found.upper)
    assert (column["ones"], column["brier_constant"]) == (y.sum(), pytest.approx(((y - y.mean()) ** 2).sum()))


def test_measures_that_contradict_each_other_fail(common, monkeypatch):
    for error, words in ((1000.0, "½ smCE 500 > lower distance"), (0.1, "> 2 smCE 0.2")):
        monkeypatch.setattr(summary, "smooth_error_of_counts", lambda _, e=error: e)
        shown, told = (run("measure", *common, "--draws", 0, *more) for more in ((), ("--json",)))
        assert shown.exit_code == told.exit_code == 1
        assert re.search(rf"BROKEN: .*{re.escape(words)}.* \(rounded\)", shown.stdout)
        assert words in json.loads(told.stdout)["broken"][0]


def test_what_chance_would_score_stands_beside_it_also_where_rows_share_an_outcome(tmp_path):
    p, y = np.array([0.25, 0.25, 0.5, 1]), np.array([1, 0, 1, 1])
    path = written(tmp_path / "a.csv", p=p, won=y, match=["a", "a", "b", "b"])
    for options, groups in (((), None), (("--together", "match"), [0, 0, 1, 1])):
        (column,) = columns(path, "--draws", 9, *options)
        assert set(column["chance"]) >= {"lower_distance", "distance", "brier"}
        for name, found in column["chance"].items():
            chance = measures.chance_level(p, name, y, n_draws=9, normalize=False, groups=groups)
            assert (found["mean"], found["p_value"]) == (chance.mean, chance.p_value)
            assert list(found["quantiles"].values()) == list(chance.quantiles.values())
    shown = lines_of(path, "--draws", 9)["Brier score"]
    assert re.fullmatch(r"0\.2188 \(0\.88\) +0\.1562 \(0\.62\) +[01].*", shown)
    long = written(tmp_path / "b.csv", p=p.repeat(50), won=y.repeat(50), match=np.arange(4).repeat(50))
    for options, is_asked in (((), True), (("--together", "match"), False)):
        assert ("do rows share an outcome" in run("measure", long, "--draws", 0, *options).stderr) == is_asked


def test_columns_stand_side_by_side_and_those_worse_than_a_constant_or_than_the_first_are_named(tmp_path):
    rng = np.random.default_rng(4)
    p = rng.random(300).round(2)
    y = (rng.random(300) < p).astype(int)
    alone = (written(tmp_path / "a.csv", p=p, tame=0.25 + p / 2, wild=1 - p, won=y), "--budget", 0.01)
    given = (*alone, "--forecast", "p", "--forecast", "tame", "--forecast", "wild", "--draws")
    for draws, more in ((1, ["if", "calibrated", "p-value"]), (0, [])):
        answer = run("measure", *given, draws)
        assert answer.stdout.splitlines()[2].split() == ["p", *more, "tame", *more, "wild", *more]
    said = " ".join(answer.stderr.split())
    assert f"tame: worse than p, Brier score {((0.25 + p / 2 - y) ** 2).mean():.4f} instead of" in said
    assert "wild: worse than a constant, Brier score" in said
    assert "tame: worse than a constant" not in said
    assert " p: worse" not in said
    assert run("measure", *alone, "--draws", 0).stderr == ""


def test_a_file_that_says_it_is_huge_is_refused_in_words(tmp_path):
    """Its header asks for a petabyte; there are no numbers behind it."""
    header, told = io.BytesIO(), {"descr": "<f8", "fortran_order": False, "shape": (1 << 47,)}
    np.lib.format.write_array_header_1_0(header, told)
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as file:
        for name in ("p", "y"):
            file.writestr(f"{name}.npy", header.getvalue())
    words = refused("measure", tmp_path / "huge.npz", "--forecast", "p", "--outcome", "y")
    assert "there is not enough memory" in words


DAY = np.arange(ROUNDS) // 10


@pytest.fixture(scope="module")
def models_and_outcomes():
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(2, ROUNDS))
    won = (rng.random(ROUNDS) < 1 / (1 + np.exp(-one - other))).astype(int)
    silent = np.arange(ROUNDS) % 5 == 2
    return {"one": 1 / (1 + np.exp(-one)), "other": np.where(silent, np.nan, 1 / (1 + np.exp(-other)))}, won


@pytest.fixture(scope="module")
def two_models(models_and_outcomes, tmp_path_factory):
    models, won = models_and_outcomes
    frame = pl.DataFrame({**models, "won": won, "day": DAY}).with_columns(pl.col("other").fill_nan(None))
    frame.write_csv(path := tmp_path_factory.mktemp("combined") / "games.csv")
    return [path, "--outcome", "won", "--forecast", "one", "--forecast", "other"]


@pytest.mark.parametrize("options", ["", "--together day", "--settled-at day --sort day"])
def test_combined_forecasts_are_the_librarys_answer(two_models, models_and_outcomes, tmp_path, options):
    result = combine_forecasts(*models_and_outcomes, settled_at=DAY * 10 + 9 if options else None)
    given = [*two_models, *options.split()]
    found, report = record("combine", *given, "--out", tmp_path), result.report()
    assert found["certificate"] == result.certificate[-1]
    assert found["brier_out"] == pytest.approx(report.brier_out)
    assert found["models"]["other"]["n_rounds"] == ROUNDS - ROUNDS // 5
    assert found["models"]["one"]["brier_out"] == pytest.approx(report.models["one"].brier_out)
    written = pl.read_parquet(tmp_path / "combined.parquet")
    assert np.array_equal(written["combined"].to_numpy(), result.probabilities)
    assert np.array_equal(written["weight_one"].to_numpy(), result.weights[:, 0])
    files = {"combined.parquet", "report.csv", "weights.png", "weights.svg", "weights.csv"}
    assert {path.name for path in tmp_path.iterdir()} == files
    shown = run("combine", *given).stdout
    for text in ("one", "other", "all together", "320", "distance to calibration per row, 400 rows"):
        assert text in shown


@pytest.mark.parametrize("verb", ["column", "combine"])
def test_what_looks_wrong_in_a_column_is_told_once_and_in_words(models_and_outcomes, tmp_path, verb):
    """Of outcomes that are all the same both verbs say so; what the report says anyway is not said twice."""
    models, _ = models_and_outcomes
    pl.DataFrame({"one": models["one"], "other": models["one"] ** 2, "won": [1] * ROUNDS}).write_csv(
        path := tmp_path / "won.csv"
    )
    both = ["--forecast", "other"] if verb == "combine" else []
    done = run(verb, path, "--outcome", "won", "--forecast", "one", *both)
    [line] = done.stderr.splitlines()
    assert line == "onlinecal: warning: won is 1 in all 400 rounds: is it the column of outcomes?"
    assert (done.stdout.count("worse than a constant") == 1) == (verb == "column")


@pytest.mark.parametrize("timed", [False, True])
def test_columns_go_on_from_files_with_new_rows_and_late_outcomes(models_and_outcomes, tmp_path, timed):
    (models, won), rows = models_and_outcomes, np.arange(ROUNDS)
    frame = pl.DataFrame({**models, "won": won, "day": DAY, "id": rows, "known": DAY + 1})
    frame = frame.with_columns(pl.col("other").fill_nan(None))
    told = pl.when(pl.col("id") < 90).then(pl.col("won")).alias("won")
    frame[:100].with_columns(told).write_csv(tmp_path / "first.csv")
    frame[60:].write_csv(tmp_path / "second.csv")
    given = ["--outcome", "won", "--id", "id", *(["--sort", "day", "--settled-at", "known"] if timed else ())]
    at = {"settled_at": np.where((rows >= 90) & (rows < 100), 99, rows)}
    if timed:
        at = {"settled_at": DAY + 1, "times": DAY}
    for verb, forecasts, name, whole in (
        ("column", ["one"], "recalibrated", recalibrate_stream(models["one"], won, missing="later", **at)),
        ("combine", ["one", "other"], "combined", combine_forecasts(models, won, missing="later", **at)),
    ):
        options = [*given, "--state", tmp_path / verb, *(f"--forecast={one}" for one in forecasts)]
        first = record(verb, tmp_path / "first.csv", *options)
        assert (first["n_rounds"], first["n_open"]) == (90, 10)
        # the second time nothing is new
        for _ in range(2):
            second = record(verb, tmp_path / "second.csv", *options, "--out", tmp_path / f"{verb} out")
            assert second["certificate"] == whole.certificate[-1]
            assert second["brier_out"] == whole.report().brier_out
            path = next((tmp_path / f"{verb} out").glob("*.parquet"))
            assert np.array_equal(pl.read_parquet(path)[name].to_numpy(), whole.probabilities[60:])
        state = (tmp_path / verb).read_bytes()
        for changed in ({"one": pl.lit(0.5)}, {"won": 1 - pl.col("won")}):
            frame[60:].with_columns(**changed).write_csv(tmp_path / "changed.csv")
            assert "must be what it was before" in refused(verb, tmp_path / "changed.csv", *options)
        assert (tmp_path / verb).read_bytes() == state
