"""A whole column of a model's probabilities through a projection: one compiled loop, outcomes late or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.rules import Rules
from onlinecal.steering.binary import (
    ACCOUNT,
    CELL_LOWER,
    CELL_STEP,
    FARTHER,
    FORECAST,
    PARTS,
    TICKET_ALONE,
    book_given,
    rounds_of,
    steered,
)


class Tapes(NamedTuple):
    """What came of T rows: forecasts (T,), and the certificates after each settled round, as settled (T,).

    `charged`: by row the points that were charged (T,), or empty.
    """

    forecasts: Floats
    certificates: Floats
    charged: Floats = np.empty(0)


@dataclass(frozen=True, eq=False)
class Schedule:
    """In which order outcomes become known, and to which forecasts; both of shape (T,).

    order
        The rows as their outcomes become known.
    known
        For each of these the first row whose forecast knows it, from its own row + 1 to T; never decreasing.
    """

    order: Ints
    known: Ints

    @cached_property
    def most_late(self) -> int:
        """The largest number of other forecasts that were open when one was made."""
        rows = np.arange(len(self.known))
        return int((rows - np.searchsorted(self.known, rows, side="right")).max(initial=0))


def replayed(
    table: AlmostOneStepAhead,
    state: Floats,
    raw: Floats,
    outcomes: NDArray[np.uint8],
    schedule: Schedule,
    traced: bool = False,
) -> Tapes:
    """Play probabilities and outcomes on a table and a steering state, all of shape (T,).

    `traced`: note the charged points, too.
    """
    tapes = Tapes(np.empty(len(raw)), np.empty(len(raw)), np.empty(len(raw) if traced else 0))
    room = schedule.most_late + 1
    steers = state.size > TICKET_ALONE + ACCOUNT
    kept = np.empty((room, steered(table.rules, steers).ticket))
    places, free, done = np.empty(len(raw), np.int64), np.arange(room), np.zeros(2, np.int64)
    while not replaying(table.rules, steers)(
        table.memory, state, kept, places, free, done, raw, outcomes, schedule.order, schedule.known, *tapes
    ):
        table.grow()
    return tapes


@cache
def replaying(rules: Rules, steers: bool) -> Callable[..., bool]:
    """replay(memory, state, kept, places, free, done, raw, outcomes, *schedule, *tapes) -> if all is done.

    If not, the memory has no room; `done` says how many rows were asked about, and how many settled. Tickets
    of open rows wait in rows of `kept`, those named in `places`; of `free`, a stack, the rest.
    """
    ask, settle = rounds_of(rules, steers)
    certificate, note_late, point_of = rules.certificate, rules.note_late, rules.point

    @compiled
    def replay(
        memory: Ints,
        state: Floats,
        kept: Floats,
        places: Ints,
        free: Ints,
        done: Ints,
        raw: Floats,
        outcomes: NDArray[np.uint8],
        order: Ints,
        known: Ints,
        forecasts: Floats,
        certificates: Floats,
        charged: Floats,
    ) -> bool:
        asked, settled, traced = done[0], done[1], len(charged) > 0
        length = kept.shape[1]
        while settled < len(raw):
            if known[settled] > asked:
                note_late(memory, asked - settled)
                forecasts[asked] = ask(memory, state, raw[asked])
                place = free[len(free) - 1 - (asked - settled)]
                places[asked] = place
                for i in range(length):
                    kept[place, i] = state[i]
                asked += 1
                continue
            row = order[settled]
            place = places[row]
            for i in range(length):
                state[i] = kept[place, i]
            outcome = np.int64(outcomes[row])
            if traced:
                cell = int(state[CELL_LOWER]), int(state[CELL_STEP])
                charged[row] = point_of(memory, cell[0], cell[1], outcome, state[FORECAST])
            if not settle(memory, state, outcome):
                done[0], done[1] = asked, settled
                return False
            certificates[settled] = certificate(memory)
            settled += 1
            free[len(free) - 1 - (asked - settled)] = place
        return True

    return replay


@compiled
def book_rows(
    state: Floats, order: Ints, charged: Floats, forecasts: Floats, given: Floats, certificates: Floats
) -> None:
    """`book_given` of rows that a replay settled in this order, in their certificates, too; shapes (T,)."""
    for settled in range(len(order)):
        row = order[settled]
        if given[row] != forecasts[row]:
            book_given(state, charged[row], forecasts[row], given[row])
        certificates[settled] += state[FARTHER] / PARTS
