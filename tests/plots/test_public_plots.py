"""Pictures of one's own arrays: the measures' numbers, one's own Axes, nothing global changed."""

from __future__ import annotations

import math
from functools import cache

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from scipy.stats import binomtest

from onlinecal import AlmostOneStepAhead, calibration_distance, plots
from onlinecal.measures import decision_loss_gap, lp_calibration_error, multicalibration_report
from onlinecal.plots.style import KIND_PREFIX, wilson_interval
from onlinecal.recalibration import gaussian_losses

T = 200
RNG = np.random.default_rng(3)
FORECASTS = RNG.random(T)
OUTCOMES = (RNG.random(T) < 0.2 + 0.5 * FORECASTS).astype(int)
PROBABILITIES = RNG.dirichlet((1, 1, 1), T)
LABELS = RNG.integers(0, 3, T)
GROUPS = np.column_stack([FORECASTS < 0.3, OUTCOMES == 1, np.arange(T) % 2 == 0])
PICTURES = {name: getattr(plots, name) for name in plots.__all__ if name != "Picture"}


@cache
def axes_of(name):
    """Where all pictures of a function are drawn over each other that nobody looks at."""
    return Figure().subplots()


def table_of(name, *given, **options):
    """The numbers of a picture that nobody looks at."""
    return getattr(plots, name)(*given, ax=axes_of(name), **options).table


def arguments(name):
    """A history, with groups or of classes, or certificates and guarantees that a forecaster had in it."""
    if name == "model_weights":
        return PROBABILITIES, ["a", "b", "c"]
    if name in ("level_sets", "decision_costs"):
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


def in_pandas(one, index=None):
    return (pd.Series if one.ndim == 1 else pd.DataFrame)(one, index=index)


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
    table = table_of("reliability", forecasts, OUTCOMES, n_bins=bins)
    assert table["rounds"].sum() == T
    assert table["ones"].sum() == OUTCOMES.sum()
    assert (table["forecast"] * table["rounds"]).sum() == pytest.approx(forecasts.sum())
    assert table.height <= (bins or 30)
    for one in table.to_dicts():
        assert one["frequency"] == one["ones"] / one["rounds"]
        assert 0 <= one["low"] <= one["frequency"] <= one["high"] <= 1
    if bins is None and table.height < 20:
        # few forecasts each have a dot of their own
        assert table["forecast"].to_list() == pytest.approx(np.unique(forecasts))
        ones = [OUTCOMES[forecasts == value].sum() for value in np.unique(forecasts)]
        assert table["ones"].to_list() == ones


def test_the_plan_moves_the_distance():
    table = table_of("transport", FORECASTS, OUTCOMES)
    found = calibration_distance(FORECASTS, OUTCOMES)
    assert table["rounds"].sum() == T
    assert table["moved"].sum() == pytest.approx(found.upper)
    assert table_of("transport", FORECASTS, OUTCOMES, witness=found.witness).equals(table)


def test_the_running_distance_is_that_of_every_beginning():
    table = table_of("running_distance", FORECASTS, OUTCOMES, rounds=[1, 50, 50, T])
    assert table["round"].to_list() == [1, 50, 50, T]
    for one in table.to_dicts():
        stop = one["round"]
        exact = calibration_distance(FORECASTS[:stop], OUTCOMES[:stop], method="exact", normalize=True).exact
        assert one["lower"] - 1e-12 <= exact <= one["upper"] + 1e-12
    assert table_of("running_distance", FORECASTS[:3], OUTCOMES[:3])["round"].to_list() == [1, 2, 3]


def test_certificates_are_sums_or_averages():
    proven = [0.5, 0.25, 0.75]
    table = table_of("certificate", proven, 2.0)
    assert table.to_dict(as_series=False) == {
        "round": [1, 2, 3], "certificate": proven, "guarantee": [2.0, 2.0, 2.0],
    }  # fmt: skip
    averages = table_of("certificate", proven, [1, 2, 3], rounds=[10, 20, 40], normalize=True)
    assert averages["certificate"].to_list() == [0.05, 0.0125, 0.01875]
    assert averages["guarantee"].to_list() == [0.1, 0.1, 0.075]
    assert table_of("certificate", proven).columns == ["round", "certificate"]


