"""Measures against T, and certificates as the games go on: a panel per forecaster, a line per adversary.

In pictures with many lines the colour says the group; names say the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
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
from simulations.plots import Drawing, look_of
from simulations.sweeps.results import LEAST

PROVEN = "proven in every game"


def forecaster_group(spec: str) -> str:
    """One of the groups of `FORECASTERS`."""
    player = players.create(spec)
    if player.family.kind != "deterministic":
        return player.family.kind
    return "deterministic" if player.bound(100) is None else PROVEN


def power(spec: str) -> str:
    """What an adversary sees; recorded streams and others that no catalogue knows see nothing."""
    kind = adversaries.catalogue().get(spec.partition(":")[0])
    return POWERS[0] if kind is None else kind.power


@dataclass(frozen=True)
class Groups:
    """What tells players apart where there are many: the group of a spec, and each group's word and colour.

    The groups are in the order of the pictures.
    """

    of: Callable[[str], str]
    words: Mapping[str, tuple[str, str]]

    def colour(self, spec: str) -> str:
        """The colour of a player's group."""
        return self.words[self.of(spec)][1]

    def order(self, specs: Iterable[str]) -> list[str]:
        """By group, otherwise as they come."""
        return sorted(specs, key=lambda spec: list(self.words).index(self.of(spec)))

    def key(self, specs: Iterable[str]) -> list[tuple[str, str]]:
        """Words and colours of the groups that occur."""
        present = set(map(self.of, specs))
        return [word for group, word in self.words.items() if group in present]

    def looks(self, specs: Sequence[str]) -> dict[str, Look]:
        """A look for each: the colour of its group, with other dashes and markers from one to the next."""
        answer = {}
        seen: dict[str, int] = {}
        for spec in specs:
            group = self.of(spec)
            place = seen[group] = seen.get(group, -1) + 1
            marker = (*MARKERS, "D", "v", "P")[place % 6]
            answer[spec] = look_of(self.colour(spec), DASHES[place % len(DASHES)], marker)
        return answer


FORECASTERS = Groups(
    forecaster_group,
    {
        PROVEN: ("distance proven in every game", "#0072B2"),
        "deterministic": ("deterministic, nothing proven", "#D55E00"),
        "randomised": ("randomised", "#009E73"),
        "reference": ("answers after the outcome", "#777777"),
    },
)
ADVERSARIES = Groups(
    power,
    {
        "oblivious": ("nothing", "#0072B2"),
        "adaptive": ("forecasts", "#D55E00"),
        "internal": ("certificates too", "#CC79A7"),
        "mixed": ("as its players do", "#009E73"),
    },
)


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
    seeds = int(highest(table["seeds"]))
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


def draw_band(axis: Axes, games: pl.DataFrame, look: Look, alpha: float, **style: Any) -> float:
    """A line against T and its band, as faint as alpha says; where the line ends."""
    rounds, line, low, high = games.select("rounds", "line", "low", "high").to_numpy().T
    axis.fill_between(rounds, low, high, color=look.colour, alpha=alpha, lw=0)
    style = {"color": look.colour, "ls": look.dashes, "marker": look.marker, **style}
    axis.plot(rounds, line, clip_on=False, zorder=3, **style)
    return float(line[-1])


def name_top(
    axis: Axes, ends: Mapping[str, float], words: Callable[[str], str], colour: Callable[[str], Any]
) -> None:
    """Say in the upper corner, with these words in this colour, which line ends highest."""
    name = max(ends, key=ends.__getitem__)
    axis.text(
        0.03, 0.98, words(name), transform=axis.transAxes, va="top", fontsize=7, color=colour(name),
        zorder=6, path_effects=HALO,
    )  # fmt: skip


@dataclass(frozen=True)
class AgainstRounds:
    """A figure of one measure: a panel per forecaster, log-log; a band is its bracket, or other seeds.

    With more than a few forecasters the panels are small: colours then say what an adversary sees, and only
    the one on top is named.

    Attributes
    ----------
    axis
        What the vertical axis says.
    upper, lower
        The measure's columns in the table of results, see `over_seeds`.
    curves
        The curves of the theory, for a forecaster's spec.
    titles
        What is seen, where every game had a proven bound, and where some had none.
    below
        What lines are if there is one seed, and what else is to be said.
    times
        So many times the bound on the distance is a bound on the measure; None: none is kept.
    lifted
        Whether less than half a round is lifted to it; the column of this name has the medians as they were.
    """

    axis: str
    upper: str
    lower: str
    curves: Callable[[str], Sequence[Curve]]
    titles: tuple[str, str]
    below: tuple[str, str]
    times: float | None = None
    lifted: str | None = None

    def prepare(self, results: pl.DataFrame) -> pl.DataFrame:
        """Columns as of `over_seeds`, and `bound`, null where nothing is proven."""
        more = [] if self.lifted is None else [pl.col(self.upper).median().alias(self.lifted)]
        if self.times is not None:
            more.append(pl.col("bound").first().cast(pl.Float64) * self.times)
        table = over_seeds(results, self.upper, self.lower, *more)
        least = None if self.lifted is None else LEAST
        return table.with_columns(pl.col("line", "low", "high").clip(lower_bound=least))

    @in_house_style
    def draw(self, table: pl.DataFrame) -> Figure:
        """The figure."""
        proven = "bound" not in table.columns or table["bound"].null_count() == 0
        one_seed, more = self.below
        figure, axes, look, small = forecaster_panels(
            table,
            self.titles[not proven],
            bands_mean(table, one_seed) + more,
            "A line per adversary; it sees",
        )
        theory = {spec: self.curves(spec) for spec in axes}
        first, last = lowest(table["rounds"]), highest(table["rounds"])
        room = 1.15 if last > first else 3
        left, right = first / room, last * room
        top = max([highest(table["high"]), *(one.value(right) for some in theory.values() for one in some)])
        bottom = max(lowest(table.filter(pl.col("line") > 0)["line"], empty=1.0), top / 1e6)
        shown = table.with_columns(pl.col("line", "low", "high").clip(lower_bound=bottom))
        for axis in axes.values():
            axis.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom / 1.6, top * 1.6))
            axis.minorticks_off()
        label_axes(axes, "rounds T", self.axis.partition(" (")[0] if small else self.axis)
        style = {"lw": 1.0 if small else 1.4, "ms": 3.5, "solid_capstyle": "round"}
        for place, (spec, axis) in enumerate(axes.items()):
            ends = {
                name: draw_band(axis, games, look[name], 0.1 if small else 0.18, **style)
                for name, games in lines_of(shown, spec)
            }
            for curve in theory[spec]:
                draw_curve(axis, curve, left, right, small, not small or curve.strong or place == 0)
            if small:
                name_top(axis, ends, "on top: {}".format, lambda name: look[name].colour)
            else:
                name_lines(axis, ends, look)
        return figure


