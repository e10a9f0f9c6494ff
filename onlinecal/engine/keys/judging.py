"""Events that are as usual, judged in one compiled pass: which forecasts they open and close, whose, when.

What the pass reads and writes of keys and of their open forecasts are rows of arrays (`Book`); a key is a
*seat* here, an open forecast an *entry*. `engine/batch.py` has the rules in full.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.compiling.instructions import borrowed
from onlinecal.engine.columns.columns import Texts, is_text, lent, place_of, put_text
from onlinecal.engine.columns.scanning import ID, KEY, ODD, QUERY
from onlinecal.forecasters.binary.cells import inlined

PLAYER, NUMBER, FIRST, LAST, WAITING, USED, DIRTY, STEERED, ARENA, SPENT = range(10)
COLUMNS = 10
"""Of a seat: its player in the arena, or one of the words below; the ledger's number of the key; its oldest
and its latest entry, -1 for none, and how many it has; the last event that something happened to it in;
whether the ledger lacks something of it; whether its hints are steered; the arena's number;
whether its memory bears no more rounds."""
EXPECTED, BORN, GONE = -1, -2, -3
"""In the place of a player: no event of this name was accepted yet; one was, in this batch; the key has left
the seat in this batch."""
SEAT, ASKED, PLACE, NEXT, BEFORE, OPEN = range(6)
"""Of an entry: its seat; the number of the query; its place in the arena; the key's next and previous entry,
-1 for none; whether it waits, or was closed in this batch."""
AT, EVENTS, TAKEN, DIRTIED, GUIDED, BEGUN = range(6)
"""Of progress: the next event; the number of the last one; how many free entries were taken; how many seats
the ledger lacks something of, have their first hint, and are new."""


class Book(NamedTuple):
    """Keys in seats, and their open forecasts.

    Attributes
    ----------
    names, ids
        The keys' names by seat; the forecasts' ids by entry.
    seats
        As above, (seats, COLUMNS).
    clocks
        Of keys, NaN before the first time; (seats,).
    entries
        As above, (entries, 6).
    times
        When the forecasts were asked for, NaN if that is not known; (entries,).
    """

    names: Texts
    seats: Ints
    clocks: Floats
    ids: Texts
    entries: Ints
    times: Floats


class Events(NamedTuple):
    """A batch in columns (`columns.Columns`); `data` and `spans` have its texts, `alone` the odd ones."""

    data: Bytes
    spans: Ints
    kinds: NDArray[np.int8]
    alone: NDArray[np.bool_]
    hints: Floats
    times: Floats


class Judged(NamedTuple):
    """What came of a batch, by event: seat and entry, -1 if not known, and number, 0 for one judged alone.

    `found` lists seats, (3, n): of those whose count is in DIRTIED, in GUIDED, and in BEGUN of the progress.
    """

    seats: Ints
    entries: Ints
    numbers: Ints
    found: Ints


@inlined
def lent_book(book: Any) -> Any:
    """The same book, to loops that count no references to its arrays."""
    return Book(
        lent(book.names), borrowed(book.seats), borrowed(book.clocks),
        lent(book.ids), borrowed(book.entries), borrowed(book.times),
    )  # fmt: skip


@compiled
def look_up(book: Book, events: Events, judged: Judged, seed: int) -> None:
    """Find the seats of queries, and the entries of outcomes with theirs, where they are not known yet."""
    data, spans, seats, entries = borrowed(events.data), borrowed(events.spans), judged.seats, judged.entries
    names, ids, known = lent(book.names), lent(book.ids), borrowed(book.entries)
    for i in range(len(seats)):
        if events.kinds[i] == ODD or seats[i] >= 0:
            continue
        if events.kinds[i] == QUERY:
            start, end = spans[i, KEY], spans[i, KEY + 1]
            seats[i] = names.slots[place_of(names, data, start, end, seed)] - 1
            continue
        entry = ids.slots[place_of(ids, data, spans[i, ID], spans[i, ID + 1], seed)] - 1
        if entry >= 0:
            entries[i] = entry
            seats[i] = known[entry, SEAT]


@inlined
def append(book: Any, seat: int, entry: int) -> None:
    """Let an entry be the key's latest."""
    seats, entries = book.seats, book.entries
    last = seats[seat, LAST]
    entries[entry, SEAT] = seat
    entries[entry, NEXT] = -1
    entries[entry, BEFORE] = last
    entries[entry, OPEN] = 1
    if last < 0:
        seats[seat, FIRST] = entry
    else:
        entries[last, NEXT] = entry
    seats[seat, LAST] = entry
    seats[seat, WAITING] += 1


