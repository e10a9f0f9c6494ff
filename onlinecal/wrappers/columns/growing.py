"""Columns that go on: rows are added, outcomes of earlier ones are told, and all of it is kept in a file.

What comes of it is to the last digit what one call with all rows makes. So rows are kept, and are played
again from the first one on: a million of one column in a few seconds. Forecasts that were given must come
out as they were, or nothing is taken (`_continued`). So a column goes on only
where the forecaster still gives the forecasts that it gave.

A result never changes: `observe` and `extend` return another one. Its fields with an underscore are set once,
by `_with`. A saved file has the arrays of `kept_rows.arrays_of`, the fields of `_played` under their names,
and `_settings` as JSON. Whoever renames one of these, or changes what it means, raises STATE_FORMAT, by which
`tables/keeping.py` refuses other files.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats, Ints
from onlinecal.tables.columns import check_same_length
from onlinecal.tables.keeping import keep, kept
from onlinecal.wrappers.columns.kept_rows import Arrays, arrays_of, as_json, rows_of
from onlinecal.wrappers.columns.reports import Proven
from onlinecal.wrappers.columns.rows import Rows
from onlinecal.wrappers.settling import missing_of


def is_empty(columns: Any) -> bool:
    """Whether a column, or a mapping of columns, has no rows: some nights there is nothing new."""
    column: Any = next(iter(columns.values()), None) if isinstance(columns, Mapping) else columns
    return hasattr(column, "__len__") and len(column) == 0


class Growing(Proven):
    """Forecasts of a column to which more rows may be added."""

    _KEPT_AS: ClassVar[str]
    """What files of it are called."""
    _rows: Rows
    _played: Any
    """What was made of the rows: a named tuple of arrays, one of which is `forecasts`."""

    def observe(self, ids: ArrayLike, outcomes: ArrayLike, *, settled_at: ArrayLike | None = None) -> Self:
        """A new result that knows outcomes of m rows which had none. This one stays as it is.

        Only rows that stayed open can be told: those of missing="later", and of `recalibrate_stream` with
        `due`. An outcome of a row that was settled as absent comes too late, and changes only `n_expired`.

        Parameters
        ----------
        ids
            Shape (m,): which rows, by the `ids` that they were given; without these row numbers, from 0.
        outcomes
            Shape (m,): what came, none missing. Each is 0, 1 or boolean; of a table of k classes, which
            `recalibrate_stream` was given, its number, 0, ..., k-1, or its name.
        settled_at
            Shape (m,): when each outcome became known, none missing: times of the kind of the rows' `times`,
            or, if they have none, row numbers; forecasts of later rows know the outcome. None: with the last
            row so far, so that only rows which follow know the outcomes.

        Returns
        -------
        A result of the same class, with the same forecasts, as a numpy array. Report, certificate and
        guarantee are those of one call with all these outcomes. With m = 0 it is this object itself.

        Raises
        ------
        ValueError
            For an id of no row, an outcome that is none or has come already, a row that was given up, and a
            time that would have let an earlier forecast know the outcome, which was made without it. Also if
            this version or machine would have given other forecasts of the rows so far.
        """
        if is_empty(ids) and is_empty(outcomes):
            return self
        rows = self._rows.places(ids)
        told, gaps = missing_of(outcomes)
        if gaps is not None:
            raise ValueError(
                f"outcomes must have come, got none at place {int(gaps.argmax())}: leave it and its id out"
            )
        check_same_length(rows, told, "ids and outcomes")
        return self._continued(self._rows.told(rows, self._numbers_of(told), settled_at))

    def save(self, path: str | Path) -> None:
        """Write this result, with all its rows, to the file `path`, from which `load` makes it again.

        The file is binary, with plain arrays and a checksum, whatever its extension. It appears when it is
        complete, and replaces a file of that name. Its folder must exist.

        Raises
        ------
        ValueError
            If keys of groups, or names of columns, are neither texts nor numbers.
        OSError
            If the file cannot be written.
        """
        arrays = {**arrays_of(self._rows), **self._played._asdict(), "settings": as_json(self._settings())}
        keep(path, self._KEPT_AS, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The result that `save` of this class wrote to the file `path`.

        It has the same rows, forecasts and report, and goes on by `observe` and `extend`. Its forecasts are a
        numpy array, whatever they were.

        Raises
        ------
        ValueError
            If the file was not written by `save` of this class, is damaged, or has the format of another
            version that this one does not read.
        OSError
            If the file cannot be read.
        """
        arrays = kept(path, cls._KEPT_AS)
        return cls._restored(json.loads(arrays["settings"].item()), rows_of(arrays), arrays)

    def _told_by(self, ids: list[Any], said: Floats, outcomes: Floats) -> tuple[Ints, Ints]:
        """Which rows of a file tell outcomes of earlier rows, and which ones are new: numbers of its n rows.

        `said` are its forecasts, shape (n,) or (n, N), `outcomes` NaN where none has come. ValueError if a
        row that was there has another forecast or outcome now.
        """
        rows = self._rows
        known = {} if rows.ids is None else rows.ids
        places = np.array([known.get(id, -1) for id in ids], np.int64)
        before = np.flatnonzero(places >= 0)
        place, came = places[before], outcomes[before]
        given = said.reshape(len(said), -1)
        # of a column the second class's probability was given
        then, now = rows.table[place, -given.shape[1] :], given[before]
        changed = ~((then == now) | (np.isnan(then) & np.isnan(now))).all(axis=1)
        otherwise = ~np.isnan(came) & ~rows.gaps[place] & (came != rows.numbers[place])
        for what, wrong, earlier, later in (
            ("forecast", changed, then, now),
            ("outcome", otherwise, rows.numbers[place], came),
        ):
            if wrong.any():
                first = int(wrong.argmax())
                named = rows.named(int(place[first]))
                was, got = (", ".join(map(str, np.ravel(each[first]).tolist())) for each in (earlier, later))
                raise ValueError(
                    f"the {what} of {named} must be what it was before, {was}, got {got}: "
                    "a column that goes on keeps its earlier rows. Give it unchanged, or begin a new column"
                )
        return before[rows.gaps[place] & ~np.isnan(came)], np.flatnonzero(places < 0)

    def _continued(self, rows: Rows) -> Self:
        """What comes of more rows, or more outcomes; ValueError if it changes a forecast that was given."""
        after = self._play(rows)
        given = self._played.forecasts
        if not np.array_equal(after._played.forecasts[: len(given)], given):
            raise ValueError(
                "the column cannot go on: this version of onlinecal, or this machine, would have given other "
                "forecasts of the rows so far; go on where they were made, or begin a new column"
            )
        return after

    @abstractmethod
    def _numbers_of(self, outcomes: Any) -> Ints:
        """The numbers of classes that came; ValueError for what is none."""

    @abstractmethod
    def _play(self, rows: Rows) -> Self:
        """What comes of these rows, with the same settings."""

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """What JSON says of the settings."""

    @classmethod
    @abstractmethod
    def _restored(cls, settings: dict[str, Any], rows: Rows, answers: Arrays) -> Self:
        """The same again."""
