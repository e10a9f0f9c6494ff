"""Pictures of one's own arrays: the numbers are right, the Axes come back, nothing global is changed."""

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import binomtest

from onlinecal import AlmostOneStepAhead, calibration_distance, plots
from onlinecal.plots.style import OURS, wilson_interval

T = 200
RNG = np.random.default_rng(3)
FORECASTS = RNG.random(T)
OUTCOMES = (RNG.random(T) < 0.2 + 0.5 * FORECASTS).astype(int)
PROBABILITIES = RNG.dirichlet((1, 1, 1), T)
LABELS = RNG.integers(0, 3, T)
GROUPS = np.column_stack([FORECASTS < 0.3, OUTCOMES == 1, np.arange(T) % 2 == 0])
PICTURES = {name: getattr(plots, name) for name in plots.__all__ if not name.endswith("_data")}
TABLES = {name: getattr(plots, f"{name}_data") for name in PICTURES}


def arguments(name):
    """A history, with groups or of classes, or certificates and guarantees that a forecaster had in it."""
    if name in ("level_sets", "decision_losses"):
        return PROBABILITIES, LABELS
    if name in ("group_biases", "group_mean_biases"):
        return FORECASTS, OUTCOMES, GROUPS
    if name != "certificate":
        return FORECASTS, OUTCOMES
    forecaster = AlmostOneStepAhead()
    steps = []
    for outcome in OUTCOMES.tolist():
        forecaster.learn_one({}, outcome)
        steps.append((forecaster.certificate, forecaster.guarantee))
    return tuple(np.array(steps).T)


