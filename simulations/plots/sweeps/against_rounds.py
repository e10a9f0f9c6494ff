"""Measures against T, and certificates as the games go on: a panel per forecaster, a line per adversary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onlinecal.plots import style
from simulations.games import players
from simulations.plots import Drawing
from simulations.sweeps.results import LEAST


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


def over_seeds(results: pl.DataFrame, upper: str, lower: str, *more: pl.Expr) -> pl.DataFrame:
    """Per forecaster, adversary and rounds, columns line, low, high, seeds, and more.

    Of one game the line is `upper` and the band reaches from `lower` to it. Of several seeds the line is the
    median of `upper`, the band reaches from the smallest to the largest.
    """
    one = pl.len() == 1
    return results.group_by("forecaster", "adversary", "rounds", maintain_order=True).agg(
        pl.col(upper).median().alias("line"),
        pl.when(one).then(pl.col(lower).min()).otherwise(pl.col(upper).min()).alias("low"),
        pl.col(upper).max().alias("high"),
        pl.len().cast(pl.Int64).alias("seeds"),
        *more,
    )


def bands_mean(table: pl.DataFrame, one_seed: str) -> str:
    """What lines and bands are, for the line below the headline."""
    seeds = int(style.highest(table["seeds"]))
    if seeds == 1:
        return one_seed
    return f"Lines: the median of {seeds} seeds. Bands: from the smallest to the largest."


def bound_curve(
    spec: str, begin: str = "its bound", end: str = "", times: float = 1.0, below: bool = False
) -> tuple[Curve, ...]:
    """The bound of a forecaster, so many times, as the strong curve of its panel; none if there is none."""
    player = players.create(spec)
    if player.bound(1) is None:
        return ()
    label = " ".join(f"{begin} {player.bound_label or ''} {end}".split())
    return (Curve(label, lambda T: times * (player.bound(int(T)) or math.nan), strong=True, below=below),)


def distance_curves(spec: str) -> Sequence[Curve]:
    """The forecaster's own bound, the paper's, and the rate that no forecaster can beat everywhere."""
    own = players.create(spec).bound(10**6)
    crowded = own is not None and own < PAPER.value(10**6) < 1.5 * own
    return (LOWER, PAPER, *bound_curve(spec, below=crowded or spec == "sign"))


def draw_band(axis: Axes, games: pl.DataFrame, look: style.Look, alpha: float, **style: Any) -> float:
    """A line against T and its band, as faint as alpha says; where the line ends."""
    rounds, line, low, high = games.select("rounds", "line", "low", "high").to_numpy().T
    axis.fill_between(rounds, low, high, color=look.colour, alpha=alpha, lw=0)
    style = {"color": look.colour, "ls": look.dashes, "marker": look.marker, **style}
    axis.plot(rounds, line, clip_on=False, zorder=3, **style)
    return float(line[-1])


@dataclass(frozen=True)
class AgainstRounds:
    """A figure of one measure: a panel per forecaster, log-log; a band is its bracket, or other seeds.

    `axis` is what the vertical axis says, `upper` and `lower` are columns of results, see `over_seeds`. The
    first of the `titles` is for games that all had a proven bound. `below` says what lines are if there is
    one seed, and what else is to be said. So many `times` the bound on the distance is a bound on the
    measure; None: none is kept. `lifted`: less than half a round is lifted to it.
    """

    axis: str
    upper: str
    lower: str
    curves: Callable[[str], Sequence[Curve]]
    titles: tuple[str, str]
    below: tuple[str, str]
    times: float | None = None
    lifted: bool = False

    def prepare(self, results: pl.DataFrame) -> pl.DataFrame:
        """Columns as of `over_seeds`, and `bound`, null where nothing is proven."""
        bound = [] if self.times is None else [pl.col("bound").first().cast(pl.Float64) * self.times]
        table = over_seeds(results, self.upper, self.lower, *bound)
        return table.with_columns(pl.col("line", "low", "high").clip(LEAST if self.lifted else None))

    @style.in_house_style
    def draw(self, table: pl.DataFrame) -> Figure:
        """The figure."""
        proven = "bound" not in table.columns or table["bound"].null_count() == 0
        one_seed, more = self.below
        below = bands_mean(table, one_seed) + more
        figure, axes, look = forecaster_panels(table, self.titles[not proven], below)
        theory = {spec: self.curves(spec) for spec in axes}
        first, last = style.lowest(table["rounds"]), style.highest(table["rounds"])
        room = 1.15 if last > first else 3
        left, right = first / room, last * room
        top = max(
            [style.highest(table["high"]), *(one.value(right) for some in theory.values() for one in some)]
        )
        bottom = max(style.lowest(table.filter(pl.col("line") > 0)["line"]) or 1.0, top / 1e6)
        shown = table.with_columns(pl.col("line", "low", "high").clip(lower_bound=bottom))
        for spec, axis in axes.items():
            limits: Any = {"xlim": (left, right), "ylim": (bottom / 1.6, top * 1.6)}
            axis.set(xscale="log", yscale="log", xlabel="rounds T", ylabel=self.axis, **limits)
            axis.minorticks_off()
            ends = {
                name: draw_band(axis, games, look[name], 0.18, lw=1.4, ms=3.5, solid_capstyle="round")
                for name, games in lines_of(shown, spec)
            }
            for curve in theory[spec]:
                draw_curve(axis, curve, left, right)
            style.name_lines(axis, ends, look)
        return figure


def lines_of(
    table: pl.DataFrame, panel: str, key: str = "forecaster", by: str = "adversary"
) -> list[tuple[str, pl.DataFrame]]:
    """The rows of one panel, those of each line by its name."""
    games = table.filter(pl.col(key) == panel).group_by(by, maintain_order=True)
    return [(str(names[0]), part) for names, part in games]


def forecaster_panels(
    table: pl.DataFrame, title: str, below: str
) -> tuple[Figure, dict[str, Axes], dict[str, style.Look]]:
    """A panel per forecaster by its spec, and a look per adversary."""
    specs, against = (
        table[name].unique(maintain_order=True).to_list() for name in ("forecaster", "adversary")
    )
    titles = [f"{spec} – {players.create(spec).family.summary}" for spec in specs]
    figure, axes = style.panels(titles, against, abreast=2 if len(specs) <= 6 else 4)
    style.headline(figure, title, below)
    return figure, dict(zip(specs, axes, strict=True)), style.looks(against)


def draw_curve(axis: Axes, curve: Curve, left: float, right: float) -> None:
    """A curve of the theory with its label along it, near the left end."""
    rounds = np.geomspace(left, right, 100)
    values = [curve.value(math.ceil(T)) for T in rounds]
    colour, dashes, width, zorder = (style.INK, "-", 2.0, 4) if curve.strong else (style.QUIET, "--", 1.1, 2)
    axis.plot(rounds, values, color=colour, ls=dashes, lw=width, zorder=zorder)
    start = int(curve.at * len(rounds))
    shift = 0.86 if curve.below else 1.0
    (x, x2), (y, y2) = rounds[[start, start + 20]], (shift * values[start], shift * values[start + 20])
    weight = "bold" if curve.strong else "normal"
    va = "top" if curve.below else "bottom"
    style.along(axis, curve.label, x, y, x2, y2, color=colour, va=va, fontweight=weight)


def prepare_trajectories(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The longest games of the first seed: columns forecaster, adversary, round, certificate, guarantee."""
    longest = trajectories.filter(
        pl.col("rounds") == pl.col("rounds").max(), pl.col("seed") == pl.col("seed").first()
    )
    return longest.select("forecaster", "adversary", "round", "certificate", "guarantee")