@inlined
def close(book: Any, entry: int) -> None:
    """Let an entry wait no longer. It has its id until it is forgotten."""
    seats, entries = book.seats, book.entries
    seat, after, before = entries[entry, SEAT], entries[entry, NEXT], entries[entry, BEFORE]
    if before < 0:
        seats[seat, FIRST] = after
    else:
        entries[before, NEXT] = after
    if after < 0:
        seats[seat, LAST] = before
    else:
        entries[after, BEFORE] = before
    entries[entry, OPEN] = 0
    seats[seat, WAITING] -= 1


@compiled
def judge(book: Book, events: Events, judged: Judged, free: Ints, progress: Ints, seed: int) -> None:
    """Judge events from `progress[AT]` on, up to one that is not as usual; `free` are entries."""
    data, spans, found, book = borrowed(events.data), borrowed(events.spans), judged.found, lent_book(book)
    seats, clocks, entries, ids = book.seats, book.clocks, book.entries, book.ids
    for i in range(progress[AT], len(judged.seats)):
        progress[AT] = i
        if events.alone[i]:
            return
        entry, seat, at, asks = judged.entries[i], judged.seats[i], 0, events.kinds[i] == QUERY
        if entry < 0:
            # an event before it may have asked under its id; those that were found keep theirs until the end
            at = place_of(ids, data, spans[i, ID], spans[i, ID + 1], seed)
            entry = ids.slots[at] - 1
        if asks:
            if entry >= 0 or seat < 0:
                return
        else:
            if entry < 0 or entries[entry, OPEN] == 0:
                return
            seat = entries[entry, SEAT]
            if spans[i, KEY + 1] > 0 and not is_text(
                book.names.words, seat, data, spans[i, KEY], spans[i, KEY + 1]
            ):
                return
        player = seats[seat, PLAYER]
        if seats[seat, SPENT] != 0:
            return
        if player < 0 and player != BORN and not (asks and player == EXPECTED):
            return
        if player == EXPECTED:
            seats[seat, PLAYER] = BORN
            found[2, progress[BEGUN]] = seat
            progress[BEGUN] += 1
        time, number = events.times[i], progress[EVENTS] + 1
        if time != time:
            time = clocks[seat]
        elif not time <= clocks[seat]:
            clocks[seat] = time
        if asks:
            entry = free[progress[TAKEN]]
            progress[TAKEN] += 1
            put_text(ids, entry, data, spans[i, ID], spans[i, ID + 1], seed, at)
            entries[entry, ASKED] = number
            book.times[entry] = time
            append(book, seat, entry)
            if events.hints[i] == events.hints[i] and seats[seat, STEERED] == 0:
                seats[seat, STEERED] = 1
                found[1, progress[GUIDED]] = seat
                progress[GUIDED] += 1
        else:
            close(book, entry)
        if seats[seat, DIRTY] == 0:
            seats[seat, DIRTY] = number
            found[0, progress[DIRTIED]] = seat
            progress[DIRTIED] += 1
        seats[seat, USED] = judged.numbers[i] = number
        judged.seats[i] = seat
        judged.entries[i] = entry
        progress[EVENTS] = number
    progress[AT] = len(judged.seats)


@compiled
def enter_one(book: Book, seat: int, entry: int, number: int, time: float) -> None:
    """Let an entry, which has an id and a place, be a key's latest."""
    book.entries[entry, ASKED] = number
    book.times[entry] = time
    append(book, seat, entry)


@compiled
def close_one(book: Book, entry: int) -> None:
    """`close`, from Python."""
    close(book, entry)


@compiled
def waiting_of(book: Book, seats: Ints, found: Ints) -> None:
    """The entries of keys, the oldest first, one key after the other; as many as they have."""
    place = 0
    for seat in seats:
        entry = book.seats[seat, FIRST]
        while entry >= 0:
            found[place] = entry
            place += 1
            entry = book.entries[entry, NEXT]
