"""Data sets of forecasts of matches, and who won them, in the form of river's data sets.

The file is part of the package and is never written. Its columns, their order and the order of its rows are
what examples and documentation rely on. `tables/files.py` reads the same file where commands are given `nba`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from river import stream
from river.datasets import base


class NBAGames(base.FileDataset):
    """FiveThirtyEight's forecasts of 8,886 basketball games, and who won.

    There is a forecast before each game of the National Basketball Association from October 2015 to June
    2022, in the order of their days. Each iteration gives all pairs (x, y), as river's data sets do. The dict
    x has `date` (a datetime.date), `season` (an int, the year in which it ends), `home` and `away` (names of
    teams) and `forecast` (the probability, before the game, that the home team wins); y is True if the home
    team won, else False. The file, a CSV packed by gzip with the column `home_won` (0 or 1) for y, is at
    `path`. It comes with the package.

    The forecasts are too high for the home teams: they are .619 on average, and .572 of the home teams won.
    The games of a day were forecast before any of them was over.

    Examples
    --------
    >>> from onlinecal import datasets
    >>> games = datasets.NBAGames()
    >>> x, y = next(iter(games))
    >>> x["date"].isoformat(), x["home"], x["away"], x["forecast"], y
    ('2015-10-27', 'Warriors', 'Pelicans', 0.83336, True)

    >>> import polars as pl
    >>> pl.read_csv(games.path, try_parse_dates=True).shape
    (8886, 6)

    References
    ----------
    FiveThirtyEight, "Checking our work", github.com/fivethirtyeight/checking-our-work-data, the file
    nba_games.csv; licence CC BY 4.0, creativecommons.org/licenses/by/4.0. Changed: in the order of days, the
    home team's columns alone, probabilities rounded to five digits.
    """

    def __init__(self) -> None:
        super().__init__(
            n_samples=8_886,
            n_features=5,
            task=base.BINARY_CLF,
            filename="nba_games.csv.gz",
            directory=Path(__file__).parent,
        )

    def __iter__(self) -> Iterator[tuple[dict[str, Any], bool]]:
        return stream.iter_csv(
            self.path,
            target="home_won",
            converters={
                "date": datetime.date.fromisoformat,
                "season": int,
                "forecast": float,
                "home_won": lambda text: text == "1",
            },
        )
