"""When the outcomes of a column become known, and to which forecasts: in time, late, by silence, or never."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import timedelta
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Ints
from onlinecal.steering.replaying import Schedule
from onlinecal.tables.columns import check_same_length, check_vector
from onlinecal.tables.rounds import in_time

if TYPE_CHECKING:
    import polars as pl

UNITS = "D", "ms", "us", "ns"
"""Of numpy's times those that polars reads."""


class Settling(NamedTuple):
    """How T rows are settled, n of them."""

    rows: Ints
    """Shape (n,): those that are settled, in the order in which that happens."""
    known: Ints
    """Shape (n,): for each of them the first row whose forecast knows it."""
    waits: NDArray[np.bool_]
    """Shape (T,): which rows wait; see `Schedule`."""
    silent: NDArray[np.bool_]
    """Shape (T,): which rows are settled since they were due, and not with an outcome of their own."""
    settles: NDArray[np.bool_]
    """Shape (T,): which rows are settled at all."""


class Group(NamedTuple):
    """One stream among those of a column: its key, its rows, and in which order these settle."""

    key: Hashable
    rows: Ints
    schedule: Schedule
    known: Ints
    """For each row that settles, in that order, the first row of the column that knows it."""


def missing_of(outcomes: Any) -> NDArray[np.bool_] | None:
    """Which of T outcomes are None, NaN or null, shape (T,); None if none is, or if these are no column."""
    values = _as_objects(outcomes)
    if values.ndim != 1 or values.dtype.kind not in "fO":
        return None
    missing = np.fromiter(map(_is_missing, values), bool, len(values))
    return missing if missing.any() else None


def _is_missing(outcome: Any) -> bool:
    try:
        return outcome is None or bool(outcome != outcome)
    except TypeError:  # the NA of pandas, which is neither
        return True
    except ValueError:  # an array, which is refused later in words
        return False


def completed(outcomes: Any, missing: NDArray[np.bool_], instead: Any) -> NDArray[Any]:
    """Outcomes with one of those that came, or else `instead`, in place of each that is missing."""
    values = _as_objects(outcomes).copy()
    values[missing] = instead if missing.all() else values[~missing][0]
    listed = values.tolist()
    return np.array(listed) if all(isinstance(one, Real) for one in listed) else values


def _as_objects(outcomes: Any) -> NDArray[Any]:
    """A list's own objects: of texts and NaN numpy would make texts; what has an array is that."""
    if isinstance(outcomes, list | tuple):
        return np.fromiter(outcomes, object, len(outcomes))
    return np.asarray(outcomes if hasattr(outcomes, "__array__") else ())


def settling_of(
    length: int,
    missing: NDArray[np.bool_] | None,
    settled_at: ArrayLike | None,
    times: ArrayLike | None,
    due: Any,
) -> Settling:
    """How so many rows are settled, some of whose outcomes may be missing.

    With `due` every row is settled at its time, once that is over: once a later forecast was made, or a later
    outcome came. What came before is kept until then: where silence means no, it would be all of one kind.
    """
    rows, nowhere = np.arange(length), np.zeros(length, bool)
    came = ~nowhere if missing is None else ~missing
    if settled_at is None and due is None:
        if times is not None:
            raise ValueError("times say nothing without settled_at or due, got None for both")
        return Settling(rows[came], rows[came] + 1, came, nowhere, came)
    made = None if times is None else _series(times, "times", length)
    columns = {}
    if settled_at is not None:
        columns["settled_at"] = _of_those(_series(settled_at, "settled_at", length), came, made)
    if due is not None:
        columns["due"] = _due_times(due, made, length)
    own, *told = in_time(columns, made, "give the forecasts' as times=")
    settles = own if settled_at is None else told[0]
    known = rows + 1 if settled_at is None else np.searchsorted(own, settles, side="right")
    waits, silent = came, nowhere
    if due is not None:
        now = max(own[-1], settles[came].max(initial=own[-1]))
        in_due_time = came & (settles <= told[-1])
        settles = told[-1]
        known = np.searchsorted(own, settles, side="right")
        waits, came = ~nowhere, settles < now
        silent = came & ~in_due_time
    order = rows[came][np.lexsort((settles[came], known[came]))]
    return Settling(order, known[order], waits, silent, came)


def _of_those(column: pl.Series, came: NDArray[np.bool_], made: pl.Series | None) -> pl.Series:
    """When outcomes that came became known; of the others it need not say anything: their rows' own times."""
    import polars as pl

    if came.all():
        return column
    own = pl.Series(np.arange(len(came))) if made is None else made
    try:
        return column.zip_with(pl.Series(came), own)
    except pl.exceptions.PolarsError:  # units that cannot be compared, which is said of them later
        return column


def _due_times(due: Any, made: pl.Series | None, length: int) -> pl.Series:
    """From when on each row is due: a time for each, or one span after them all."""
    import polars as pl

    if np.ndim(due) > 0:
        return _series(due, "due", length)
    span: Any = due.astype("timedelta64[us]").item() if isinstance(due, np.timedelta64) else due
    none: Any = 0
    kind: type = Real
    units = "a number of rows" if made is None else "a number, as times are"
    if made is not None and made.dtype.is_temporal():
        none, units, kind = timedelta(0), "a timedelta", timedelta
    if isinstance(span, bool) or not isinstance(span, kind):
        raise ValueError(f"due must be a span, {units}, or have a time for each row, got {due!r}")
    if not span >= none:
        raise ValueError(f"due must not be a time before the row's own forecast, got a span of {due!r}")
    start = pl.Series(np.arange(length)) if made is None else made
    return (start + span).alias("due")


def groups_of(groups: ArrayLike | None, settling: Settling) -> list[Group]:
    """The streams among the rows, in the order in which they begin."""
    length = len(settling.waits)
    keys, of_row = ({None: 0}, np.zeros(length, np.int64)) if groups is None else _numbered(groups, length)
    number, found = len(keys), []
    rows_by_key = _split(np.arange(length), of_row, number)
    settled_by_key = _split(np.arange(len(settling.rows)), of_row[settling.rows], number)
    for key, rows, places in zip(keys, rows_by_key, settled_by_key, strict=True):
        order, known = np.searchsorted(rows, settling.rows[places]), settling.known[places]
        schedule = Schedule(order, np.searchsorted(rows, known), settling.waits[rows])
        found.append(Group(key, rows, schedule, known))
    return found


def _split(values: Ints, numbers: Ints, count: int) -> list[Ints]:
    """The values with each number, in their order."""
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    return np.split(values[np.argsort(numbers, kind="stable")], ends[:-1])


def _numbered(groups: Any, length: int) -> tuple[dict[Hashable, int], Ints]:
    """Keys with numbers, as they first come, and the number of each row's key."""
    keys = check_vector(groups, "groups").tolist()
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
    return numbers, np.array(of_row)


def _series(values: Any, name: str, length: int) -> pl.Series:
    """Times or row numbers as a polars Series of that name, one for each of the rows."""
    import polars as pl

    if not isinstance(values, pl.Series):
        array = check_vector(values, name)
        if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in UNITS:
            array = array.astype("datetime64[ms]")
        values = pl.Series(name, array.tolist() if array.dtype.kind == "O" else array)
    check_same_length(range(length), values, f"probabilities and {name}")
    return values.alias(name)
