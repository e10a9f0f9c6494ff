"""What to remember of a sweep: how near each forecaster came to its bounds, and whether all of them held."""

from __future__ import annotations

import msgspec
import polars as pl

from simulations.games.measuring import Measured


def summarise(results: pl.DataFrame) -> pl.DataFrame:
    """Per forecaster: games, the largest distance / sqrt(T) and distance / guarantee, and against whom."""
    ratios = results.with_columns(
        over_root=pl.col("distance_upper") / pl.col("rounds").sqrt(),
        over_guarantee=pl.col("distance_upper") / pl.col("guarantee"),
    ).with_columns(game=pl.format("{}, T = {}", "adversary", "rounds"))
    return ratios.group_by("forecaster", maintain_order=True).agg(
        pl.len().alias("games"),
        pl.col("over_root").max().alias("worst_over_root"),
        pl.col("game").get(pl.col("over_root").arg_max()).alias("worst_over_root_against"),
        pl.col("over_guarantee").max().alias("worst_over_guarantee"),
        pl.col("game").get(pl.col("over_guarantee").arg_max()).alias("worst_over_guarantee_against"),
    )


def broken_bounds(results: pl.DataFrame) -> list[str]:
    """One line for each bound that a game did not keep; empty if every bound held."""
    # results of before windows lack their columns
    fields = [field.name for field in msgspec.structs.fields(Measured) if field.name in results.columns]
    lines = []
    for row in results.select(fields).to_dicts():
        game = Measured(**row)
        where = f"{game.forecaster} against {game.adversary}, T = {game.rounds}, seed {game.seed}"
        lines += [f"BROKEN: {broken} ({where})" for broken in game.broken_bounds()]
    return lines
