"""Plain events are accepted many at a time, in one compiled call: only their ids can be wrong.

The judge has all the rules. This module does what the judge does with a query whose id is new, and with the
first outcome of a forecast that is open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.engine.columns.scanning import QUERY
from onlinecal.engine.keys.playing import DIRTY, KEY, LAST_EVENT, NUMBER, OWNER, WAITING, LaneArrays

MOST_OPEN = 1 << 22
"""How many forecasts of a binary key may be open."""

UNKNOWN, KNOWN = -1, -2
"""In the place of an entry: no query has had that id; one has, and its forecast is not open."""

NOBODY, UNNAMED = -1, -2
"""In the place of a first lane: the key is not in memory; the event names no key."""

NEXT, LAST_NUMBER, TAKEN, DIRTIED, BEGUN = range(5)
"""Places in `progress`: the next event; the number of the last event that was accepted; how many free entries
were taken; how many keys have become dirty, and how many have had their first event."""
NEW = 0
"""In the place of a key's number in the ledger: no event of it was accepted yet."""


class EventTable(NamedTuple):
    """The events of a batch, and the forecasts that they name.

    Attributes
    ----------
    kinds, plain, times
        What each event is; whether only its id can be wrong; when it happened; (n,).
    first_lanes
        The first lane of the key that the event names, NOBODY or UNNAMED; (n,).
    rows
        Which forecast the event names, as a place in the three below; (n,).
    entries
        The entry of a forecast that is open; or UNKNOWN, or KNOWN; (forecasts,).
    asked, closed
        The events of this batch that asked for the forecast and that closed it, -1 for none; (forecasts,).
    at, numbers
        The entry and the number that an accepted event got; 0 for other events; (n,).
    """

    kinds: NDArray[np.int8]
    plain: NDArray[np.bool_]
    times: Floats
    first_lanes: Ints
    rows: Ints
    entries: Ints
    asked: Ints
    closed: Ints
    at: Ints
    numbers: Ints


@compiled
def accept(table: EventTable, arrays: LaneArrays, free: Ints, changed: Ints, progress: Ints) -> None:
    """Accept events from `progress[NEXT]` on, up to one that is not plain; `free` are entries.

    `changed`, of shape (2, n), is filled with first lanes: those of the keys that have become dirty, and
    those of the keys that have had their first event.
    """
    fields, clocks, opened = arrays.fields, arrays.clocks, arrays.open
    number = progress[LAST_NUMBER]
    for i in range(progress[NEXT], len(table.kinds)):
        row, first_lane = table.rows[i], table.first_lanes[i]
        entry, asks = table.entries[row], table.kinds[i] == QUERY
        progress[NEXT] = i
        if not table.plain[i] or (entry != UNKNOWN if asks else entry < 0):
            return
        if not asks:
            owner = opened[entry, OWNER]
            if first_lane >= 0 and first_lane != owner:
                return
            first_lane = owner
        elif fields[first_lane, WAITING] >= MOST_OPEN:
            return
        elif fields[first_lane, KEY] == NEW:
            fields[first_lane, KEY] = -1
            changed[1, progress[BEGUN]] = first_lane
            progress[BEGUN] += 1
        number += 1
        time = table.times[i]
        if not time <= clocks[first_lane] and time == time:
            clocks[first_lane] = time
        if asks:
            entry = free[progress[TAKEN]]
            progress[TAKEN] += 1
            opened[entry, OWNER], opened[entry, NUMBER] = first_lane, number
            arrays.times[entry] = time if time == time else clocks[first_lane]
            fields[first_lane, WAITING] += 1
            table.entries[row], table.asked[row] = entry, i
        else:
            fields[first_lane, WAITING] -= 1
            table.entries[row], table.closed[row] = KNOWN, i
        fields[first_lane, LAST_EVENT] = number
        if fields[first_lane, DIRTY] == 0:
            fields[first_lane, DIRTY] = number
            changed[0, progress[DIRTIED]] = first_lane
            progress[DIRTIED] += 1
        table.at[i], table.numbers[i] = entry, number
        progress[LAST_NUMBER] = number
    progress[NEXT] = len(table.kinds)
