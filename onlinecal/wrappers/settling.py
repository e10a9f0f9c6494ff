"""When the outcomes of a column become known, and to which forecasts: in time, late, by silence, or never.

Nothing here has a state, and what comes out never changes. What always holds of a `Settling`: `known` never
decreases, a row is settled once at most, and every row that is settled by silence is one of those that are
settled. The rows of a `Group` are numbered from 0 in its schedule, and as in the column in `rows` and
`known`.
"""

from __future__ import annotations

from collections.abc import Hashable
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


def settling_of(
    length: int,
    missing: NDArray[np.bool_] | None,
    settled_at: ArrayLike | None,
    times: ArrayLike | None,
    due: Any,
) -> Settling:
    """How so many rows are settled, some of whose outcomes may be missing. There are three modes.

    Without `settled_at` and `due` each outcome is known before the next row is forecast. A row without an
    outcome is given up.

    With `settled_at` alone each outcome is known from its time there on. A row without an outcome is given
    up.

    With `due` every row waits until it is due, and is settled once that time is over: once a later forecast
    was made, or a later outcome came. An outcome that came before is kept until then. Where silence means no,
    the outcomes that come are all yes: if they were settled first, the early ones would be of one kind.
    """
    rows, no_row = np.arange(length), np.zeros(length, bool)
    has_outcome = ~no_row if missing is None else ~missing
    if settled_at is None and due is None:
        if times is not None:
            raise ValueError("times say nothing without settled_at or due, got None for both")
        return Settling(rows[has_outcome], rows[has_outcome] + 1, has_outcome, no_row, has_outcome)
    made = None if times is None else read_times(times, "times", length)
    columns = []
    if settled_at is not None:
        if isinstance(settled_at, (timedelta, date, np.generic, Real)):
            raise ValueError(
                f"settled_at must have a time for each row, got {shown(settled_at)}: a span after every "
                "forecast is times + span"
            )
        columns.append(read_times(settled_at, "settled_at", length))
    if due is not None:
        columns.append(_due_times(due, made, length))
    # where an outcome is missing, `settled_at` may be missing, too
    needs_time = None if settled_at is None else has_outcome
    made_at, *later = in_time(columns, made, "give the times of the forecasts as times=", needs_time)
    came_at = made_at if settled_at is None else later[0]
    if due is None:
        settles_at, settles, waits, silent = came_at, has_outcome, has_outcome, no_row
    else:
        settles_at = later[-1]
        last_moment = max(made_at[-1], came_at[has_outcome].max(initial=made_at[-1]))
        settles, waits = settles_at < last_moment, ~no_row
        silent = settles & ~(has_outcome & (came_at <= settles_at))
    known = np.searchsorted(made_at, settles_at, side="right")
    order = rows[settles][np.lexsort((settles_at[settles], known[settles]))]
    return Settling(order, known[order], waits, silent, settles)


def _due_times(due: Any, made: Times | None, length: int) -> Times:
    """From when on each row is due: a time for each, or one span after them all."""
    if isinstance(due, (str, timedelta, np.generic, Real)):
        return (row_numbers(length) if made is None else made).later_by(due, "due")
    return read_times(due, "due", length)


def groups_of(groups: ArrayLike | None, settling: Settling) -> list[Group]:
    """The streams among the rows, in the order in which they begin."""
    length = len(settling.waits)
    keys, of_row = ({None: 0}, np.zeros(length, np.int64)) if groups is None else _numbered(groups, length)
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


def _numbered(groups: Any, length: int) -> tuple[dict[Hashable, int], Ints]:
    """Keys with numbers, as they first come, and the number of each row's key."""
    keys = objects_of(groups, "groups")
    check_same_length(range(length), keys, "probabilities and groups")
    numbers: dict[Hashable, int] = {}
    try:
        of_row = [numbers.setdefault(key, len(numbers)) for key in keys]
    except TypeError as error:
        raise ValueError(f"groups must be keys with a hash: {error}") from error
    for key, number in numbers.items():
        if key is None or key != key:
            row = of_row.index(number)
            raise ValueError(f"groups must name a key for every row, got {key!r} at row {row}")
    check_keys(numbers)
    return numbers, np.array(of_row)
