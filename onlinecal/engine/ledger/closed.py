"""Which closing a query has: an array by the queries' numbers, in blocks, brought up to date now and then.

It has how many events later the closing is, in 4 bytes; 0 where there is none.

An index would take a search for each closing, which costs nearly as much as the closing's own row; a block
is written once for many. What the array lacks is read when it is asked for, which it is only when events come
a second time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from onlinecal.arrays import Ints

LAST_NUMBER = (1 << 63) - 1
EVERY = 1 << 16
"""After so many events the array is brought up to date."""
SLOTS = 500
"""Numbers of a block, of which two fit into a page of SQLite."""
FAR = (1 << 32) - 1
"""A closing that comes so many events later, or more, is looked for among all closings."""
CHUNK = 1 << 17
"""Closings that are read at a time."""

MADE_ANEW = "`onlinecal stream repair` makes it anew"


class Closed:
    """The array of an open ledger; `upto`: it has the closings up to this number."""

    def __init__(self, connection: sqlite3.Connection, every: int = EVERY) -> None:
        self._execute, self._every = connection.execute, min(every, EVERY)
        self.upto = self._written()
        self._late: dict[int, int] = {}
        self._kept = self._looked = 0
        # what is written from now on is known without being read
        [self._before] = self._execute("SELECT coalesce(max(number), 0) FROM closings").fetchone()
        self._queries: list[int] = []
        self._numbers: list[int] = []

    def _written(self) -> int:
        """Up to which number the file says that it is."""
        row = self._execute("SELECT value FROM about WHERE name = 'closed'").fetchone()
        upto = 0 if row is None else row[0]
        if not isinstance(upto, int):
            raise ValueError(f"`closed` cannot go up to {upto!r}: {MADE_ANEW}")
        return upto

    def of(self, queries: Iterable[int]) -> dict[int, int]:
        """The numbers of the closings of those queries that have one."""
        sought = list(queries)
        self._look()
        found = {query: self._late[query] for query in sought if query in self._late}
        numbers = np.array(sought, np.int64)
        blocks, array = self._blocks(numbers)
        later = array[places(blocks, numbers)]
        for query, events in zip(numbers[later > 0].tolist(), later[later > 0].tolist(), strict=True):
            found[query] = query + events if events < FAR else self._closing_of(query)
        return found

    def _closing_of(self, query: int) -> int:
        return self._execute("SELECT number FROM closings WHERE query = ?", (query,)).fetchone()[0]

    def _look(self) -> None:
        """Read what the array lacks."""
        # a writer may have brought it further since
        upto = self._written()
        if upto > self._kept:
            self._kept, self._late = upto, {q: n for q, n in self._late.items() if n > upto}
        for closings in self._closings(max(upto, self._looked)):
            self._late.update(closings.tolist())
            self._looked = int(closings[-1, 1])

    def _closings(self, after: int, upto: int = LAST_NUMBER) -> Iterator[Ints]:
        """The queries and numbers of closings, in the order of these: arrays (n, 2)."""
        while True:
            rows = self._execute(
                "SELECT query, number FROM closings WHERE number > ? AND number <= ? ORDER BY 2 LIMIT ?",
                (after, upto, CHUNK),
            ).fetchall()
            if not rows:
                return
            after = rows[-1][1]
            try:
                # twice as fast as an array of rows
                found = np.fromiter(chain.from_iterable(rows), np.int64, 2 * len(rows))
            except (TypeError, ValueError) as error:
                raise ValueError(f"a closing up to number {after} has no query: {MADE_ANEW}") from error
            yield found.reshape(-1, 2)

    def _blocks(self, numbers: Ints) -> tuple[Ints, Ints]:
        """The numbers of the blocks that some numbers are in, and the blocks, (n, SLOTS)."""
        blocks = np.unique(numbers // SLOTS)
        array = np.zeros((len(blocks), SLOTS), np.int64)
        which = json.dumps(blocks.tolist())
        for block, data in self._execute(
            "SELECT block, closings FROM json_each(?) AS j CROSS JOIN closed ON block = j.value", (which,)
        ):
            if not isinstance(data, bytes) or len(data) != 4 * SLOTS:
                raise ValueError(f"block {block} of `closed` is damaged: {MADE_ANEW}")
            array[np.searchsorted(blocks, block)] = np.frombuffer(data, "<u4")
        return blocks, array

    def write(self, last: int) -> int:
        """Inside a transaction, behind an event: bring the array up to date if it is time; `upto` then."""
        upto = self.upto
        if last - upto < self._every:
            return upto
        noted = np.array([self._queries, self._numbers], np.int64).T
        for closings in chain(self._closings(upto, self._before), [noted] if len(noted) else ()):
            queries, upto = closings[:, 0], int(closings[-1, 1])
            blocks, array = self._blocks(queries)
            array[places(blocks, queries)] = after(closings)
            for block, row in zip(blocks.tolist(), array.astype("<u4"), strict=True):
                self._execute("INSERT OR REPLACE INTO closed VALUES (?, ?)", (block, row.tobytes()))
        self._execute("INSERT OR REPLACE INTO about VALUES ('closed', ?)", (upto,))
        return upto

    def written(self, upto: int, numbers: list[int], queries: list[int]) -> None:
        """A transaction is on disk: what `write` said in it, and which closings, of these queries, it has."""
        if upto != self.upto:
            self.upto, self._queries, self._numbers = upto, [], []
        self._queries += queries
        self._numbers += numbers

    def wrong(self) -> Iterator[int]:
        """Closings up to `upto` that are not where they should be."""
        for closings in self._closings(0, self.upto):
            blocks, array = self._blocks(closings[:, 0])
            wrong = array[places(blocks, closings[:, 0])] != after(closings)
            yield from closings[wrong, 1].tolist()


def after(closings: Ints) -> Ints:
    """How many events after their queries closings are, (n, 2) as above; FAR at most."""
    return np.clip(closings[:, 1] - closings[:, 0], 0, FAR)


def places(blocks: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Where numbers are in an array of these blocks."""
    return np.searchsorted(blocks, numbers // SLOTS), numbers % SLOTS
