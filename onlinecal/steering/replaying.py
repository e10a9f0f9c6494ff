"""A whole column of a model's probabilities through a projection: one compiled loop, outcomes late or not.

A `Schedule` never changes. A replay writes memory, state, `kept`, `done` and tapes; when it is over,
`book_rows` may add to the state's account and to certificates what was given in place of forecasts. Where a
replay returns NO_ROOM, the step at hand has changed no memory: `done` names it, the caller makes room, and
the same call goes on from there. A row's ticket is in its place of `kept` from its forecast to its settling,
after which another row may have the place. Nothing here is saved. Wrappers make schedules, and see to their
shapes and order; what a replay leaves is what the same rounds would leave one by one. The seconds are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import Address, Entry, interpreted_first
from onlinecal.compiling.instructions import whole
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import FORMAT
from onlinecal.forecasters.binary.compiled import machine_for
from onlinecal.forecasters.rules import DONE, NO_ROOM
from onlinecal.steering import binary

T = TypeVar("T")

STEERED_ROW_SECONDS, PLAIN_ROW_SECONDS, COMPILING_SECONDS = 2.5e-4, 1e-6, 8.0
"""Seconds that the interpreter takes for a row, steered or not, and that it takes to compile a replay."""


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
    def late(self) -> Ints:
        """How many other forecasts wait when each is made, shape (T,)."""
        waiting: Ints = np.cumsum(self.waits) - self.waits
        return waiting - np.searchsorted(self.known, np.arange(len(self.waits)), side="right")

    @property
    def most_late(self) -> int:
        """The largest number of other forecasts that waited when one was made."""
        return int(self.late.max(initial=0))

    @property
    def is_in_time(self) -> bool:
        """Whether every row is settled, each before the next one is forecast."""
        return len(self.order) == len(self.waits) and not self.most_late

    @cached_property
    def steps(self) -> Ints:
        """What happens, in order, shape (T + n,): row t is forecast, t, or settled, -1 - t."""
        # row t is forecast after the outcomes that are known to it
        steps = np.empty(len(self.waits) + len(self.order), np.int64)
        rows = np.arange(len(self.waits))
        steps[rows + np.searchsorted(self.known, rows, side="right")] = rows
        steps[np.arange(len(self.order)) + self.known] = ~self.order
        return steps

    @property
    def events(self) -> tuple[Ints, Ints, Ints]:
        """For kernels: the steps; where each row's ticket waits, in one of `most_late` + 1 places; `late`.

        The place is -1 if it does not wait.
        """
        return self.steps, COLUMNS.places_of(self.steps, self.waits, self.most_late + 1), self.late

    def turns(
        self, take: Callable[[], T], present: Callable[[T], None]
    ) -> Iterator[tuple[int, int | None, int]]:
        """The steps: a row, None where it is forecast or its place among the settled ones, how many wait.

        What is open is taken out before another row is forecast or settled. It is put back to be settled.
        """
        waiting: dict[int, T] = {}
        here, waits, settled = -1, self.waits.tolist(), 0
        for step in self.steps.tolist():
            row = step if step >= 0 else ~step
            if row != here:
                if here >= 0:
                    waiting[here] = take()
                if step < 0:
                    present(waiting.pop(row))
            yield row, None if step >= 0 else settled, len(waiting)
            settled += step < 0
            here = row if step >= 0 and waits[row] else -1


def places_of(steps: Ints, waits: NDArray[np.bool_], room: int) -> Ints:
    """See `Schedule.events`."""
    places, free, n_free = np.full(len(waits), -1), np.arange(room), room
    for step in steps:
        if step < 0:
            free[n_free] = places[~step]
            n_free += 1
        elif waits[step]:
            n_free -= 1
            places[step] = free[n_free]
    return places


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
    kept = np.empty((schedule.most_late + 1, binary.ticket_length(state)))
    done, events = np.zeros(2, np.int64), schedule.events
    replaying_with = replaying(int(table.memory[FORMAT]), table.hints)
    while replaying_with.replay(table.memory, state, kept, done, raw, outcomes, events, tapes) == NO_ROOM:
        table._grow()
    return tapes


class Replaying:
    """A column behind a machine: an entry point, which is interpreted first.

    replay(memory, state, kept, done, raw, outcomes, events, tapes) -> DONE or NO_ROOM: `done` says how many
    steps were taken by then, and how many rows are settled. Tickets of rows that wait are in rows of `kept`.
    """

    replay: ClassVar[Callable[..., int]]


@cache
def replaying(form: int, hinted: bool) -> type[Replaying]:
    """The entry point for the machine of a FORMAT, with hints or without."""
    rules = machine_for(form).rules_for(hinted)
    ask, settle = binary.rounds_of(rules)
    certificate, note_late, point_of = rules.certificate, rules.note_late, rules.point

    def replay(
        memory: Ints,
        state: Floats,
        kept: Floats,
        done: Ints,
        raw: Floats,
        outcomes: Any,
        events: Any,
        tapes: Any,
    ) -> int:
        steps, places, late = events
        settled, length = done[1], kept.shape[1]
        for number in range(done[0], len(steps)):
            row = steps[number]
            if row >= 0:
                note_late(memory, late[row])
                tapes.forecasts[row] = ask(memory, state, raw[row])
                if places[row] >= 0:
                    for i in range(length):
                        kept[places[row], i] = state[i]
                continue
            row = ~row
            for i in range(length):
                state[i] = kept[places[row], i]
            outcome = whole(outcomes[row])
            if len(tapes.charged) > 0:
                lower, step = int(state[binary.CELL_LOWER]), int(state[binary.CELL_STEP])
                tapes.charged[row] = point_of(memory, lower, step, outcome, state[binary.FORECAST])
            if settle(memory, state, outcome) == NO_ROOM:
                done[0], done[1] = number, settled
                return NO_ROOM
            tapes.certificates[settled] = certificate(memory)
            settled += 1
        return DONE

    def rows(memory: Any, state: Any, kept: Any, done: Ints, raw: Floats, *given: Any) -> int:
        return len(raw) - int(done[1])

    return interpreted_first(
        Replaying,
        Address(__name__, "replaying", (form, hinted)),
        replay=Entry(replay, 2, seconds=STEERED_ROW_SECONDS, compiling=COMPILING_SECONDS, rows=rows),
    )


def book_rows(state: Floats, order: Ints, tapes: Any, given: Floats) -> None:
    """`book_given` of the n rows that a replay settled in this order, in their certificates (n,), too."""
    for settled in range(len(order)):
        row = order[settled]
        if given[row] != tapes.forecasts[row]:
            binary.book_given(state, tapes.charged[row], tapes.forecasts[row], given[row])
        tapes.certificates[settled] += state[binary.FARTHER] / binary.PARTS


class ColumnRules:
    """What a column needs besides: entry points, which are interpreted first; see the functions."""

    places_of: ClassVar[Callable[..., Ints]]
    book_rows: ClassVar[Callable[..., None]]


COLUMNS = interpreted_first(
    ColumnRules,
    Address(__name__, "COLUMNS"),
    places_of=Entry(
        places_of, 0, seconds=PLAIN_ROW_SECONDS, compiling=1.0, rows=lambda steps, *_: len(steps)
    ),
    book_rows=Entry(
        book_rows, 1, seconds=PLAIN_ROW_SECONDS, compiling=1.0, rows=lambda state, order, *_: len(order)
    ),
)
