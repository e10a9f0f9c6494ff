"""Measures against T, and certificates as the games go on: a panel per forecaster, a line per adversary.

In pictures with many lines the colour says the group; names say the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import adversaries
from adversaries.protocol import POWERS
from onlinecal.plots.over_rounds import draw_certificate, draw_guarantee
from onlinecal.plots.style import (
    DASHES,
    HALO,
    INK,
    MARKERS,
    QUIET,
    Drawing,
    Look,
    along,
    are_small,
    colour_key,
    headline,
    highest,
    in_house_style,
    label_axes,
    looks,
    lowest,
    name_lines,
    panels,
    title_panel,
)
from simulations.games import players
from simulations.sweeps.results import LEAST

PROVEN = "proven in every game"

FORECASTERS = {
    PROVEN: "#0072B2",
    "deterministic": "#D55E00",
    "randomised": "#009E73",
    "reference": "#777777",
}
"""Groups of forecasters in the order of the pictures, and their colours."""

FORECASTER_WORDS = {
    PROVEN: "distance proven in every game",
    "deterministic": "deterministic, nothing proven",
    "randomised": "randomised",
    "reference": "answers after the outcome",
}

ADVERSARIES = {
    "oblivious": "#0072B2",
    "adaptive": "#D55E00",
    "internal": "#CC79A7",
    "mixed": "#009E73",
}
"""Powers of adversaries in the order of the pictures, and their colours."""

ADVERSARY_WORDS = {
    "oblivious": "nothing",
    "adaptive": "forecasts",
    "internal": "certificates too",
    "mixed": "as its players do",
}


def forecaster_group(spec: str) -> str:
    """One of the keys of `FORECASTERS`."""
    player = players.create(spec)
    if player.family.kind != "deterministic":
        return player.family.kind
    return "deterministic" if player.bound(100) is None else PROVEN


def power(spec: str) -> str:
    """What an adversary sees; recorded streams and others that no catalogue knows see nothing."""
    kind = adversaries.catalogue().get(spec.partition(":")[0])
    return POWERS[0] if kind is None else kind.power


def order_forecasters(specs: Iterable[str]) -> list[str]:
    """By group, otherwise as they come."""
    groups = list(FORECASTERS)
    return sorted(specs, key=lambda spec: groups.index(forecaster_group(spec)))


def order_adversaries(specs: Iterable[str]) -> list[str]:
    """By power, otherwise as they come."""
    return sorted(specs, key=lambda spec: POWERS.index(power(spec)))


def forecaster_looks(specs: Sequence[str]) -> dict[str, Look]:
    """A look for each: the colour of its group, lighter and darker, with other dashes and markers."""
    answer = {}
    seen: dict[str, int] = {}
    for spec in specs:
        group = forecaster_group(spec)
        place = seen[group] = seen.get(group, -1) + 1
        red, green, blue = to_rgb(FORECASTERS[group])
        kind = place % len(MARKERS)
        text = (0.72 * red, 0.72 * green, 0.72 * blue)
        answer[spec] = Look(FORECASTERS[group], text, DASHES[kind], (*MARKERS, "D", "v", "P")[place % 6])
    return answer


def adversary_key(specs: Iterable[str]) -> list[tuple[str, str]]:
    """Words and colours of the powers that occur."""
    present = {power(spec) for spec in specs}
    return [(ADVERSARY_WORDS[name], colour) for name, colour in ADVERSARIES.items() if name in present]


def forecaster_key(specs: Iterable[str]) -> list[tuple[str, str]]:
    """Words and colours of the groups that occur."""
    present = {forecaster_group(spec) for spec in specs}
    return [(FORECASTER_WORDS[name], colour) for name, colour in FORECASTERS.items() if name in present]


@dataclass(frozen=True)
class Curve:
    """A curve of the theory: what it is called, its value at T, and where along it its name is written."""

    label: str
    value: Callable[[float], float]
    strong: bool = False
    below: bool = False
    at: float = 0.04


PAPER = Curve("the paper's 2√T + 1", lambda T: 2 * math.sqrt(T) + 1)
LOWER = Curve("T^(1/3)", lambda T: T ** (1 / 3), below=True, at=0.64)
LINEAR = Curve("T/2", lambda T: T / 2)


def over_seeds(results: pl.DataFrame, upper: str, lower: str, *more: str) -> pl.DataFrame:
    """Per forecaster, adversary and rounds, columns line, low, high, seeds.

    Of one game the line is `upper` and the band reaches from `lower` to it. Of several seeds the line is the
    median of `upper`, the band reaches from the smallest to the largest.
    """
    keys = ["forecaster", "adversary", "rounds", *more]
    one = pl.len() == 1
    return results.group_by(keys, maintain_order=True).agg(
        pl.col(upper).median().alias("line"),
        pl.when(one).then(pl.col(lower).min()).otherwise(pl.col(upper).min()).alias("low"),
        pl.col(upper).max().alias("high"),
        pl.len().cast(pl.Int64).alias("seeds"),
    )


def bands_mean(table: pl.DataFrame, one_seed: str) -> str:
    """What lines and bands are, for the line below the headline."""
    seeds = int(highest(table["seeds"]))
    if seeds == 1:
        return one_seed
    return f"Lines: the median of {seeds} seeds. Bands: from the smallest to the largest."


def bound_curve(spec: str, what: str = "its bound", below: bool = False) -> tuple[Curve, ...]:
    """The proven bound of a forecaster, as the strong curve of its panel; none if there is none."""
    player = players.create(spec)
    if player.bound(1) is None:
        return ()
    label = f"{what} {player.bound_label or ''}".strip()
    return (Curve(label, lambda T: player.bound(int(T)) or math.nan, strong=True, below=below),)


def panel_title(spec: str, small: bool = False) -> str:
    """A forecaster's name and, where there is room, what it is."""
    return spec if small else f"{spec} – {players.create(spec).family.summary}"


