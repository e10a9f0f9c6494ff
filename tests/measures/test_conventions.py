"""Conventions of other packages: what they give is what the packages gave, as `make peers` recorded it."""

import ast
import json
import math
import re

import numpy as np
import pytest

from onlinecal import (
    classwise_calibration_error,
    confidence_calibration_error,
    cumulative_calibration_error,
    expected_calibration_error,
    smooth_calibration_error,
    top_label_calibration_error,
)
from onlinecal.measures.conventions import CONVENTIONS, OURS, divided_by_width
from onlinecal.measures.scores import event_scores
from onlinecal.measures.summary import package_figures
from tests import ROOT
from tests.peers.__main__ import moved, written
from tests.peers.compare import RECORD, TOLERANCE, distance, ours, read_record
from tests.peers.inputs import random_input

FILE = read_record()
PAGE = (ROOT / "docs/in-their-numbers.md").read_text(encoding="utf-8")
BINNED = [name for name, one in CONVENTIONS.items() if one.event]
SOME = random_input(3)
TABLE = np.array(SOME["probabilities"])
ERRORS = {
    "event": (expected_calibration_error, SOME["forecasts"], SOME["outcomes"]),
    "confidence": (confidence_calibration_error, TABLE, SOME["labels"]),
    "classwise": (classwise_calibration_error, TABLE, SOME["labels"]),
    "top_label": (top_label_calibration_error, TABLE, SOME["labels"]),
}


@pytest.mark.parametrize("package", FILE["packages"])
def test_a_convention_gives_the_recorded_figures_of_its_package(package):
    told = 0
    for given, figures in zip(FILE["inputs"], FILE["packages"][package]["figures"], strict=True):
        for measure, theirs in figures.items():
            assert distance(ours(package, measure, given), theirs) <= TOLERANCE, (measure, given)
            told += 1
    assert told >= 5 or FILE["packages"][package]["apart"]


def test_the_record_has_every_measure_of_every_convention_at_its_version():
    # R writes the last part of a Debian version with a point
    recorded = {name: one["version"] for name, one in FILE["packages"].items()}
    assert {name: one.version for name, one in CONVENTIONS.items()}.items() <= recorded.items()
    for name, one in CONVENTIONS.items():
        measures = set().union(*FILE["packages"][name]["figures"])
        kinds = {kind for kind in ERRORS if getattr(one, kind)} | (
            {"log_loss"} if one.margin is not None else set()
        )
        assert kinds == measures - {"brier"}, name