FURTHER = {
    "transport": {"witness": FORECASTS},
    "running_biases": {"look_ahead": FORECASTS},
    "group_biases": {"after": FORECASTS},
    "group_mean_biases": {"after": FORECASTS},
    "level_sets": {"after": PROBABILITIES},
}


@pytest.mark.usefixtures("wide_brackets")
@pytest.mark.parametrize("name", [name for name in PICTURES if name != "model_weights"])
def test_pandas_and_polars_are_drawn_like_arrays_and_other_indices_are_refused(name):
    given = arguments(name)
    table = table_of(name, *given)

    def in_polars(one):
        return pl.Series(one) if one.ndim == 1 else pl.DataFrame(one, schema=list(map(str, range(3))))

    def turned(one):
        return in_pandas(one, np.arange(T)[::-1])

    for way in (in_pandas, in_polars, np.ndarray.tolist, turned):
        assert table_of(name, *map(way, given)).equals(table)
    first, *others = map(in_pandas, given)
    for place, one in enumerate(given[1:]):
        with pytest.raises(ValueError, match="must have the same index"):
            table_of(name, first, *others[:place], turned(one), *others[place + 1 :])
    for option, values in FURTHER.get(name, {}).items():
        with pytest.raises(ValueError, match=f"and {option} must have the same index"):
            table_of(name, first, *others, **{option: turned(values)})


@pytest.mark.usefixtures("wide_brackets")
@pytest.mark.parametrize("name", PICTURES)
def test_axes_keep_what_somebody_wrote_and_nothing_else_is_changed(name):
    given = arguments(name)
    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend()
    axes = Figure().subplots()
    axes.set(title="mine", xlabel="here")
    found = PICTURES[name](*given, ax=axes)
    assert found.ax is axes
    assert (axes.get_title(), axes.get_title("left"), axes.get_xlabel()) == ("mine", "", "here")
    lines_are_named = name in ("level_sets", "group_biases", "group_mean_biases")
    assert lines_are_named != bool(axes.get_ylabel())
    assert not pyplot.get_fignums()
    own, table = PICTURES[name](*given)
    assert table.equals(found.table)
    assert own is not axes
    assert pyplot.get_fignums() == [own.figure.number]
    own.figure.canvas.draw()
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend() == backend


@pytest.mark.parametrize("name", ["reliability", "running_distance", "certificate", "decision_costs"])
def test_a_second_history_gets_another_colour_and_both_a_name(name):
    first, second = arguments(name)
    axes = Figure().subplots()
    PICTURES[name](first, second, ax=axes, label="one")
    lines = len(axes.lines)
    other = first[::-1] if first.ndim == 2 else first / 2
    PICTURES[name](other, second, ax=axes, label="two")
    histories = [one for one in axes.get_children() if str(one.get_gid()).startswith(KIND_PREFIX)]
    colours = [
        one.get_color() if hasattr(one, "get_color") else tuple(one.get_facecolor()[0]) for one in histories
    ]
    assert len(set(colours)) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    if name in ("reliability", "decision_costs"):
        assert len(axes.lines) == lines, "the line of the calibrated is drawn once"


def test_averages_of_certificates_go_onto_the_axes_of_the_distance():
    axes = Figure().subplots()
    table = plots.running_distance(FORECASTS, OUTCOMES, ax=axes).table
    limits = axes.get_ylim()
    # the first sixth of the rounds may be cut off
    later = table.filter(pl.col("round") >= T / 6)["upper"]
    assert limits[1] == pytest.approx(1.2 * later.max())
    assert later[-1] < later.max() < table["upper"].max()
    plots.certificate(*arguments("certificate"), ax=axes, normalize=True)
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert axes.get_ylim() == limits