def draw_panels(
    table: pl.DataFrame,
    curves: Callable[[str], Sequence[Curve]],
    title: str,
    below: str,
    measure: str,
) -> Figure:
    """The figure: log-log, columns forecaster, adversary, rounds, line, low and high of `table`.

    With more than a few forecasters the panels are small: colours then say what an adversary sees, and only
    the one on top is named.
    """
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    small = are_small(forecasters)
    look = looks(adversaries)
    figure, axes = panels(forecasters, adversaries)
    headline(figure, title, below)
    if small:
        colour_key(figure, adversary_key(adversaries), "A line per adversary; it sees")
    first, last = lowest(table["rounds"]), highest(table["rounds"])
    right = last * 1.15 if last > first else last * 3
    left = first / (1.15 if last > first else 3)
    top = max(
        [highest(table["high"]), *(curve.value(right) for spec in forecasters for curve in curves(spec))]
    )
    bottom = max(lowest(table.filter(pl.col("line") > 0)["line"], empty=1.0), top / 1e6)
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.6, top * 1.6))
        title_panel(axis, panel_title(spec, small), 9 if small else 11)
        axis.minorticks_off()
    label_axes(axes, "rounds T", measure.partition(" (")[0] if small else measure)
    for spec, axis in axes.items():
        ends = {}
        for adversary, part in table.filter(pl.col("forecaster") == spec).group_by(
            "adversary", maintain_order=True
        ):
            name = str(adversary[0])
            one = look[name]
            colour = ADVERSARIES[power(name)] if small else one.colour
            rounds = part["rounds"].to_numpy()
            shown, low, high = (np.maximum(part[column], bottom) for column in ("line", "low", "high"))
            axis.fill_between(rounds, low, high, color=colour, alpha=0.1 if small else 0.18, lw=0)
            dressed = {"lw": 1.0} if small else {"ls": one.dashes, "marker": one.marker, "ms": 3.5, "lw": 1.4}
            axis.plot(
                rounds, shown, color=colour, solid_capstyle="round", clip_on=False, zorder=3,
                **dressed,
            )  # fmt: skip
            ends[name] = float(shown[-1])
        for curve in curves(spec):
            named = not small or curve.strong or spec == forecasters[0]
            draw_curve(axis, curve, left, right, small, named)
        if small:
            name_top(axis, ends)
        else:
            name_lines(axis, ends, look)
    return figure


def name_top(axis: Axes, ends: dict[str, float]) -> None:
    """Write the name of the line that ends highest into the upper corner, in the colour of its power."""
    name = max(ends, key=ends.__getitem__)
    axis.text(
        0.03, 0.98, f"on top: {name}", transform=axis.transAxes, va="top", fontsize=7,
        color=ADVERSARIES[power(name)], zorder=6, path_effects=HALO,
    )  # fmt: skip