def test_the_packages_that_are_installed_for_the_record_are_those_of_the_record():
    lines = (ROOT / "tests/peers/requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, one in FILE["packages"].items():
        assert name.startswith("r-cran-") or pinned[name] == one["version"]


def test_packages_differ_on_the_example_of_the_page():
    example = FILE["inputs"][0]
    found = {name: round(ours(name, "event", example), 6) for name in BINNED}
    assert (
        len(
            {
                *found.values(),
                round(expected_calibration_error(example["forecasts"], example["outcomes"], n_bins=10), 6),
            }
        )
        == 7
    )


@pytest.mark.parametrize("name", BINNED)
@pytest.mark.parametrize("n_bins", [2, 3, 7, 10, 49, 100])
def test_every_forecast_is_in_one_bin(name, n_bins):
    binning = CONVENTIONS[name].event
    ends = np.concatenate([ends for ends in binning.intervals(n_bins)])
    ends = ends[np.isfinite(ends)]
    values = np.concatenate(
        [ends, np.nextafter(ends, -1.0), np.nextafter(ends, 2.0), np.arange(n_bins) / n_bins]
    )
    values = np.unique(values[(values >= 0.0) & (values <= 1.0)])
    places, numbers = binning.members(values, n_bins)
    # forecasts of 0 are in none
    left_out = 1 if name == "calzone-tool" else 0
    assert places.tolist() == list(range(left_out, len(values)))
    assert (np.diff(numbers) >= 0).all()


def test_ends_of_bins_are_where_the_packages_have_them():
    def same_bin(name, first, second, n_bins=10):
        binning = CONVENTIONS[name].event if name else OURS
        return np.ptp(binning.members(np.array([first, second]), n_bins)[1]) == 0

    assert [same_bin(name, 0.3, 0.35) for name in (None, "netcal", "relplot")] == [True, False, False]
    assert [same_bin(name, 0.5, 0.55) for name in (None, "netcal", "pycalib")] == [True, True, False]
    assert [same_bin(name, 0.95, 1.0) for name in (None, "torchmetrics", "relplot", "mcgrad")] == [
        True,
        False,
        False,
        True,
    ]
    assert [same_bin(name, 0.0, 0.05) for name in (None, "mapie", "uncertainty-calibration")] == [
        True,
        False,
        True,
    ]
    # two edges are one bin
    assert same_bin("mapie", 0.01, 1.0, 2)
    # 0.29 is the end of a bin of ours, and in float32 of one of torch's
    assert [same_bin(name, 0.2899999, 0.29, 100) for name in (None, "torchmetrics")] == [False, False]


def test_a_quotient_that_is_cut_to_a_whole_number_is_told_by_ends_of_bins():
    rng = np.random.default_rng(5)
    for n_bins in range(1, 200):
        values = np.unique(
            [*rng.random(50), *(np.arange(n_bins + 1) / n_bins), *(np.arange(n_bins + 1) * (1.0 / n_bins))]
        )
        values = values[values <= 1.0]
        lower, _ = divided_by_width(n_bins)
        found = np.searchsorted(lower, values, side="right") - 1
        assert found.tolist() == (values / (1.0 / n_bins)).astype(int).tolist()


@pytest.mark.parametrize("kind", ERRORS)
def test_weights_are_rows_written_out_in_every_convention(kind):
    error, rows, came = ERRORS[kind]
    rows, came = np.array(rows), np.array(came)
    weights = np.arange(len(came)) % 3
    for name, one in CONVENTIONS.items():
        if getattr(one, kind) is None:
            continue
        written_out = error(rows.repeat(weights, axis=0), came.repeat(weights), n_bins=10, convention=name)
        assert error(rows, came, n_bins=10, sample_weight=weights, convention=name) == pytest.approx(
            written_out
        )


def test_without_a_number_of_bins_it_is_the_package_own():
    _, p, y = ERRORS["event"]
    for name in BINNED:
        own = expected_calibration_error(p, y, n_bins=CONVENTIONS[name].n_bins, convention=name)
        assert expected_calibration_error(p, y, convention=name) == own
    assert expected_calibration_error(p, y, convention="mcgrad") == expected_calibration_error(
        p, y, n_bins=40, convention="netcal"
    )


def test_errors_of_classes_are_averaged_where_a_package_does():
    # no end of a bin is near these
    rows, labels = [[0.3, 0.6, 0.1], [0.6, 0.3, 0.1], [0.1, 0.6, 0.3]], [1, 1, 0]
    for name in ("pycalib", "uncertainty-calibration"):
        average = classwise_calibration_error(rows, labels, n_bins=4, convention=name)
        assert 3 * average == pytest.approx(classwise_calibration_error(rows, labels, n_bins=4))


def test_of_two_columns_netcal_measures_the_second():
    rows, labels = np.array([[0.875, 0.125], [0.375, 0.625]]), [0, 1]
    assert confidence_calibration_error(
        rows, labels, n_bins=10, convention="netcal"
    ) == expected_calibration_error(rows[:, 1], labels, n_bins=10)


def test_forecasts_of_zero_alone_have_no_error_where_they_are_in_no_bin():
    with pytest.raises(ValueError, match="forecasts must not all be 0 with this convention"):
        expected_calibration_error([0.0, 0.0], [0, 1], convention="calzone-tool")
    assert math.isnan(package_figures("calzone-tool", np.zeros(2), np.array([0, 1], np.uint8)).ece_bins)
    assert (
        expected_calibration_error([0.0, 0.0], [0, 1], n_bins=10, normalize=False, convention="calzone-tool")
        == 0.0
    )


def test_a_log_loss_is_as_large_as_a_package_lets_it_be():
    p, y = np.array([1.0]), np.array([0], np.uint8)
    largest = {
        name: package_figures(name, p, y).log_loss
        for name in ("scikit-learn", "river", "scoringrules", "netcal")
    }
    assert largest["scikit-learn"] == pytest.approx(36.0437, abs=1e-4)
    # 1 - 1e-15 is not a number of float64, and so this is not -log(1e-15)
    assert largest["river"] == pytest.approx(34.5396, abs=1e-4)
    assert largest["scoringrules"] == math.inf
    assert largest["netcal"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"convention": "torch"},
            "convention must be the name of a package that is known, got 'torch'.*netcal",
        ),
        ({"convention": "river"}, "convention must be .*calzone-tool, mapie.*, got 'river'"),
        ({"convention": ["mapie"]}, r"convention must be the name of a package .*, got \['mapie'\]"),
        (
            {"convention": "mapie", "n_bins": 1},
            "n_bins must be at least 2 with convention 'mapie'",
        ),
        ({"convention": "netcal", "n_bins": 0}, "bins must be"),
    ],
)
def test_what_is_no_convention_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error([0.5], [1], **arguments)


