"""The rows of a column, as far as they are known: more may follow, and outcomes may be told later.

`Rows` never change: `told` and `followed_by` return others. All columns have the same length, which who makes
them has checked (`stream.py` and `combine.py`, by `reading.py`, `settling.py` and `read_ids`). Rows keep
their places, so that earlier forecasts stay those of the first rows. `settling` and `parts` follow from the
other fields, and are made once, when they are first asked for. `told` refuses an outcome that an earlier
forecast would have known: with it that forecast would have been another one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.tables.columns import check_same_length
from onlinecal.tables.frames import objects_of
from onlinecal.tables.times import Times, joined, read_times, row_numbers, unread
from onlinecal.texts import shown
from onlinecal.validation import check_choice
from onlinecal.wrappers.settling import Group, Keys, Moments, Settling, groups_of, is_span, settling_of

Missing = Literal["never", "later"]
"""What becomes of a row whose outcome is missing: it will never be known, or may be told later."""
NEVER, LATER = get_args(Missing)


def check_missing(missing: Any) -> bool:
    """Whether outcomes that are missing may be told later; ValueError for anything but the two words."""
    check_choice(missing, (NEVER, LATER), "missing")
    return bool(missing == LATER)


def read_ids(ids: Any, length: int) -> dict[Hashable, int]:
    """The row of each id, in their order; ValueError for ids that are alike, or no texts or whole numbers."""
    values = objects_of(ids, "ids")
    check_same_length(range(length), values, "probabilities and ids")
    kinds = {type(value) for value in values}
    if not (kinds <= {int} or kinds <= {str}):
        kind = type(values[0])
        row = next(row for row, each in enumerate(values) if type(each) is not kind or kind not in (int, str))
        advice = "name every row" if values[row] is None else "give str(...) of each"
        raise ValueError(
            f"ids must be all whole numbers, or all texts, got {shown(values[row])} at row {row}: {advice}"
        )
    rows = {id: row for row, id in enumerate(values)}
    if len(rows) < length:
        again = next(row for row, id in enumerate(values) if rows[id] > row)
        raise ValueError(
            f"ids must be different, got {shown(values[again])} at rows {again} and {rows[values[again]]}"
        )
    return rows


@dataclass(frozen=True, eq=False)
class Rows:
    """T rows, checked one by one.

    Attributes
    ----------
    table
        What was forecast, shape (T, k).
    numbers
        The number of the class that came, shape (T,); without meaning where none has come.
    missing
        In which rows none has come, shape (T,); None if it has in all.
    moments
        When forecasts were made, when outcomes became known, when rows are due.
    groups
        The keys of the rows; None: they are one group.
    ids
        The row of each id; None: rows are known by their numbers.
    later
        Whether rows without an outcome stay open, so that it may be told later.
    """

    table: Floats
    numbers: Ints
    missing: NDArray[np.bool_] | None
    moments: Moments
    groups: Keys | None = None
    ids: dict[Hashable, int] | None = None
    later: bool = False

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def gaps(self) -> NDArray[np.bool_]:
        """In which rows no outcome has come, shape (T,)."""
        return np.zeros(len(self), bool) if self.missing is None else self.missing

    @cached_property
    def settling(self) -> Settling:
        """How they are settled."""
        return settling_of(len(self), self.missing, self.moments, self.later)

    @cached_property
    def parts(self) -> list[Group]:
        """The streams among them."""
        return groups_of(self.groups, self.settling)

    @property
    def made(self) -> Times:
        """When the forecasts were made; by default that is the number of the row."""
        return row_numbers(len(self)) if self.moments.made is None else self.moments.made

    def named(self, row: int) -> str:
        """A row, as errors call it."""
        return f"row {row}" if self.ids is None else f"row {shown([*self.ids][row])}"

    def places(self, ids: Any) -> Ints:
        """The numbers of these rows, shape (m,); ValueError for an id that is unknown, or there twice."""
        found = []
        for place, id in enumerate(objects_of(ids, "ids")):
            if self.ids is None:
                row = id if type(id) is int and 0 <= id < len(self) else None
                known = f"row numbers from 0 to {len(self) - 1}"
            else:
                row, known = self.ids.get(id), "those of rows that were forecast"
            if row is None:
                raise ValueError(f"ids must be {known}, got {shown(id)} at place {place}")
            found.append(row)
        rows = np.array(found, np.int64)
        again = np.flatnonzero(np.bincount(rows, minlength=1) > 1)
        if len(again):
            raise ValueError(f"ids must be different, got {self.named(int(again[0]))} twice")
        return rows

    def told(self, rows: Ints, numbers: Ints, settled_at: Any = None) -> Rows:
        """The same with outcomes of m earlier rows, which became known after the last row, or at these times.

        ValueError if one has come already, if the row was given up, and if a forecast that was made without
        the outcome would have known it.
        """
        gaps, waits = self.gaps.copy(), self.settling.waits
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            if not gaps[row]:
                which = "this" if number == self.numbers[row] else "another"
                raise ValueError(
                    f"outcomes must be of rows that have none, but {self.named(row)} has {which} outcome "
                    "already: leave the row out"
                )
            if not waits[row]:
                raise ValueError(
                    f"outcomes must be of rows that are open, but {self.named(row)} was given up when it was "
                    f"forecast: with missing={LATER!r} rows without an outcome stay open"
                )
        before, made = self.moments.came_or_made(gaps), self.made
        if settled_at is None:
            last = np.full(len(rows), made.values[-1])
            known = Times("settled_at", made.kind, last, np.zeros(len(rows), bool), last, made.is_coarse)
        else:
            known = read_times(settled_at, "settled_at")
            check_same_length(rows, known.values, "ids and settled_at")
            known.check_present()
        both = joined(before, known)
        place = np.arange(len(self))
        place[rows] = len(self) + np.arange(len(rows))
        as_given = [both.as_given[at] for at in place]
        came = replace(both, values=both.values[place], missing=both.missing[place], as_given=as_given)
        all_numbers = self.numbers.copy()
        all_numbers[rows], gaps[rows] = numbers, False
        missing = gaps if gaps.any() else None
        whole = replace(self, numbers=all_numbers, missing=missing, moments=replace(self.moments, came=came))
        whole._check_past(rows)
        return whole

    def _check_past(self, rows: Ints) -> None:
        """Refuse outcomes of these rows that a forecast would have known: it was made without them."""
        settling = self.settling
        known = np.full(len(self), len(self))
        known[settling.rows] = settling.known
        early = rows[(known[rows] < len(self)) & settling.settles[rows] & ~settling.silent[rows]]
        if len(early):
            row = int(early[0])
            later, came = int(known[row]), self.moments.came_or_made(self.gaps)
            raise ValueError(
                "settled_at must not be before forecasts that were made without the outcome, got "
                f"{came.shown(row)} for {self.named(row)}, while the forecast of {self.named(later)}, at "
                f"{self.made.shown(later)}, did not know it: give the time at which it was told, or begin a "
                "new column"
            )

    def followed_by(self, new: Rows) -> Rows:
        """These rows and others behind them; ValueError if one of both has columns that the other has not."""
        ours, theirs = self.moments, new.moments
        for name, own, other in (
            ("times", ours.made, theirs.made),
            ("groups", self.groups, new.groups),
            ("ids", self.ids, new.ids),
        ):
            if (own is None) != (other is None):
                has = "left out" if own is None else "given"
                raise ValueError(f"{name} must be {has} for these rows, as in earlier rows")
        due = ours.due
        if due is not None and not is_span(due):
            if theirs.due is None:
                raise ValueError("due must have a time for each of these rows, as in earlier rows")
            due = joined(due, theirs.due)
        elif theirs.due is not None:
            why = "as in earlier rows" if due is None else f"the span of earlier rows, {due!r}, holds on"
            raise ValueError(f"due must be left out for these rows: {why}")
        made = None if ours.made is None or theirs.made is None else joined(ours.made, theirs.made)
        missing = np.concatenate([self.gaps, new.gaps])
        whole = replace(
            self,
            table=np.concatenate([self.table, new.table]),
            numbers=np.concatenate([self.numbers, new.numbers]),
            missing=missing if missing.any() else None,
            moments=Moments(made, self._came_with(new), due),
            groups=None if self.groups is None or new.groups is None else self.groups.followed_by(new.groups),
            ids=None if self.ids is None or new.ids is None else self._ids_with(new.ids),
        )
        # what is wrong with the times is told before anything is played
        assert whole.settling is not None
        return whole

    def _came_with(self, new: Rows) -> Times | None:
        """When outcomes of these and the new rows became known."""
        ours, theirs, length = self.moments, new.moments, len(new)
        if ours.came is None and theirs.came is None:
            return None
        came = theirs.came
        if came is None:
            if ours.made is None:
                # each is known to the next row's forecast
                numbers = len(self) + np.arange(length)
                came = replace(row_numbers(length), values=numbers, missing=new.gaps, as_given=numbers)
            elif ours.due is not None:
                came = new.moments.came_or_made(new.gaps)
            elif new.gaps.all():
                came = unread(length, self.made, "settled_at")
            else:
                raise ValueError(
                    "settled_at must say when the outcomes of these rows became known, as it does for "
                    "earlier rows"
                )
        return joined(ours.came_or_made(self.gaps), came)

    def _ids_with(self, new: dict[Hashable, int]) -> dict[Hashable, int]:
        """The row of each id, also of the new rows."""
        assert self.ids is not None
        whole = self.ids | {id: len(self) + row for id, row in new.items()}
        if len(whole) < len(self) + len(new):
            id = next(id for id in new if id in self.ids)
            raise ValueError(
                f"ids must be of new rows, got {shown(id)} at row {new[id]} of these, the id of row "
                f"{self.ids[id]} of earlier rows: observe(...) tells the outcome of an earlier row"
            )
        return whole
