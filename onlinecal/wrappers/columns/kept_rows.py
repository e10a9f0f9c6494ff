"""Rows as plain arrays, and back: what a saved column consists of beside its forecasts.

The names of the arrays, and of what is JSON in the array "rows", are a saved format: `arrays_of` writes it
and `rows_of` reads it, and STATE_FORMAT goes up when it changes. Keys and ids are lists in the order of their
numbers. The file's checksum was tested before, so `rows_of` checks nothing. Nothing here has a state.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.tables.times import CLOCK, INSTANT, SPAN, Times
from onlinecal.texts import shown
from onlinecal.wrappers.columns.rows import Rows
from onlinecal.wrappers.settling import Keys, Moments, is_span

Arrays = dict[str, NDArray[Any]]


def as_json(said: Any) -> NDArray[Any]:
    """What JSON can say, as an array of one text; numbers of numpy become Python's."""
    return np.array(json.dumps(said, default=lambda value: value.item()))


def check_plain(keys: Iterable[Hashable], name: str) -> list[Any]:
    """The keys as a list, if they come back from JSON as they are; ValueError names another one."""
    plain = [key.item() if isinstance(key, np.generic) else key for key in keys]
    for key in plain:
        if not isinstance(key, str | bool | int | float):
            raise ValueError(
                f"{name} must be texts or numbers to be saved, got {shown(key)}: give str(...) of each"
            )
    return plain


def arrays_of(rows: Rows) -> Arrays:
    """The rows as arrays of numbers and texts; what else there is to say is JSON in one of them."""
    arrays: Arrays = {"table": rows.table, "numbers": rows.numbers, "gaps": rows.gaps}
    said: dict[str, Any] = {"later": rows.later, "times": {}}
    due = rows.moments.due
    columns = {"made": rows.moments.made, "came": rows.moments.came}
    if is_span(due):
        is_time = isinstance(due, timedelta | np.timedelta64)
        unit = np.timedelta64(1, "us")
        said["span"] = {"microseconds": int(np.timedelta64(due) // unit)} if is_time else due
    elif due is not None:
        columns["due"] = due
    for name, times in columns.items():
        if times is not None:
            arrays |= {f"{name} values": times.values, f"{name} missing": times.missing}
            said["times"][name] = times.name, times.kind, times.is_coarse
    if rows.groups is not None:
        said["groups"] = check_plain(rows.groups.numbers, "groups")
        arrays["groups"] = rows.groups.of_row
    if rows.ids is not None:
        said["ids"] = [*rows.ids]
    return {**arrays, "rows": as_json(said)}


def rows_of(arrays: Arrays) -> Rows:
    """The rows that `arrays_of` described."""
    said, gaps = json.loads(arrays["rows"].item()), arrays["gaps"]
    columns = {
        name: _times(called, kind, is_coarse, arrays[f"{name} values"], arrays[f"{name} missing"])
        for name, (called, kind, is_coarse) in said["times"].items()
    }
    due: Any = said.get("span", columns.get("due"))
    if isinstance(due, dict):
        due = timedelta(**due)
    groups = ids = None
    if "groups" in said:
        groups = Keys({key: number for number, key in enumerate(said["groups"])}, arrays["groups"])
    if "ids" in said:
        ids = {id: row for row, id in enumerate(said["ids"])}
    moments = Moments(columns.get("made"), columns.get("came"), due)
    missing = gaps if gaps.any() else None
    return Rows(arrays["table"], arrays["numbers"], missing, moments, groups, ids, said["later"])


def _times(name: str, kind: str, is_coarse: bool, values: NDArray[Any], missing: NDArray[np.bool_]) -> Times:
    """A column of times; errors show them as numpy does."""
    unit = "us" if is_coarse else "ns"
    code = {CLOCK: "M8", INSTANT: "M8", SPAN: "m8"}.get(kind)
    return Times(
        name, kind, values, missing, values if code is None else values.view(f"{code}[{unit}]"), is_coarse
    )