HEADINGS = {
    "one event": "event",
    "largest": "confidence",
    "each class": "classwise",
    "top label": "top_label",
}


def rows_of_page():
    """Of the tables of the page: the cells of each row by the headings of their columns."""
    headings = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells or not headings:
            headings = cells
        elif not set(line) <= set("|-"):
            yield dict(zip(headings, cells, strict=True))


def test_the_page_has_the_figures_of_the_record():
    told = 0
    for row in rows_of_page():
        package = row["package"]
        if "version" not in row or package == "onlinecal":
            continue
        recorded = FILE["packages"][package]
        assert row["version"] == recorded["version"]
        figures = recorded["figures"][0]
        if "by itself" in row:
            assert int(row["by itself"]) == CONVENTIONS[package].n_bins
            shown = {kind: row[name] for name, kind in HEADINGS.items() if row[name]}
            assert shown.keys() == figures.keys() - {"brier", "log_loss"}
        elif "log loss" in row:
            shown = {"log_loss": row["log loss"].replace("∞", "inf")}
        else:
            figures, shown = recorded["apart"], {row["function"]: row["figure"]}
        for measure, text in shown.items():
            assert distance(float(text), round(figures[measure], 4)) < 1e-9, (package, measure)
            told += 1
    assert told >= 35
    single = FILE["packages"]["scikit-learn"]["apart"]["log_loss"]
    assert f"as float32\ncost {single:.4f}." in PAGE
    assert all(
        f"{one['figures'][0]['brier']:.4f}" == "0.3021" and one["version"] in PAGE
        for one in FILE["packages"].values()
        if "brier" in one["figures"][0]
    )


def test_the_page_has_the_example_of_the_record_and_our_figures_of_it():
    example = FILE["inputs"][0]
    values = dict(re.findall(r"^(p|y|rows|labels) = (\[.*?\n?\])(?:  # fmt: skip)?$", PAGE, re.M | re.S))
    names = {"p": "forecasts", "y": "outcomes", "rows": "probabilities", "labels": "labels"}
    assert {names[key]: ast.literal_eval(text) for key, text in values.items()} == {
        name: example[name] for name in names.values()
    }
    first, _, loss = (row for row in rows_of_page() if row["package"] == "onlinecal")
    p, y, table, labels = (np.array(example[name]) for name in names.values())
    found = [expected_calibration_error(p, y, n_bins=10)]
    found += [ERRORS[kind][0](table, labels, n_bins=10) for kind in ("confidence", "classwise", "top_label")]
    assert [round(value, 4) for value in found] == [float(first[name]) for name in HEADINGS]
    assert float(loss["log loss"]) == round(event_scores(p, y).log_loss, 4)
    assert f", {cumulative_calibration_error(p, y).error:.1f}, times T".replace("0.3", ".3") in PAGE
    assert (
        f"`smooth_calibration_error`, .{smooth_calibration_error(p, y):.4f}, is".replace(".0.", ".") in PAGE
    )


def test_a_figure_that_moved_is_told():
    packages = FILE["packages"]
    assert moved(packages, packages) == []
    other = json.loads(json.dumps({"netcal": packages["netcal"]}))
    other["netcal"]["version"] = "9"
    other["netcal"]["figures"][1]["event"] += 1e-5
    first, second = moved(packages, other)
    assert "1.4.0 was recorded, 9 was run" in first
    assert "netcal, input 1: event" in second
    assert json.loads(written(FILE)) == FILE
    assert written(FILE) == RECORD.read_text(encoding="utf-8")
