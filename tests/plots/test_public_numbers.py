"""What the public pictures of biases, level sets, decisions and groups show is what the measures say."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from scipy.stats import binomtest

from onlinecal import plots
from onlinecal.measures import decision_loss_gap, lp_calibration_error, multicalibration_report
from onlinecal.plots.style import highest, lowest
from onlinecal.recalibration import gaussian_losses

T = 300
RNG = np.random.default_rng(7)
FORECASTS = RNG.random(T).round(1)
OUTCOMES = RNG.integers(0, 2, T)
P = RNG.dirichlet((1, 1, 1), T)
LABELS = RNG.integers(0, 3, T)


@pytest.mark.parametrize("charged", [None, RNG.random(T).round(1)])
def test_biases_are_the_sums_so_far_of_every_value(charged):
    moments = [1, 40, 40, 123]
    table = plots.running_biases_data(FORECASTS, OUTCOMES, rounds=moments, look_ahead=charged)
    values = FORECASTS if charged is None else charged
    assert table["round"].unique().sort().to_list() == [1, 40, 123]
    for stop in (1, 40, 123):
        now, used = table.filter(round=stop), np.unique(values[:stop])
        assert now["value"].to_list() == used.tolist()
        expected = [(value - OUTCOMES[:stop][values[:stop] == value]).sum() for value in used]
        assert now["bias"].to_list() == pytest.approx(expected, abs=1e-6)
        assert now["forecast"][0] == FORECASTS[stop - 1]


def test_values_that_share_a_part_have_the_sum_of_their_biases():
    table = plots.running_biases_data(FORECASTS, OUTCOMES, rounds=1, bins=4)
    assert table["value"].to_list() == [0.125, 0.375, 0.625, 0.875]
    assert (table["low"].to_list(), table["high"].to_list()) == ([0, 0.25, 0.5, 0.75], [0.25, 0.5, 0.75, 1])
    part = np.minimum((4 * FORECASTS).astype(int), 3)
    expected = np.bincount(part, FORECASTS - OUTCOMES)
    assert table["bias"].to_list() == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_course_of_forecasts_is_drawn_on_demand():
    lines = [
        len(plots.running_biases(FORECASTS, OUTCOMES, Figure().subplots(), course=course).lines)
        for course in (False, True)
    ]
    assert lines == [0, 1]


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_level_sets_carry_the_error_and_wilsons_intervals(p):
    table = plots.level_sets_data(P, LABELS, p=p, n_levels=3, confidence=0.9)
    sizes = ((table["forecast"] - table["frequency"]) * table["mass"]).abs().to_numpy()
    assert np.linalg.norm(sizes, p) == pytest.approx(lp_calibration_error(P, LABELS, p, 3))
    assert (np.diff(sizes) <= 1e-15).all()
    for row in table.to_dicts():
        ones = round(row["frequency"] * row["rows"])
        expected = binomtest(ones, row["rows"]).proportion_ci(0.9, "wilson")
        assert (row["low"], row["high"]) == pytest.approx(expected, abs=1e-12)


def test_level_sets_stay_those_of_before_and_have_the_names_of_the_columns():
    named = pd.DataFrame(P, columns=["cat", "dog", "owl"])
    table = plots.level_sets_data(named, LABELS, after=P[:, [1, 2, 0]], n_levels=1)
    assert set(table["class"]) == {"cat", "dog", "owl"}
    rows = {row["class"]: row for row in table.to_dicts()}
    assert rows["cat"]["before"] == pytest.approx(P[:, 0].mean())
    assert rows["cat"]["after"] == pytest.approx(P[:, 1].mean())
    assert rows["owl"]["frequency"] == (LABELS == 2).mean()
    assert set(plots.level_sets_data(P, LABELS, classes=["a", "b", "c"])["class"]) == {"a", "b", "c"}


def test_losses_lie_as_far_from_the_predicted_as_their_gaps_say():
    losses = np.concatenate([gaussian_losses(2, 3, 20), np.zeros((1, 2, 3))])
    table = plots.decision_losses_data(P, LABELS, losses)
    gaps = (table["true"] - table["predicted"]).abs().to_numpy()
    assert gaps == pytest.approx(decision_loss_gap(P, LABELS, losses))
    assert table.row(-1) == (20, 0.0, 0.0)
    given = plots.decision_losses_data(P, LABELS, gaussian_losses(3, 3))
    assert plots.decision_losses_data(P, LABELS).equals(given)
    assert plots.decision_losses_data(P, LABELS, losses[0]).height == 1


def test_groups_have_the_violations_of_the_report_the_worst_first():
    groups = pl.DataFrame({"low": FORECASTS < 0.4, "nobody": np.zeros(T, bool), "ones": OUTCOMES == 1})
    report = multicalibration_report(FORECASTS, OUTCOMES, groups, 5)
    lines = sorted((line for line in report.lines if line.count), key=lambda line: -line.violation)
    table = plots.group_biases_data(FORECASTS, OUTCOMES, groups, n_levels=5)
    assert table["group"].to_list() == [line.name for line in lines] == ["ones", "low"]
    for row, line in zip(table.to_dicts(), lines, strict=True):
        assert (row["rows"], row["violation"]) == (line.count, line.violation)
        assert row["bias"] == pytest.approx(np.sqrt(line.violation / line.mass))
        assert row["chance"] == pytest.approx(np.sqrt(line.noise / line.mass))
    both = plots.group_biases_data(FORECASTS, OUTCOMES, groups, after=OUTCOMES, n_levels=5)
    assert both["before"].to_list() == table["bias"].to_list()
    assert both["after"].to_list() == [0.0, 0.0]


def test_groups_means_have_the_intervals_of_their_frequencies_the_surest_first():
    frame = pl.DataFrame({"side": np.where(FORECASTS < 0.4, "left", "right")})
    table = plots.group_mean_biases_data(FORECASTS, OUTCOMES, frame, after=OUTCOMES, confidence=0.9)
    assert set(table["group"]) == {"everyone", "side=left", "side=right"}
    inside = {"everyone": FORECASTS >= 0, "side=left": FORECASTS < 0.4, "side=right": FORECASTS >= 0.4}
    surely = []
    for row in table.to_dicts():
        y, p = OUTCOMES[inside[row["group"]]], FORECASTS[inside[row["group"]]]
        ends = binomtest(int(y.sum()), len(y)).proportion_ci(0.9, "wilson")
        assert (row["rows"], row["frequency"]) == (len(y), pytest.approx(y.mean()))
        assert (row["before"], row["after"]) == pytest.approx((p.mean() - y.mean(), 0.0), abs=1e-12)
        assert (row["low_before"], row["high_before"]) == pytest.approx(
            (p.mean() - ends.high, p.mean() - ends.low)
        )
        surely.append(abs(row["before"]) / (row["high_before"] - row["low_before"]))
    assert surely == sorted(surely, reverse=True)


def test_only_the_worst_are_shown():
    axes = plots.level_sets(P, LABELS, Figure().subplots(), shown=5)
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    first = plots.level_sets_data(P, LABELS).head(5)
    assert names == [f"{row['level_set']}:  class {row['class']}" for row in first.to_dicts()]
    groups = np.eye(T, dtype=bool)[:, :30]
    axes = plots.group_biases(FORECASTS, OUTCOMES, groups, Figure().subplots(), shown=7)
    assert len(axes.get_yticklabels()) == 7


def test_the_ends_are_those_of_all_columns_together():
    columns = pl.Series([3, 1, None], dtype=pl.Int64), pl.Series([math.nan, 2.5, None, -0.5])
    assert (lowest(*columns), highest(*columns)) == (-0.5, 3.0)
    assert [type(end(*columns)) for end in (lowest, highest)] == [float, float]


def test_without_a_number_the_answer_is_what_one_asks_for():
    nothing = pl.Series([None, math.nan], dtype=pl.Float64), pl.Series([], dtype=pl.Int64)
    assert (lowest(*nothing), highest(*nothing)) == (0.0, 0.0)
    assert (lowest(*nothing, empty=7.0), highest(*nothing, empty=-7.0)) == (7.0, -7.0)
