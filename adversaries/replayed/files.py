"""Streams from files."""

from __future__ import annotations

from pathlib import Path

from adversaries.replayed.streams import Stream
from onlinecal.rounds import read_history


def replay_file(
    path: str | Path,
    outcome: str = "outcome",
    forecast: str | None = None,
    time: str | None = None,
    sort: str | None = None,
) -> Stream:
    """A stream from a CSV (.csv, .tsv), JSON Lines (.jsonl, .ndjson), Parquet (.parquet, .pq) or NPZ file.

    Parameters
    ----------
    path
        The file; its extension says how to read it, also with .gz; "-" is standard input. A CSV starts with
        a header; fields are apart by commas, semicolons, tabs or bars.
    outcome
        The column of outcomes: 0 and 1, or booleans (as texts also true/false, yes/no, in any case).
    forecast
        The column of forecasts made for them, in [0, 1], which become the hints; None for no hints.
    time
        A column to keep as the stream's `times`; None for none. It does not change the order.
    sort
        The column to order the rounds by, smallest first; rows that are equal in it keep their order. None:
        the order of the file.

    Returns
    -------
    Stream
        Named after the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        For an unknown extension, a file that cannot be read as what its extension says, a missing column
        (the columns are listed), no rounds at all, an outcome that is neither 0/1 nor boolean, a forecast
        that is missing or outside [0, 1], or a missing value in the column to sort by. Rows are those of the
        file, the first one after a header being row 0.
    """
    return Stream(*read_history(path, outcome, forecast, time, sort))