def draw_curve(
    axis: Axes, curve: Curve, left: float, right: float, small: bool = False, named: bool = True
) -> None:
    """A curve of the theory with its label along it, near the left end; in small panels thin."""
    rounds = np.geomspace(left, right, 100)
    values = [curve.value(math.ceil(T)) for T in rounds]
    colour = INK if curve.strong else QUIET
    axis.plot(
        rounds, values, color=colour, ls="-" if curve.strong else "--",
        lw=(2.0 if curve.strong else 1.1) * (0.6 if small else 1.0),
        zorder=4 if curve.strong else 2,
    )  # fmt: skip
    if not named:
        return
    start = int(curve.at * len(rounds))
    shift = 0.86 if curve.below else 1.0
    (x, x2), (y, y2) = rounds[[start, start + 20]], (shift * values[start], shift * values[start + 20])
    along(
        axis, curve.label, x, y, x2, y2, color=colour, va="top" if curve.below else "bottom",
        fontweight="bold" if curve.strong else "normal", fontsize=6.5 if small else 8.5,
    )  # fmt: skip


@dataclass(frozen=True)
class AgainstRounds:
    """A figure of one measure.

    Attributes
    ----------
    prepare
        From a sweep's results its table, see `over_seeds`.
    curves
        The curves of the theory for a forecaster's spec.
    headline
        What the table shows, in a line, and a line about that.
    measure
        What the axis says.
    """

    prepare: Callable[[pl.DataFrame], pl.DataFrame]
    curves: Callable[[str], Sequence[Curve]]
    headline: Callable[[pl.DataFrame], tuple[str, str]]
    measure: str

    @in_house_style
    def draw(self, table: pl.DataFrame) -> Figure:
        """A panel per forecaster; a band is the measure's bracket, or other seeds."""
        return draw_panels(table, self.curves, *self.headline(table), self.measure)


def with_distance(results: pl.DataFrame) -> pl.DataFrame:
    """Columns forecaster, adversary, rounds, line, low, high, seeds (see `over_seeds`), and bound."""
    table = over_seeds(results, "distance_upper", "distance_lower")
    bounds = [_bound(spec, rounds) for spec, rounds in table.select("forecaster", "rounds").iter_rows()]
    return table.with_columns(bound=pl.Series(bounds, dtype=pl.Float64))


def distance_curves(spec: str) -> Sequence[Curve]:
    """The forecaster's own bound, the paper's, and the rate that no forecaster can beat everywhere."""
    own = _bound(spec, 10**6)
    crowded = own is not None and own < PAPER.value(10**6) < 1.5 * own
    return (LOWER, PAPER, *bound_curve(spec, below=crowded or spec == "sign"))


def _distance_headline(table: pl.DataFrame) -> tuple[str, str]:
    proven = table["bound"].null_count() == 0
    title = (
        "No adversary pushes the distance to calibration past its bound"
        if proven
        else "No adversary pushes the distance to calibration past a bound, where one is proven"
    )
    below = bands_mean(
        table,
        "One line per adversary: the proven upper end of the distance; bands reach down to the proven "
        "lower end.",
    )
    return title, below + " No forecaster can grow slower than T^(1/3) against everyone."


def _ece_headline(table: pl.DataFrame) -> tuple[str, str]:
    title = "The usual calibration error (ECE) of the same games can grow with T itself"
    return title, bands_mean(
        table,
        "Answer 1 to forecasts just below 0.5 and 0 to those just above: ECE counts every round half "
        "wrong, though a nudge would calibrate them.",
    )


def with_regret(results: pl.DataFrame) -> pl.DataFrame:
    """Columns forecaster, adversary, rounds, line, low, high, seeds (see `over_seeds`), regret and bound.

    Regrets are sums over rounds, against the best constant forecast in hindsight; line, low and high are
    lifted to half a round. `regret` is the median over seeds as it was, `bound` twice the bound on the
    distance, null where nothing is proven.
    """
    table = over_seeds(results, "regret", "regret")
    bounds = [
        _regret_bound(spec, rounds) for spec, rounds in table.select("forecaster", "rounds").iter_rows()
    ]
    return table.with_columns(
        pl.col("line", "low", "high").clip(lower_bound=LEAST),
        regret=pl.col("line"),
        bound=pl.Series(bounds, dtype=pl.Float64),
    )


