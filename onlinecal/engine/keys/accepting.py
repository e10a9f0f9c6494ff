"""Plain events, accepted many at a time in one compiled call: nothing can be wrong with them but their ids.

The judge has all the rules. What is done here is what it does with a query whose id is new, and with the
first outcome of a forecast that is open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.engine.columns.scanning import QUERY
from onlinecal.engine.keys.playing import DIRTY, KEY, NUMBER, OWNER, USED, WAITING, Players

MOST_OPEN = 1 << 22
"""So many forecasts of a binary key may be open."""

UNKNOWN, KNOWN = -1, -2
"""In the place of an entry: nobody has asked under that id; it is known and not open."""

NOBODY, UNNAMED = -1, -2
"""In the place of a player: the key is not in memory; the event names none."""

NEXT, LAST_NUMBER, TAKEN, DIRTIED, BEGUN = range(5)
"""Of the progress: the next event; the number of the last one that was accepted; how many free entries were
taken,
how many keys the ledger lacks something of now, and how many have their first event."""
NEW = 0
"""In the place of the ledger's number of a key: nothing was accepted of it yet."""


class Table(NamedTuple):
    """The events of a batch, and the forecasts that they name.

    Attributes
    ----------
    kinds, plain, times
        Of events: what they are; whether only their ids can be wrong; (n,).
    players
        Of events, those of the keys that they name, NOBODY or UNNAMED; (n,).
    rows
        Which of the forecasts an event names; (n,).
    entries
        Of forecasts: the entry of one that is open, or UNKNOWN, or KNOWN; (forecasts,).
    asked, closed
        The events that asked for it and that closed it in this batch, -1 for none; (forecasts,).
    at, numbers
        Of accepted events: the entry and the number, 0 for others; (n,).
    """

    kinds: NDArray[np.int8]
    plain: NDArray[np.bool_]
    times: Floats
    players: Ints
    rows: Ints
    entries: Ints
    asked: Ints
    closed: Ints
    at: Ints
    numbers: Ints


@compiled
def accept(table: Table, arrays: Players, free: Ints, found: Ints, progress: Ints) -> None:
    """Accept events from `progress[NEXT]` on, up to one that is not plain; `free` are entries.

    `found`, (2, n), becomes players: of keys that the ledger lacks something of now and did not before, and
    of keys that have their first event.
    """
    fields, clocks, kept = arrays.fields, arrays.clocks, arrays.open
    number = progress[LAST_NUMBER]
    for i in range(progress[NEXT], len(table.kinds)):
        row, player = table.rows[i], table.players[i]
        entry, asks = table.entries[row], table.kinds[i] == QUERY
        progress[NEXT] = i
        if not table.plain[i] or (entry != UNKNOWN if asks else entry < 0):
            return
        if not asks:
            owner = kept[entry, OWNER]
            if player >= 0 and player != owner:
                return
            player = owner
        elif fields[player, WAITING] >= MOST_OPEN:
            return
        elif fields[player, KEY] == NEW:
            fields[player, KEY] = -1
            found[1, progress[BEGUN]] = player
            progress[BEGUN] += 1
        number += 1
        time = table.times[i]
        if not time <= clocks[player] and time == time:
            clocks[player] = time
        if asks:
            entry = free[progress[TAKEN]]
            progress[TAKEN] += 1
            kept[entry, OWNER], kept[entry, NUMBER] = player, number
            arrays.times[entry] = time if time == time else clocks[player]
            fields[player, WAITING] += 1
            table.entries[row], table.asked[row] = entry, i
        else:
            fields[player, WAITING] -= 1
            table.entries[row], table.closed[row] = KNOWN, i
        fields[player, USED] = number
        if fields[player, DIRTY] == 0:
            fields[player, DIRTY] = number
            found[0, progress[DIRTIED]] = player
            progress[DIRTIED] += 1
        table.at[i], table.numbers[i] = entry, number
        progress[LAST_NUMBER] = number
    progress[NEXT] = len(table.kinds)