def lines_of(
    table: pl.DataFrame, panel: str, key: str = "forecaster", by: str = "adversary"
) -> list[tuple[str, pl.DataFrame]]:
    """The rows of one panel, those of each line by its name."""
    games = table.filter(pl.col(key) == panel).group_by(by, maintain_order=True)
    return [(str(names[0]), part) for names, part in games]


def forecaster_panels(
    table: pl.DataFrame, title: str, below: str, key: str
) -> tuple[Figure, dict[str, Axes], dict[str, Look], bool]:
    """A titled panel per forecaster, a look per adversary, and whether the panels are small.

    In small panels the looks are those of what adversaries see.
    """
    forecasters, against = (
        table[name].unique(maintain_order=True).to_list() for name in ("forecaster", "adversary")
    )
    small = are_small(forecasters)
    figure, axes = panels(forecasters, against)
    headline(figure, title, below)
    if small:
        colour_key(figure, ADVERSARIES.key(against), key)
    for spec, axis in axes.items():
        text = spec if small else f"{spec} – {players.create(spec).family.summary}"
        title_panel(axis, text, 9 if small else 11)
    look = {name: look_of(ADVERSARIES.colour(name)) for name in against} if small else looks(against)
    return figure, axes, look, small


def draw_curve(axis: Axes, curve: Curve, left: float, right: float, small: bool, named: bool) -> None:
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


def prepare_trajectories(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The longest games of the first seed: columns forecaster, adversary, round, certificate, guarantee."""
    longest = trajectories.filter(
        pl.col("rounds") == pl.col("rounds").max(), pl.col("seed") == pl.col("seed").first()
    )
    return longest.select("forecaster", "adversary", "round", "certificate", "guarantee")


@in_house_style
def draw_trajectories(table: pl.DataFrame) -> Figure:
    """A panel per forecaster: a line per adversary, the guarantee in black."""
    figure, axes, look, small = forecaster_panels(
        table,
        "At every moment of a game the forecaster can prove how calibrated it has been",
        "The certificate, a proven upper bound on the distance to calibration so far, a line per adversary. "
        "Black: the guarantee given beforehand.",
        "The adversary sees",
    )
    last = int(highest(table["round"]))
    top = highest(table["guarantee"], table["certificate"])
    bottom = 0.3 if top > 3 else top / 10
    for spec, axis in axes.items():
        axis.set(xscale="log", yscale="log", xlim=(1, last * 1.05), ylim=(bottom / 1.5, top * 1.8))
        axis.minorticks_off()
        games = dict(lines_of(table, spec))
        for name, part in games.items():
            one = look[name]
            draw_certificate(axis, part, one.colour, dashes=one.dashes, width=0.9 if small else 1.2)
        first = next(iter(games.values()))
        bound = first.select("round", "guarantee").fill_nan(None).drop_nulls()
        draw_guarantee(axis, bound, width=1.2 if small else 2)
        rounds, guarantees = bound.to_numpy().T
        start, end = int(0.3 * len(rounds)), int(0.55 * len(rounds))
        if end > start:
            (x, x2), (y, y2) = rounds[[start, end]], guarantees[[start, end]] * 1.04
            size = 6.5 if small else 8.5
            along(axis, "guarantee", x, y, x2, y2, fontweight="bold", color=INK, fontsize=size)
        if not small:
            ends = {name: max(float(part["certificate"][-1]), bottom) for name, part in games.items()}
            name_lines(axis, ends, look)
    label_axes(axes, "round t", "certificate" if small else "certificate (sum over rounds so far)")
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
        lifted="regret",
    ),
}
TRAJECTORIES = Drawing(prepare_trajectories, draw_trajectories)
FIGURES = {
    **{name: Drawing(measure.prepare, measure.draw) for name, measure in MEASURES.items()},
    "trajectories": TRAJECTORIES,
}
"""The figures of this module by name."""