def regret_curves(spec: str) -> Sequence[Curve]:
    """Twice the forecaster's bound on its distance; none where nothing is proven."""
    if _regret_bound(spec, 1) is None:
        return ()
    label = " ".join(f"2 × the bound {players.create(spec).bound_label or ''} on its distance".split())
    return (Curve(label, lambda T: _regret_bound(spec, T) or math.nan, strong=True),)


def _regret_headline(table: pl.DataFrame) -> tuple[str, str]:
    title = (
        "No adversary makes a forecaster regret more than twice the bound on its distance"
        if table["bound"].null_count() == 0
        else "No adversary drives the regret past twice a distance that is proven"
    )
    below = bands_mean(
        table, "One line per adversary: Brier score less that of the best constant in hindsight."
    )
    return title, below + " At the bottom, half a round or less: hardly worse than that constant, or better."


def _bound(spec: str, rounds: float) -> float | None:
    return players.create(spec).bound(int(rounds))


def _regret_bound(spec: str, rounds: float) -> float | None:
    bound = _bound(spec, rounds)
    return None if bound is None else 2.0 * bound


def prepare_trajectories(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The longest games of the first seed: columns forecaster, adversary, round, certificate, guarantee."""
    longest = trajectories.filter(
        pl.col("rounds") == pl.col("rounds").max(), pl.col("seed") == pl.col("seed").first()
    )
    return longest.select("forecaster", "adversary", "round", "certificate", "guarantee")


@in_house_style
def draw_trajectories(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: a line per adversary, the guarantee in black."""
    forecasters = table["forecaster"].unique(maintain_order=True).to_list()
    adversaries = table["adversary"].unique(maintain_order=True).to_list()
    look, small = looks(adversaries), are_small(forecasters)
    figure, axes = panels(forecasters, adversaries)
    headline(
        figure,
        "At every moment of a game the forecaster can prove how calibrated it has been",
        "The certificate, a proven upper bound on the distance to calibration so far, a line per adversary. "
        "Black: the guarantee given beforehand.",
    )
    if small:
        colour_key(figure, adversary_key(adversaries), "The adversary sees")
    last = int(highest(table["round"]))
    top = highest(table["guarantee"], table["certificate"])
    bottom = 0.3 if top > 3 else top / 10
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(1, last * 1.05), ylim=(bottom / 1.5, top * 1.8))
        title_panel(axis, panel_title(spec, small), 9 if small else 11)
        axis.minorticks_off()
        mine = table.filter(pl.col("forecaster") == spec)
        ends = {}
        for keys, part in mine.group_by("adversary", maintain_order=True):
            name = str(keys[0])
            one = look[name]
            if small:
                draw_certificate(axis, part, ADVERSARIES[power(name)], width=0.9)
                continue
            draw_certificate(axis, part, one.colour, dashes=one.dashes, width=1.2)
            ends[name] = max(float(part["certificate"][-1]), bottom)
        bound = mine.filter(pl.col("adversary") == mine["adversary"].first())
        bound = bound.select("round", "guarantee").fill_nan(None).drop_nulls()
        draw_guarantee(axis, bound, width=1.2 if small else 2)
        rounds, guarantees = bound.to_numpy().T
        start, end = int(0.3 * len(rounds)), int(0.55 * len(rounds))
        if end > start:
            (x, x2), (y, y2) = rounds[[start, end]], guarantees[[start, end]] * 1.04
            size = 6.5 if small else 8.5
            along(axis, "guarantee", x, y, x2, y2, fontweight="bold", color=INK, fontsize=size)
        name_lines(axis, ends, look)
    label_axes(axes, "round t", "certificate" if small else "certificate (sum over rounds so far)")
    return figure


FIGURES: dict[str, AgainstRounds | Drawing] = {
    "distance": AgainstRounds(
        with_distance, distance_curves, _distance_headline, "distance to calibration (sum over rounds)"
    ),
    "ece": AgainstRounds(
        lambda results: over_seeds(results, "ece", "ece"),
        lambda spec: (LINEAR, *bound_curve(spec, "bound on its distance")),
        _ece_headline,
        "expected calibration error (sum over rounds)",
    ),
    "regret": AgainstRounds(with_regret, regret_curves, _regret_headline, "Brier regret (sum over rounds)"),
    "trajectories": Drawing(prepare_trajectories, draw_trajectories),
}
"""The figures of this module by name."""
