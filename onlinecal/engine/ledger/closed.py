"""Which closing a query has: an array by the queries' numbers, in blocks, brought up to date now and then.

An index would take a search for each closing, which costs nearly as much as the closing's own row; a block
is written once for many. What the array lacks is read when it is asked for, which it is only when events come
a second time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

LAST = (1 << 63) - 1
EVERY = 1 << 16
"""After so many events the array is brought up to date."""
SLOTS = 256
"""Numbers of a block."""
CHUNK = 1 << 17
"""Closings that are read at a time."""


class Closed:
    """The array of an open ledger; `upto`: it has the closings up to this number."""

    def __init__(self, connection: sqlite3.Connection, every: int = EVERY) -> None:
        self._execute, self._every = connection.execute, min(every, EVERY)
        tables = self._execute("SELECT 1 FROM sqlite_master WHERE name = 'closed'")
        # an older file that is only read has an index
        self._indexed = tables.fetchone() is None
        self.upto = self._written()
        self._late: dict[int, int] = {}
        self._kept = self._looked = 0

    def _written(self) -> int:
        """Up to which number the file says that it is."""
        row = self._execute("SELECT value FROM about WHERE name = 'closed'").fetchone()
        return 0 if row is None else int(row[0])

    def of(self, queries: Iterable[int]) -> dict[int, int]:
        """The numbers of the closings of those queries that have one."""
        sought = list(queries)
        if self._indexed:
            return dict(
                self._execute(
                    "SELECT query, number FROM json_each(?) AS j CROSS JOIN closings ON query = j.value",
                    (json.dumps(sought),),
                )
            )
        self._look()
        found = {query: self._late[query] for query in sought if query in self._late}
        numbers = np.array(sought, np.int64)
        blocks, array = self._blocks(numbers)
        there = array[places(blocks, numbers)]
        which = there > 0
        return found | dict(zip(numbers[which].tolist(), there[which].tolist(), strict=True))

    def _look(self) -> None:
        """Read what the array lacks."""
        # a writer may have brought it further since
        upto = self._written()
        if upto > self._kept:
            self._kept, self._late = upto, {q: n for q, n in self._late.items() if n > upto}
        for closings in self._closings(max(upto, self._looked)):
            self._late.update(closings.tolist())
            self._looked = int(closings[-1, 1])

    def _closings(self, after: int, upto: int = LAST) -> Iterator[Ints]:
        """The queries and numbers of closings, in the order of these: arrays (n, 2)."""
        while True:
            rows = self._execute(
                "SELECT query, number FROM closings WHERE number > ? AND number <= ? ORDER BY 2 LIMIT ?",
                (after, upto, CHUNK),
            ).fetchall()
            if not rows:
                return
            after = rows[-1][1]
            yield np.array(rows, np.int64)

    def _blocks(self, numbers: Ints) -> tuple[Ints, Ints]:
        """The numbers of the blocks that some numbers are in, and the blocks, (n, SLOTS); 0: no closing."""
        blocks = np.unique(numbers // SLOTS)
        array = np.zeros((len(blocks), SLOTS), np.int64)
        which = json.dumps(blocks.tolist())
        for block, data in self._execute(
            "SELECT block, closings FROM json_each(?) AS j CROSS JOIN closed ON block = j.value", (which,)
        ):
            if not isinstance(data, bytes) or len(data) != 8 * SLOTS:
                raise ValueError(f"block {block} of `closed` is damaged: `stream repair` makes it anew")
            array[np.searchsorted(blocks, block)] = np.frombuffer(data, "<i8")
        return blocks, array

    def write(self, last: int) -> int:
        """Inside a transaction at a number: bring the array up to date if it is time; what `upto` is then."""
        upto = self.upto
        if last - upto < self._every:
            return upto
        for closings in self._closings(upto):
            queries, upto = closings[:, 0], int(closings[-1, 1])
            blocks, array = self._blocks(queries)
            array[places(blocks, queries)] = closings[:, 1]
            for block, row in zip(blocks.tolist(), array.astype("<i8"), strict=True):
                self._execute("INSERT OR REPLACE INTO closed VALUES (?, ?)", (block, row.tobytes()))
        self._execute("INSERT OR REPLACE INTO about VALUES ('closed', ?)", (upto,))
        return upto

    def wrong(self) -> Iterator[int]:
        """Closings up to `upto` that are not where they should be."""
        for closings in () if self._indexed else self._closings(0, self.upto):
            blocks, array = self._blocks(closings[:, 0])
            there = array[places(blocks, closings[:, 0])]
            yield from closings[there != closings[:, 1], 1].tolist()


def places(blocks: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Where numbers are in an array of these blocks."""
    return np.searchsorted(blocks, numbers // SLOTS), numbers % SLOTS