ONE, TABLE_OF_ONE, GROUP = ([0.5], [0]), ([[0.5, 0.5]], [0]), ([0.5], [0], [[1]])
EMPTY = ([0.5], [0], [[0]])
BAD = [
    ("reliability", ([0.5, 1.5], [0, 1]), {}, "forecasts must lie in .* got 1.5 at row 1"),
    ("reliability", ONE, {"confidence": 1.0}, "confidence must be a number between 0 and 1, got 1.0"),
    ("transport", ONE, {"witness": [2.0]}, "witness must lie in .* got 2.0"),
    ("transport", ONE, {"budget": -1.0}, "budget"),
    ("running_distance", ([], []), {}, "forecasts is empty"),
    ("running_distance", ONE, {"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
    ("running_distance", ([0.5] * 3, [0] * 3), {"rounds": [2, 1]}, "rounds must be .* from 1 to 3 in order"),
    ("running_distance", ONE, {"rounds": [0.5]}, "rounds must be whole numbers"),
    ("running_biases", ONE, {"rounds": [2]}, "rounds must be whole numbers from 1 to 1 in order"),
    ("running_biases", ONE, {"n_bins": 0}, "n_bins must be a whole number of at least 1, got 0"),
    ("running_biases", ONE, {"look_ahead": [3.0]}, "look_ahead must lie in .* got 3.0"),
    ("running_biases", ONE, {"look_ahead": [0.5] * 2}, "forecasts and look_ahead must have the same length"),
    ("level_sets", ([[0.5, 0.6]], [0]), {}, "probabilities must sum to 1 in every row, got 1.1 at row 0"),
    ("level_sets", TABLE_OF_ONE, {"after": [[0.5, 0.6]]}, "after must sum to 1 in every row"),
    ("level_sets", TABLE_OF_ONE, {"after": [[1.0]]}, r"after must have the shape .* \(1, 2\), got \(1, 1\)"),
    ("level_sets", TABLE_OF_ONE, {"classes": 5}, "classes must be a list of names, got 5"),
    ("group_biases", GROUP, {"names": 5}, "names must be a list of names, got 5"),
    *(
        (
            "running_biases",
            ONE,
            {"rounds": rounds},
            f"rounds must be a whole number of moments, .* got {shown}",
        )
        for rounds, shown in ((2.5, 2.5), (np.array(2.5), 2.5), (None, None), ("all", "'all'"))
    ),
    ("running_biases", ONE, {"course": "yes"}, "course must be True or False, got 'yes'"),
    ("level_sets", TABLE_OF_ONE, {"classes": {"a", "b"}}, "classes must be a list of names, got {"),
    ("level_sets", TABLE_OF_ONE, {"classes": ["a"]}, "classes must name the 2 columns .*, got 1"),
    ("level_sets", TABLE_OF_ONE, {"shown": 0}, "shown must be a whole number of at least 1, got 0"),
    ("level_sets", TABLE_OF_ONE, {"confidence": 0}, "confidence must be a number between 0 and 1, got 0"),
    ("decision_costs", (*TABLE_OF_ONE, [[1.0, math.nan]]), {}, "losses must be finite, got .*nan.* class 1"),
    ("group_mean_biases", EMPTY, {}, "groups must have rows in them, got 1 group without any"),
    ("group_mean_biases", GROUP, {"after": [0.5] * 2}, "forecasts and after must have the same length"),
    ("group_mean_biases", GROUP, {"shown": 0}, "shown must be a whole number of at least 1, got 0"),
    ("group_mean_biases", GROUP, {"confidence": 0}, "confidence must be a number between 0 and 1, got 0"),
    ("group_biases", EMPTY, {}, "groups must have rows in them, got 1 group without any"),
    ("group_biases", GROUP, {"after": [2.0]}, "after must lie in .* got 2.0"),
    ("group_biases", GROUP, {"shown": 0}, "shown must be a whole number of at least 1, got 0"),
    ("certificate", ([1.0, -1.0],), {}, "certificates must be finite and not negative, got -1.0 at row 1"),
    ("certificate", ([1.0], [math.inf]), {}, "guarantees must be finite and not negative, got inf at row 0"),
    ("certificate", ([1.0], [1.0, 2.0]), {}, "certificates and guarantees must have the same length"),
    ("certificate", ([1.0],), {"rounds": [1, 2]}, "certificates and rounds must have the same length"),
    ("certificate", (["a"],), {}, "certificates must be numbers"),
    ("certificate", ([1.0],), {"color": "reddish"}, "color must be a colour of matplotlib, .* got 'reddish'"),
]


@pytest.mark.parametrize(("name", "given", "options", "words"), BAD)
def test_bad_input_is_named_and_not_drawn(name, given, options, words):
    axes = Figure().subplots()
    children = axes.get_children()
    for ax in (axes, None):
        with pytest.raises(ValueError, match=words):
            PICTURES[name](*given, ax=ax, **options)
    assert axes.get_children() == children
    assert not pyplot.get_fignums()


@pytest.mark.usefixtures("wide_brackets")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("forecast", [0.0, 0.5])
def test_a_single_row_is_drawn_without_a_warning(name, forecast):
    given = {
        "model_weights": ([[0.5, 0.5]], ["a", "b"]),
        "certificate": ([forecast], 1.0),
        "level_sets": TABLE_OF_ONE,
        "decision_costs": TABLE_OF_ONE,
        "group_biases": ([forecast], [0], [[1]]),
        "group_mean_biases": ([forecast], [0], [[1]]),
    }
    options = {"course": True} if name == "running_biases" else {}
    ax, table = PICTURES[name](*given.get(name, ([forecast], [0])), **options)
    ax.figure.canvas.draw()
    assert table.height >= 1
    # a line through one point would not be seen
    assert all(len(line.get_xdata()) > 1 or line.get_marker() == "o" for line in ax.lines)


def test_a_number_of_moments_may_be_a_float_or_in_an_array():
    given = [0.5] * 8, [0] * 8
    for rounds in (2.0, np.array(2), np.float32(2)):
        table = table_of("running_distance", *given, rounds=rounds, budget=0.01)
        assert table["round"].to_list() == [4, 8]
    assert table_of("running_distance", *given, rounds=99, budget=0.01)["round"].to_list() == [*range(1, 9)]


N = 300
DRAWN = np.random.default_rng(7)
TENTHS, COINS = DRAWN.random(N).round(1), DRAWN.integers(0, 2, N)
TABLE, CLASSES = DRAWN.dirichlet((1, 1, 1), N), DRAWN.integers(0, 3, N)


@pytest.mark.parametrize("charged", [None, DRAWN.random(N).round(1)])
def test_biases_are_the_sums_so_far_of_every_value(charged):
    moments = [1, 40, 40, 123]
    table = table_of("running_biases", TENTHS, COINS, rounds=moments, look_ahead=charged)
    values = TENTHS if charged is None else charged
    assert table["round"].unique().sort().to_list() == [1, 40, 123]
    for stop in (1, 40, 123):
        now, used = table.filter(round=stop), np.unique(values[:stop])
        assert now["value"].to_list() == used.tolist()
        expected = [(value - COINS[:stop][values[:stop] == value]).sum() for value in used]
        assert now["bias"].to_list() == pytest.approx(expected, abs=1e-6)
        assert now["forecast"][0] == TENTHS[stop - 1]


def test_values_that_share_a_part_have_the_sum_of_their_biases():
    table = table_of("running_biases", TENTHS, COINS, rounds=1, n_bins=4)
    assert table["value"].to_list() == [0.125, 0.375, 0.625, 0.875]
    assert (table["low"].to_list(), table["high"].to_list()) == ([0, 0.25, 0.5, 0.75], [0.25, 0.5, 0.75, 1])
    part = np.minimum((4 * TENTHS).astype(int), 3)
    expected = np.bincount(part, TENTHS - COINS)
    assert table["bias"].to_list() == pytest.approx(expected.tolist(), abs=1e-6)


@pytest.mark.parametrize("forecasts, as_line", [(np.sort(TENTHS), True), (TENTHS, False)])
def test_the_course_of_forecasts_is_drawn_on_demand_as_dots_if_they_jump_about(forecasts, as_line):
    without, with_course = Figure().subplots(2)
    for axes, course in ((without, False), (with_course, True)):
        plots.running_biases(forecasts, COINS, ax=axes, course=course)
    assert len(with_course.lines) - len(without.lines) == as_line
    dots = [one for one in with_course.collections if isinstance(one, PathCollection)]
    assert len(dots) == (not as_line)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_level_sets_carry_the_error_and_wilsons_intervals(p):
    table = table_of("level_sets", TABLE, CLASSES, p=p, n_bins=3, confidence=0.9)
    sizes = ((table["forecast"] - table["frequency"]) * table["mass"]).abs().to_numpy()
    assert np.linalg.norm(sizes, p) == pytest.approx(lp_calibration_error(TABLE, CLASSES, p, n_bins=3))
    assert (np.diff(sizes) <= 1e-15).all()
    ones = (table["frequency"] * table["rows"]).round()
    intervals = np.column_stack(wilson_interval(ones.to_numpy(), table["rows"].to_numpy(), 0.9))
    assert table.select("low", "high").to_numpy() == pytest.approx(intervals, abs=1e-12)


def test_level_sets_stay_those_of_before_and_have_the_names_of_the_columns():
    named = pd.DataFrame(TABLE, columns=["cat", "dog", "owl"])
    table = table_of("level_sets", named, CLASSES, after=TABLE[:, [1, 2, 0]], n_bins=1)
    assert set(table["class"]) == {"cat", "dog", "owl"}
    rows = {row["class"]: row for row in table.to_dicts()}
    assert rows["cat"]["before"] == pytest.approx(TABLE[:, 0].mean())
    assert rows["cat"]["after"] == pytest.approx(TABLE[:, 1].mean())
    assert rows["owl"]["frequency"] == (CLASSES == 2).mean()
    assert set(table_of("level_sets", TABLE, CLASSES, classes=["a", "b", "c"])["class"]) == {"a", "b", "c"}


def test_losses_lie_as_far_from_the_predicted_as_their_gaps_say():
    losses = np.concatenate([gaussian_losses(2, 3, 20), np.zeros((1, 2, 3))])
    table = table_of("decision_costs", TABLE, CLASSES, losses)
    gaps = (table["true"] - table["predicted"]).abs().to_numpy()
    assert gaps == pytest.approx(decision_loss_gap(TABLE, CLASSES, losses))
    assert table.row(-1) == (20, 0.0, 0.0)
    given = table_of("decision_costs", TABLE, CLASSES, gaussian_losses(3, 3))
    assert table_of("decision_costs", TABLE, CLASSES).equals(given)
    assert table_of("decision_costs", TABLE, CLASSES, losses[0]).height == 1


def test_groups_have_the_violations_of_the_report_the_worst_first():
    groups = pl.DataFrame({"low": TENTHS < 0.4, "nobody": np.zeros(N, bool), "ones": COINS == 1})
    report = multicalibration_report(TENTHS, COINS, groups, n_bins=5)
    lines = sorted((line for line in report.lines if line.count), key=lambda line: -line.violation)
    table = table_of("group_biases", TENTHS, COINS, groups, n_bins=5)
    assert table["group"].to_list() == [line.name for line in lines] == ["ones", "low"]
    for row, line in zip(table.to_dicts(), lines, strict=True):
        assert (row["rows"], row["violation"]) == (line.count, line.violation)
        assert row["bias"] == pytest.approx(np.sqrt(line.violation / line.mass))
        assert row["chance"] == pytest.approx(np.sqrt(line.noise / line.mass))
    both = table_of("group_biases", TENTHS, COINS, groups, after=COINS, n_bins=5)
    assert both["before"].to_list() == table["bias"].to_list()
    assert both["after"].to_list() == [0.0, 0.0]


def test_groups_means_have_the_intervals_of_their_frequencies_the_surest_first():
    side = np.where(TENTHS < 0.4, "left", "right")
    # wrong by more than the others, but hardly surely
    side[np.flatnonzero((TENTHS == 0.4) & (COINS == 0))[:6]] = "few"
    frame = pl.DataFrame({"side": side})
    table = table_of("group_mean_biases", TENTHS, COINS, frame, after=COINS, confidence=0.9)
    inside = {"everyone": TENTHS >= 0, **{f"side={name}": side == name for name in ("left", "right", "few")}}
    assert set(table["group"]) == {*inside}
    surely = []
    for row in table.to_dicts():
        y, p = COINS[inside[row["group"]]], TENTHS[inside[row["group"]]]
        ends = binomtest(int(y.sum()), len(y)).proportion_ci(0.9, "wilson")
        assert (row["rows"], row["frequency"]) == (len(y), pytest.approx(y.mean()))
        assert (row["before"], row["after"]) == pytest.approx((p.mean() - y.mean(), 0.0), abs=1e-12)
        assert (row["low_before"], row["high_before"]) == pytest.approx(
            (p.mean() - ends.high, p.mean() - ends.low)
        )
        surely.append(abs(row["before"]) / (row["high_before"] - row["low_before"]))
    assert surely == sorted(surely, reverse=True)
    assert table["group"][0] != "side=few" == table["group"][table["before"].abs().arg_max()]


def test_only_the_worst_are_shown_and_all_come_back():
    axes, others = Figure().subplots(2)
    table = plots.level_sets(TABLE, CLASSES, ax=axes, shown=5).table
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names == [f"{row['level_set']}:  class {row['class']}" for row in table.head(5).to_dicts()]
    groups = np.eye(N, dtype=bool)[:, :30]
    assert plots.group_biases(TENTHS, COINS, groups, ax=others, shown=7).table.height == 30
    assert len(others.get_yticklabels()) == 7


def test_weights_of_models_are_averages_of_neighbouring_rows():
    weights = np.repeat([[1.0, 0.0], [0.25, 0.75]], 600, axis=0)
    table = table_of("model_weights", weights, ["one", "other"])
    assert table.columns == ["row", "one", "other"]
    assert (table.height, table["row"][-1]) == (300, 1200)
    assert table.filter(pl.col("row") <= 600)["one"].to_list() == [1.0] * 150
    assert table_of("model_weights", pl.DataFrame(weights), ["one", "other"]).equals(table)
    assert table_of("model_weights", pd.DataFrame(weights), ["one", "other"]).equals(table)
    ax = Figure().subplots()
    plots.model_weights(weights, ["one", "other"], ax=ax)
    assert [text.get_text() for text in ax.texts] == ["one", "other"]
    with pytest.raises(ValueError, match="names must be one for each of 2 models, got 1"):
        table_of("model_weights", weights, ["one"])
    with pytest.raises(ValueError, match=r"weights must be finite and .* got -1\.0 at row 0, model 0"):
        table_of("model_weights", -weights, ["one", "other"])
    for names, words in (
        (5, "names must be a list of names, got 5"),
        ("ab", "names must be a list of names, got 'ab'"),
        (["one", "one"], "names must differ, one for each model, got .'one', 'one'."),
    ):
        with pytest.raises(ValueError, match=words):
            table_of("model_weights", weights, names)
    assert table_of("model_weights", weights, ["row", "one"]).columns == ["row", "model row", "one"]
    table = table_of("model_weights", weights, ["row", "model row"])
    assert table.columns == ["row", "model model row", "model row"]
    assert table["model row"][-1] == 0.75
