"""When the outcomes of a column become known, and to which forecasts: in time, late, by silence, or never.

Nothing here has a state, and what comes out never changes. What always holds of a `Settling`: `known` never
decreases, a row is settled once at most, and every row that is settled by silence is one of those that are
settled. The rows of a `Group` are numbered from 0 in its schedule, and as in the column in `rows` and
`known`. The order in which rows settle, by `known` and then by time and row, is part of answers. That times
of forecasts do not decrease, and that all columns are comparable, `tables/times.py` checks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Ints
from onlinecal.steering.replaying import Schedule
from onlinecal.tables.columns import check_keys, check_same_length, check_vector
from onlinecal.tables.frames import missing_in, objects_of
from onlinecal.tables.times import Times, in_time, read_times, row_numbers
from onlinecal.texts import shown


class Settling(NamedTuple):
    """How T rows are settled, n of them."""

    rows: Ints
    """Shape (n,): those that are settled, in the order in which that happens."""
    known: Ints
    """Shape (n,): for each of them the first row whose forecast knows it."""
    waits: NDArray[np.bool_]
    """Shape (T,): which rows stay open until they are settled, or for ever; the others are given up as soon
    as they are forecast."""
    silent: NDArray[np.bool_]
    """Shape (T,): which rows are settled because they were due, and no outcome had come by then."""
    settles: NDArray[np.bool_]
    """Shape (T,): which rows are settled at all."""


class Group(NamedTuple):
    """One stream among those of a column: its key, its rows, and in which order these settle."""

    key: Hashable
    rows: Ints
    schedule: Schedule
    known: Ints
    """For each row that settles, in that order, the first row of the column that knows it."""


def missing_of(outcomes: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Outcomes as an array or Python's objects, and which of T are missing, shape (T,); None if none is.

    ValueError for what is no column.
    """
    if isinstance(outcomes, list | tuple):
        # of texts and None numpy would make texts
        values: Any = objects_of(outcomes, "outcomes")
        missing = np.fromiter((value is None for value in values), bool, len(values))
    else:
        values = check_vector(outcomes, "outcomes")
        missing = missing_in(values)
    return values, missing if missing.any() else None


def completed(outcomes: Any, missing: NDArray[np.bool_], instead: Any) -> Any:
    """Outcomes without gaps: in place of each missing one stands the first that is there, else `instead`."""
    if isinstance(outcomes, list):
        pairs = list(zip(outcomes, missing, strict=True))
        filler = next((outcome for outcome, is_missing in pairs if not is_missing), instead)
        return [filler if is_missing else outcome for outcome, is_missing in pairs]
    values = outcomes.copy()
    values[missing] = instead if missing.all() else values[~missing][0]
    return values


@dataclass(frozen=True, eq=False)
class Moments:
    """When T forecasts were made, when their outcomes became known, and when their rows are due.

    Each is a column of times, or None if nothing was said of it. `due` may also be a span.
    """

    made: Times | None
    came: Times | None
    due: Any

    def came_or_made(self, missing: NDArray[np.bool_]) -> Times:
        """When outcomes became known. If nothing was said, each was known when its own forecast was made."""
        if self.came is not None:
            return self.came
        made = row_numbers(len(missing)) if self.made is None else self.made
        return replace(made, name="settled_at", missing=missing)


def read_moments(length: int, settled_at: ArrayLike | None, times: ArrayLike | None, due: Any) -> Moments:
    """The columns of so many rows, as users give them; see `recalibrate_stream`."""
    made = None if times is None else read_times(times, "times", length)
    came = None
    if settled_at is not None:
        if isinstance(settled_at, (timedelta, date, np.generic, Real)):
            raise ValueError(
                f"settled_at must have a time for each row, got {shown(settled_at)}: a span after every "
                "forecast is times + span"
            )
        came = read_times(settled_at, "settled_at", length)
    if due is not None and not is_span(due):
        due = read_times(due, "due", length)
    return Moments(made, came, due)


def is_span(due: Any) -> bool:
    """Whether this is one span after all rows, not a time for each."""
    return isinstance(due, (str, timedelta, np.generic, Real))


