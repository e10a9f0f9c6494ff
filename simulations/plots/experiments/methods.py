"""What figures of several recalibrations share: a look for each method, means and spans over splits."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import FixedLocator, NullLocator

from onlinecal.plots.style import OKABE_ITO, QUIET, Look

GAPS = ("mean_gap", "worst_gap")
MEASURES = (*GAPS, "loss_change")
TITLES = {
    "mean_gap": "mean gap over the losses",
    "worst_gap": "worst gap over the losses",
    "loss_change": "loss that comes, less that of “as they came”",
}
TICKS = [digit * 10.0**power for power in range(-6, 2) for digit in (1, 2, 5)]


def _look(colour: str, marker: str, dashes: str | tuple[float, tuple[float, ...]] = "-") -> Look:
    red, green, blue = to_rgb(colour)
    return Look(colour, (0.72 * red, 0.72 * green, 0.72 * blue), dashes, marker)


METHODS = {
    "none": _look(OKABE_ITO[1], "o"),
    "temperature": _look(OKABE_ITO[2], "s"),
    "vector scaling": _look(OKABE_ITO[5], "D"),
    "isotonic per class": _look(OKABE_ITO[4], "^"),
    "isotonic top label": _look("#555555", "v", (0, (1.2, 1.2))),
    "Dirichlet": _look(OKABE_ITO[3], "P"),
    "decision": _look(OKABE_ITO[0], "o"),
    "chance": _look(QUIET, "", (0, (4, 1.5))),
}
"""In the order of keys; colours as of `plots/recalibration/decisions.py`, markers for those who see none."""
CALLED = {"none": "as they came", "chance": "perfect probabilities (dashed)"}


def summary(rows: pl.DataFrame, pair: Sequence[str], by: Sequence[str]) -> pl.DataFrame:
    """A row for each combination of `by`, method and measure: mean, deviation, low and high over splits.

    The measure loss_change is the loss that comes less that of the probabilities as they came in the same
    split with the same `pair`. Columns file, n_losses, n_actions, n_splits, n_fit, n_test say what of.
    """
    none = rows.filter(method="none").select("split", *pair, pl.col("loss").alias("of_none"))
    wide = rows.join(none, on=["split", *pair], how="left").with_columns(
        (pl.col("loss") - pl.col("of_none")).alias("loss_change")
    )
    told = ("file", "n_losses", "n_actions", "n_fit", "n_test")
    long = wide.unpivot([*MEASURES, "loss"], index=[*by, "method", *told], variable_name="measure")
    value = pl.col("value")
    return long.group_by([*by, "method", "measure"], maintain_order=True).agg(
        value.mean().alias("mean"),
        value.std().alias("deviation"),
        value.min().alias("low"),
        value.max().alias("high"),
        pl.len().alias("n_splits"),
        pl.col("file", "n_losses", "n_actions").first(),
        pl.col("n_fit", "n_test").mean().round(0).cast(pl.Int64),
    )


def shown_methods(table: pl.DataFrame) -> list[str]:
    """The methods of a table in the order of keys."""
    found = set(table["method"].to_list())
    return [name for name in METHODS if name in found]


def words(names: Sequence[str]) -> list[tuple[str, str]]:
    """Names and the colours of their words, for a colour key."""
    return [(CALLED.get(name, name), METHODS[name].colour) for name in names]


def line(axis: Axes, name: str, x: Sequence[float], rows: pl.DataFrame) -> None:
    """A method's means with bars from the lowest split to the highest."""
    look, ours = METHODS[name], name == "decision"
    mean = rows["mean"].to_numpy()
    reach = [mean - rows["low"].to_numpy(), rows["high"].to_numpy() - mean]
    axis.errorbar(
        x, mean, None if name == "chance" else reach, color=look.colour, ls=look.dashes,
        marker=look.marker, lw=2.2 if ours else 1.4, ms=5.5 if ours else 4.5, mec="white", mew=0.5,
        elinewidth=0.9, capsize=0, zorder=5 if ours else 4,
    )  # fmt: skip


def gap_axis(axis: Axes) -> None:
    """A logarithmic axis of gaps with round numbers written out, within the limits there are."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.yaxis.set_major_locator(FixedLocator(ticks))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_yticklabels([f"{tick:g}" for tick in ticks])


def sampled(table: pl.DataFrame, rows: str | None = None) -> str:
    """What the numbers are of, for the line below the headline: rows, splits and losses."""
    one = table.row(0, named=True)
    rows = rows or f"{one['n_fit']:,} rows fitted, {one['n_test']:,} tested"
    return (
        f"{one['file']}: {rows}; mean and span of {one['n_splits']} random splits; "
        f"{one['n_losses']} Gaussian losses"
    )