@style.in_house_style
def draw_trajectories(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: a line per adversary, the guarantee in black."""
    figure, axes, look = forecaster_panels(
        table,
        "At every moment of a game the forecaster can prove how calibrated it has been",
        "The certificate, a proven upper bound on the distance to calibration so far, a line per adversary. "
        "Black: the guarantee given beforehand.",
    )
    last = int(style.highest(table["round"]))
    top = style.highest(table["guarantee"], table["certificate"])
    bottom = 0.3 if top > 3 else top / 10
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(1, last * 1.05), ylim=(bottom / 1.5, top * 1.8))
        axis.set(xlabel="round t", ylabel="certificate (sum over rounds so far)")
        axis.minorticks_off()
        ends = {}
        for name, part in lines_of(table, spec):
            one, proven = look[name], part["certificate"]
            axis.plot(part["round"], proven, color=one.colour, ls=one.dashes, lw=1.2, zorder=3)
            ends[name] = max(float(proven[-1]), bottom)
        style.name_lines(axis, ends, look)
        first = table.filter(forecaster=spec, adversary=next(iter(ends)))
        bound = first.select("round", "guarantee").fill_nan(None).drop_nulls()
        axis.plot(bound["round"], bound["guarantee"], color=style.INK, lw=2, zorder=4)
        rounds, guarantees = bound.to_numpy().T
        start, end = int(0.3 * len(rounds)), int(0.55 * len(rounds))
        if end > start:
            (x, x2), (y, y2) = rounds[[start, end]], guarantees[[start, end]] * 1.04
            style.along(axis, "guarantee", x, y, x2, y2, fontweight="bold", color=style.INK)
    return figure


MEASURES = {
    "distance": AgainstRounds(
        "distance to calibration (sum over rounds)",
        "distance_upper",
        "distance_lower",
        distance_curves,
        titles=(
            "No adversary pushes the distance to calibration past its bound",
            "No adversary pushes the distance to calibration past a bound, where one is proven",
        ),
        below=(
            "One line per adversary: the proven upper end of the distance; bands reach down to the proven "
            "lower end.",
            " No forecaster can grow slower than T^(1/3) against everyone.",
        ),
        times=1.0,
    ),
    "ece": AgainstRounds(
        "expected calibration error (sum over rounds)",
        "ece",
        "ece",
        lambda spec: (LINEAR, *bound_curve(spec, "bound on its distance")),
        titles=("The usual calibration error (ECE) of the same games can grow with T itself",) * 2,
        below=(
            "Answer 1 to forecasts just below 0.5 and 0 to those just above: ECE counts every round half "
            "wrong, though a nudge would calibrate them.",
            "",
        ),
    ),
    "regret": AgainstRounds(
        "Brier regret (sum over rounds)",
        "regret",
        "regret",
        lambda spec: bound_curve(spec, "2 × the bound", "on its distance", 2.0),
        titles=(
            "No adversary makes a forecaster regret more than twice the bound on its distance",
            "No adversary drives the regret past twice a distance that is proven",
        ),
        below=(
            "One line per adversary: Brier score less that of the best constant in hindsight.",
            " At the bottom, half a round or less: hardly worse than that constant, or better.",
        ),
        times=2.0,
        lifted=True,
    ),
}
TRAJECTORIES = Drawing(prepare_trajectories, draw_trajectories)
FIGURES = {
    **{name: Drawing(measure.prepare, measure.draw) for name, measure in MEASURES.items()},
    "trajectories": TRAJECTORIES,
}
"""The figures of this module by name."""