def settling_of(
    length: int, missing: NDArray[np.bool_] | None, moments: Moments, later: bool = False
) -> Settling:
    """How so many rows are settled, some of whose outcomes may be missing. There are three modes.

    Without `came` and `due` each outcome is known before the next row is forecast. A row without an outcome
    is given up; with `later` it stays open.

    With `came` alone each outcome is known from its time there on. Rows without an outcome are as above.

    With `due` every row waits until it is due, and is settled once that time is over: once a later forecast
    was made, or a later outcome came. An outcome that came before is kept until then. Where silence means no,
    the outcomes that come are all yes: if they were settled first, the early ones would be of one kind.
    """
    rows, no_row = np.arange(length), np.zeros(length, bool)
    has_outcome = ~no_row if missing is None else ~missing
    made, came, due = moments.made, moments.came, moments.due
    waits = ~no_row if later or due is not None else has_outcome
    if came is None and due is None:
        if made is None:
            return Settling(rows[has_outcome], rows[has_outcome] + 1, waits, no_row, has_outcome)
        if not later or has_outcome.any():
            raise ValueError(
                "times needs settled_at or due, got None for both: leave times out, or give one of them"
            )
        came = moments.came_or_made(~no_row)
    columns = [] if came is None else [came]
    if due is not None:
        columns.append(
            (row_numbers(length) if made is None else made).later_by(due, "due") if is_span(due) else due
        )
    # where an outcome is missing, `settled_at` may be missing, too
    needs_time = None if came is None else has_outcome
    advice = "give the times of the forecasts as times=, from the column's first rows on"
    made_at, *then = in_time(columns, made, advice, needs_time)
    came_at = made_at if came is None else then[0]
    if due is None:
        settles_at, settles, silent = came_at, has_outcome, no_row
    else:
        settles_at = then[-1]
        last_moment = max(made_at[-1], came_at[has_outcome].max(initial=made_at[-1]))
        settles = settles_at < last_moment
        silent = settles & ~(has_outcome & (came_at <= settles_at))
    known = np.searchsorted(made_at, settles_at, side="right")
    order = rows[settles][np.lexsort((settles_at[settles], known[settles]))]
    return Settling(order, known[order], waits, silent, settles)


class Keys(NamedTuple):
    """The keys of T rows, numbered as they first come, and the number of each row's key, shape (T,)."""

    numbers: dict[Hashable, int]
    of_row: Ints

    def followed_by(self, others: Keys) -> Keys:
        """Those of further rows behind these."""
        numbers = dict(self.numbers)
        again = np.array([numbers.setdefault(key, len(numbers)) for key in others.numbers], np.int64)
        check_keys(numbers)
        return Keys(numbers, np.concatenate([self.of_row, again[others.of_row]]))


def groups_of(groups: Keys | None, settling: Settling) -> list[Group]:
    """The streams among the rows, in the order in which they begin; one of all rows without groups."""
    length = len(settling.waits)
    keys, of_row = Keys({None: 0}, np.zeros(length, np.int64)) if groups is None else groups
    number, streams = len(keys), []
    rows_by_key = _split(np.arange(length), of_row, number)
    settled_by_key = _split(np.arange(len(settling.rows)), of_row[settling.rows], number)
    for key, rows, places in zip(keys, rows_by_key, settled_by_key, strict=True):
        order, known = np.searchsorted(rows, settling.rows[places]), settling.known[places]
        schedule = Schedule(order, np.searchsorted(rows, known), settling.waits[rows])
        streams.append(Group(key, rows, schedule, known))
    return streams


def _split(values: Ints, numbers: Ints, count: int) -> list[Ints]:
    """The values with each number, in their order."""
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    return np.split(values[np.argsort(numbers, kind="stable")], ends[:-1])


def read_keys(groups: Any, length: int) -> Keys:
    """A column of keys, one for each of so many rows."""
    keys = objects_of(groups, "groups")
    check_same_length(range(length), keys, "probabilities and groups")
    numbers: dict[Hashable, int] = {}
    of_row = []
    for row, key in enumerate(keys):
        try:
            of_row.append(numbers.setdefault(key, len(numbers)))
        except TypeError as error:
            raise ValueError(
                f"groups must be keys with a hash, as texts or numbers, got {shown(key)} at row {row}: give "
                "str(...) of each"
            ) from error
    for key, number in numbers.items():
        if key is None or key != key:
            row = of_row.index(number)
            raise ValueError(
                f"groups must have a key for every row, got {key!r} at row {row}: give one, or leave the row "
                "out"
            )
    check_keys(numbers)
    return Keys(numbers, np.array(of_row, np.int64))