@pytest.fixture(autouse=True)
def without_windows():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_intervals_are_wilsons_and_stay_within_0_and_1(confidence):
    pairs = [(k, n) for n in (1, 2, 3, 17, 1000) for k in {0, 1, n // 2, n - 1, n}]
    ones, rounds = np.array(pairs).T
    low, high = wilson_interval(ones, rounds, confidence)
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert (low <= ones / rounds).all()
    assert (ones / rounds <= high).all()
    for (k, n), one in zip(pairs, zip(low, high, strict=True), strict=True):
        assert one == pytest.approx(binomtest(k, n).proportion_ci(confidence, "wilson"), abs=1e-12)


@pytest.mark.parametrize("forecasts", [FORECASTS, np.round(FORECASTS, 1), np.full(T, 0.3)])
@pytest.mark.parametrize("bins", [None, 1, 7])
def test_reliability_counts_every_round_once(forecasts, bins):
    table = plots.reliability_data(forecasts, OUTCOMES, bins=bins)
    assert table["rounds"].sum() == T
    assert table["ones"].sum() == OUTCOMES.sum()
    assert (table["forecast"] * table["rounds"]).sum() == pytest.approx(forecasts.sum())
    assert table.height <= (bins or 30)
    for one in table.to_dicts():
        assert one["frequency"] == one["ones"] / one["rounds"]
        assert 0 <= one["low"] <= one["frequency"] <= one["high"] <= 1


def test_few_forecasts_each_have_a_dot_of_their_own():
    forecasts = np.round(FORECASTS, 1)
    table = plots.reliability_data(forecasts, OUTCOMES)
    assert table["forecast"].to_list() == pytest.approx(np.unique(forecasts))
    for one, value in zip(table.to_dicts(), np.unique(forecasts), strict=True):
        assert one["ones"] == OUTCOMES[forecasts == value].sum()


def test_the_plan_moves_the_distance():
    table = plots.transport_data(FORECASTS, OUTCOMES)
    found = calibration_distance(FORECASTS, OUTCOMES)
    assert table["rounds"].sum() == T
    assert table["moved"].sum() == pytest.approx(found.upper)
    assert plots.transport_data(FORECASTS, OUTCOMES, witness=found.witness).equals(table)


def test_the_running_distance_is_that_of_every_beginning():
    table = plots.running_distance_data(FORECASTS, OUTCOMES, rounds=[1, 50, 50, T])
    assert table["round"].to_list() == [1, 50, 50, T]
    for one in table.to_dicts():
        stop = one["round"]
        exact = calibration_distance(FORECASTS[:stop], OUTCOMES[:stop], "exact", normalize=True).exact
        assert one["lower"] - 1e-12 <= exact <= one["upper"] + 1e-12
    assert plots.running_distance_data(FORECASTS[:3], OUTCOMES[:3])["round"].to_list() == [1, 2, 3]


def test_certificates_are_sums_or_averages():
    proven = [0.5, 0.25, 0.75]
    table = plots.certificate_data(proven, 2.0)
    assert table.to_dict(as_series=False) == {
        "round": [1, 2, 3], "certificate": proven, "guarantee": [2.0, 2.0, 2.0],
    }  # fmt: skip
    averages = plots.certificate_data(proven, [1, 2, 3], rounds=[10, 20, 40], normalize=True)
    assert averages["certificate"].to_list() == [0.05, 0.0125, 0.01875]
    assert averages["guarantee"].to_list() == [0.1, 0.1, 0.075]
    assert plots.certificate_data(proven).columns == ["round", "certificate"]


@pytest.mark.parametrize("name", PICTURES)
def test_pandas_and_polars_are_drawn_like_arrays(name):
    given = arguments(name)
    table = TABLES[name](*given)

    def in_pandas(one, index=None):
        return (pd.Series if one.ndim == 1 else pd.DataFrame)(one, index=index)

    def in_polars(one):
        return pl.Series(one) if one.ndim == 1 else pl.DataFrame(one, schema=list(map(str, range(3))))

    for way in (in_pandas, in_polars, np.ndarray.tolist):
        assert TABLES[name](*map(way, given)).equals(table)
    assert TABLES[name](*(in_pandas(one, np.arange(T)[::-1]) for one in given)).equals(table)


@pytest.mark.parametrize("name", PICTURES)
def test_the_axes_come_back_and_nothing_else_is_changed(name):
    given = arguments(name)
    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend()
    axes = Figure().subplots()
    assert PICTURES[name](*given, ax=axes) is axes
    assert not pyplot.get_fignums()
    own = PICTURES[name](*given)
    assert own is not axes
    assert pyplot.get_fignums() == [own.figure.number]
    own.figure.canvas.draw()
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend() == backend


@pytest.mark.parametrize("name", PICTURES)
def test_what_somebody_wrote_on_the_axes_stays(name):
    axes = Figure().subplots()
    axes.set(title="mine", xlabel="here")
    PICTURES[name](*arguments(name), ax=axes)
    assert (axes.get_title(), axes.get_title("left"), axes.get_xlabel()) == ("mine", "", "here")
    lines_are_named = name in ("level_sets", "group_biases", "group_mean_biases")
    assert lines_are_named != bool(axes.get_ylabel())


@pytest.mark.parametrize("name", ["reliability", "running_distance", "certificate", "decision_losses"])
def test_a_second_history_gets_another_colour_and_both_a_name(name):
    first, second = arguments(name)
    axes = PICTURES[name](first, second, label="one")
    lines = len(axes.lines)
    other = first[::-1] if first.ndim == 2 else first / 2
    assert PICTURES[name](other, second, ax=axes, label="two") is axes
    histories = [one for one in axes.get_children() if str(one.get_gid()).startswith(OURS)]
    colours = [
        one.get_color() if hasattr(one, "get_color") else tuple(one.get_facecolor()[0]) for one in histories
    ]
    assert len(set(colours)) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    if name in ("reliability", "decision_losses"):
        assert len(axes.lines) == lines, "the line of the calibrated is drawn once"


def test_averages_of_certificates_go_onto_the_axes_of_the_distance():
    axes = plots.running_distance(FORECASTS, OUTCOMES)
    limits = axes.get_ylim()
    plots.certificate(*arguments("certificate"), ax=axes, normalize=True)
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert axes.get_ylim() == limits


BAD = {
    "reliability": [
        (([0.5, 1.5], [0, 1]), {}, "forecasts must lie in .* got 1.5 at row 1"),
        (([0.5], [0]), {"confidence": 1.0}, "confidence must be a number between 0 and 1, got 1.0"),
    ],
    "transport": [
        (([0.5, float("nan")], [0, 1]), {}, "forecasts must lie in .* got nan at row 1"),
        (([0.5], [0]), {"witness": [2.0]}, "witness must lie in .* got 2.0"),
        (([0.5], [0]), {"budget": -1.0}, "budget"),
    ],
    "running_distance": [
        (([], []), {}, "forecasts is empty"),
        (([0.5], [0]), {"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
        (([0.5], [0]), {"rounds": [2]}, "rounds must be whole numbers from 1 to 1 in order"),
        (([0.5] * 3, [0] * 3), {"rounds": [2, 1]}, "rounds must be whole numbers from 1 to 3 in order"),
        (([0.5], [0]), {"rounds": [0.5]}, "rounds must be whole numbers"),
    ],
    "running_biases": [
        (([0.5], [0, 1]), {}, "forecasts and outcomes must have the same length, got 1 and 2"),
        (([0.5], [0]), {"rounds": [2]}, "rounds must be whole numbers from 1 to 1 in order"),
        (([0.5], [0]), {"bins": 0}, "bins must be a whole number of at least 1, got 0"),
        (([0.5], [0]), {"look_ahead": [3.0]}, "look_ahead must lie in .* got 3.0"),
        (([0.5, 0.5], [0, 0]), {"look_ahead": [0.5]}, "forecasts and look_ahead must have the same length"),
    ],
    "level_sets": [
        (([[0.5, 0.6]], [0]), {}, "probabilities must sum to 1 in every row, got 1.1 at row 0"),
        (([[0.5, 0.5]], [0]), {"after": [[0.5, 0.6]]}, "after must sum to 1 in every row"),
        (([[0.5, 0.5]], [0]), {"after": [[1.0]]}, r"after must have the shape .* \(1, 2\), got \(1, 1\)"),
        (([[0.5, 0.5]], [0]), {"classes": ["a"]}, "classes must name the 2 columns of probabilities, got 1"),
        (([[0.5, 0.5]], [0]), {"shown": 0}, "shown must be a whole number of at least 1, got 0"),
        (([[0.5, 0.5]], [0]), {"confidence": 0}, "confidence must be a number between 0 and 1, got 0"),
    ],
    "decision_losses": [
        (([[0.5, 0.6]], [0]), {}, "probabilities must sum to 1 in every row, got 1.1 at row 0"),
        (([[0.5, 0.5]], [0], [[1.0, float("nan")]]), {}, "losses must be finite, got .*nan.* class 1"),
    ],
    "group_mean_biases": [
        (([0.5, 1.5], [0, 1], [[1], [1]]), {}, "forecasts must lie in .* got 1.5 at row 1"),
        (([0.5], [0], [[0]]), {}, "groups must have rounds, all are empty"),
        (([0.5], [0], [[1]]), {"after": [0.5, 0.5]}, "forecasts and after must have the same length"),
        (([0.5], [0], [[1]]), {"shown": 0}, "shown must be a whole number of at least 1, got 0"),
        (([0.5], [0], [[1]]), {"confidence": 0}, "confidence must be a number between 0 and 1, got 0"),
    ],
    "group_biases": [
        (([0.5, 1.5], [0, 1], [[1], [1]]), {}, "forecasts must lie in .* got 1.5 at row 1"),
        (([0.5], [0], [[0]]), {}, "groups must have rounds, all are empty"),
        (([0.5], [0], [[1]]), {"after": [2.0]}, "after must lie in .* got 2.0"),
        (([0.5], [0], [[1]]), {"after": [0.5, 0.5]}, "forecasts and after must have the same length"),
        (([0.5], [0], [[1]]), {"shown": 0}, "shown must be a whole number of at least 1, got 0"),
    ],
    "certificate": [
        (([1.0, -1.0],), {}, "certificates must be finite and not negative, got -1.0 at row 1"),
        (([1.0], [float("inf")]), {}, "guarantees must be finite and not negative, got inf at row 0"),
        (([1.0], [1.0, 2.0]), {}, "certificates and guarantees must have the same length, got 1 and 2"),
        (([1.0],), {"rounds": [1, 2]}, "certificates and rounds must have the same length, got 1 and 2"),
        ((["a"],), {}, "certificates must be numbers"),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in BAD.items() for case in cases])
def test_bad_input_is_named_and_nothing_is_drawn(name, case):
    given, options, words = case
    axes = Figure().subplots()
    children = axes.get_children()
    with pytest.raises(ValueError, match=words):
        PICTURES[name](*given, ax=axes, **options)
    assert axes.get_children() == children
    with pytest.raises(ValueError, match=words):
        PICTURES[name](*given, **options)
    assert not pyplot.get_fignums()


def test_names_are_functions_also_after_their_modules_are_loaded():
    for name in plots.__all__:
        assert callable(getattr(plots, name))
        assert getattr(plots, name) is getattr(plots, name)
