"""The ends of columns are plain numbers, also where polars has nulls, NaN or nothing."""

import math

import polars as pl

from onlinecal.plots.numbers import highest, lowest


def test_the_ends_are_those_of_all_columns_together():
    columns = pl.Series([3, 1, None], dtype=pl.Int64), pl.Series([math.nan, 2.5, None, -0.5])
    assert (lowest(*columns), highest(*columns)) == (-0.5, 3.0)
    assert [type(end(*columns)) for end in (lowest, highest)] == [float, float]


def test_without_a_number_the_answer_is_what_one_asks_for():
    nothing = pl.Series([None, math.nan], dtype=pl.Float64), pl.Series([], dtype=pl.Int64)
    assert (lowest(*nothing), highest(*nothing)) == (0.0, 0.0)
    assert (lowest(*nothing, empty=7.0), highest(*nothing, empty=-7.0)) == (7.0, -7.0)
