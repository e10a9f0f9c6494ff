"""A whole column of a model's probabilities through a projection: one compiled loop, outcomes late or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    """What came of T rows, n of them settled: forecasts (T,), certificates after each settled round (n,).

    `charged`: by row the points that were charged (T,), of settled rows alone, or empty.
    """

    forecasts: Floats
    certificates: Floats
    charged: Floats = np.empty(0)


@dataclass(frozen=True, eq=False)
class Schedule:
    """In which order the outcomes of n of T rows become known, and to which forecasts.

    order
        The rows that are settled, shape (n,), as their outcomes become known.
    known
        Shape (n,): for each of these the first row whose forecast knows it, from its own row + 1 to T; never
        decreasing.
    waits
        Shape (T,): which rows wait for their outcomes. Those that are settled do; of the others those that
        do stay open, and those that do not are given up as soon as they are forecast.
    """

    order: Ints
    known: Ints
    waits: NDArray[np.bool_]

    @cached_property
    def most_late(self) -> int:
        """The largest number of other forecasts that waited when one was made."""
        rows = np.arange(len(self.waits))
        waiting: Ints = np.cumsum(self.waits) - self.waits
        return int((waiting - np.searchsorted(self.known, rows, side="right")).max(initial=0))

    @cached_property
    def is_in_time(self) -> bool:
        """Whether every row is settled, each before the next one is forecast."""
        return len(self.order) == len(self.waits) and not self.most_late

    def steps(self) -> Iterator[tuple[int, int | None]]:
        """What happens, in order: a row, and None where it is forecast, or its place among those settled."""
        asked = 0
        for settled, (row, known) in enumerate(zip(self.order.tolist(), self.known.tolist(), strict=True)):
            for each in range(asked, known):
                yield each, None
            asked = max(asked, known)
            yield row, settled
        for each in range(asked, len(self.waits)):
            yield each, None


def replayed(
    table: AlmostOneStepAhead,
    state: Floats,
    raw: Floats,
    outcomes: NDArray[np.uint8],
    schedule: Schedule,
    traced: bool = False,
) -> Tapes:
    """Play probabilities and outcomes on a table and a steering state, both of shape (T,).

    `traced`: note the charged points, too.
    """
    tapes = Tapes(np.empty(len(raw)), np.empty(len(schedule.order)), np.empty(len(raw) if traced else 0))
    room = schedule.most_late + 1
    steers = state.size > TICKET_ALONE + ACCOUNT
    kept = np.empty((room, steered(table.rules, steers).ticket))
    places, free, done = np.empty(len(raw), np.int64), np.arange(room), np.zeros(3, np.int64)
    events = schedule.order, schedule.known, schedule.waits
    while not replaying(table.rules, steers)(
        table.memory, state, kept, places, free, done, raw, outcomes, *events, *tapes
    ):
        table.grow()
    return tapes


@cache
def replaying(rules: Rules, steers: bool) -> Callable[..., bool]:
    """replay(memory, state, kept, places, free, done, raw, outcomes, *schedule, *tapes) -> if all is done.

    If not, the memory has no room; `done` says how many rows were asked about, how many settled, and how
    many wait. Tickets of rows that wait are in rows of `kept`, those named in `places`; of `free`, a stack,
    the rest.
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
        waits: NDArray[np.bool_],
        forecasts: Floats,
        certificates: Floats,
        charged: Floats,
    ) -> bool:
        asked, settled, waiting, traced = done[0], done[1], done[2], len(charged) > 0
        length = kept.shape[1]
        while asked < len(raw) or settled < len(order):
            if settled == len(order) or known[settled] > asked:
                note_late(memory, waiting)
                forecasts[asked] = ask(memory, state, raw[asked])
                if waits[asked]:
                    place = free[len(free) - 1 - waiting]
                    places[asked] = place
                    for i in range(length):
                        kept[place, i] = state[i]
                    waiting += 1
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
                done[0], done[1], done[2] = asked, settled, waiting
                return False
            certificates[settled] = certificate(memory)
            settled += 1
            waiting -= 1
            free[len(free) - 1 - waiting] = place
        return True

    return replay


@compiled
def book_rows(
    state: Floats, order: Ints, charged: Floats, forecasts: Floats, given: Floats, certificates: Floats
) -> None:
    """`book_given` of the n rows that a replay settled in this order, in their certificates (n,), too."""
    for settled in range(len(order)):
        row = order[settled]
        if given[row] != forecasts[row]:
            book_given(state, charged[row], forecasts[row], given[row])
        certificates[settled] += state[FARTHER] / PARTS
