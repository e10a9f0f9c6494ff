"""Plain events are accepted many at a time, and binary keys take many steps, in one compiled call each.

The judge has all the rules (engine/judge.py). What an accepted event changes is said once, in `note_query`
and `note_closing`, for the judge as for `accept`. `accept` finds the plain events that the judge would accept
by one look at their ids: a query whose id is new, and the first outcome of a forecast that is open. It leaves
all others to the judge. In `play`, each key steers its own hints.

All keys share a few arrays, so that a call gets these and not an array of each key. The memories of
forecasters and the tables of their windows stand one after the other in one heap of integers. Steering states
and accounts are rows of matrices, and so is what is kept of open forecasts.

A *lane* is one forecaster of a key, and a row of these arrays. The row of a key's first lane also holds what
the key has only once.

For each batch `accept` is called again and again, from where the judge stands, and `play` then once for each
group of lanes. Where few events are plain, the judge takes ever more one by one before it calls `accept`
again, plain ones among them; of a batch with few events it takes all. `accept` gives out entries and numbers,
and notes in `fields`, `clocks`, `open` and `times` what a query or an outcome changes there; forecasters
learn nothing yet. `play` takes the steps in their order: by these memories, windows, steering and accounts
learn. Where a step needs something that compiled code cannot do, `play` says what, and returns before the
step has changed more than the place of a memory. `KeyArrays._run` does it, and calls `play` again, which goes
on with the same step. After a step that raised an alarm it returns, too, and goes on with the next.

Compiled code checks no bounds. So before the calls the book makes room for open forecasts, and gives `accept`
a free entry for each query; hints and outcomes were checked before (`columns.py`, the judge, a replay); and
what a disk had was checked by `KeyArrays.load`.

None of these numbers of fields and places is saved (see `storing.py`), so their order may change freely. The
order of what `play` does in a step is part of the answers and of states: a hint is steered before its lane
proposes, and the certificate of an answer is that of the rounds that were settled before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import Address, Entry, inlined, interpreted_first, kernel_part
from onlinecal.compiling.instructions import borrowed, fetch, row_of, to_fetch
from onlinecal.engine.columns import QUERY
from onlinecal.engine.watch.account import FORECAST, HINT, N_STAKES, ask, settle, settle_bets
from onlinecal.forecasters.binary.cells import MOVED, ROUNDS, SCALE, certificate, report
from onlinecal.forecasters.binary.compiled import machine_for, share_charger
from onlinecal.forecasters.binary.windows import follow, is_ready
from onlinecal.steering.trust import advise, take_in

ASKED, GIVEN_UP = -1.0, -2.0
"""In the place of an outcome: a forecast is asked for; an open forecast is given up."""

FETCHED_AHEAD = 2
"""The processor fetches what a step reads so many steps ahead: keys are far apart in the memory."""
MOST_FETCHED = 128
"""So many integers of a memory are fetched: it may be large, and is mostly not read to its end. Both numbers
are of speed alone."""

DONE, NO_MEMORY, SPENT, ALARM, NO_LANE, NO_WINDOW, TOO_COARSE, NO_STEERING_ROW = range(8)
"""How a call ended. DONE: all steps were taken. ALARM: the last step raised one. Otherwise the next step
needs something first: NO_MEMORY room in the heap, SPENT integers that bear another round, NO_LANE a further
lane of its key, NO_WINDOW a window that is ready, TOO_COARSE units that are fine enough for an outcome
between 0 and 1, NO_STEERING_ROW a row of steering."""

STEPS_DONE, HEAP_USED, LONGEST, ALARMED, WAITING_LANE = range(5)
"""Places in `progress`: the number of steps taken; the integers of the heap in use; the most rounds that any
lane has settled; the alarms that the last step raised, 1 of the forecasts, 2 of the hints, 3 of both; the
lane that needs something."""

START, LENGTH, WINDOW, WINDOW_LENGTH, NEXT_LANE, OPEN, LATE = range(7)
"""Fields of a lane: where its memory starts in the heap, and its length; the same of its window, with length
0 if it has none; the key's next lane, -1 for none; how many of its forecasts are open, and the most others
that were open when one was asked for."""
STEERING_ROW, OLDEST_OPEN, LATEST_OPEN, SETTLED = range(7, 11)
"""Fields of the first lane of a binary key, for the whole key: its row of steering, or one of the two below;
its oldest and its latest open forecast, -1 for none; how many rounds it has settled."""
NOT_STEERED_YET, NOT_STEERED = -1, -2
"""In the place of a row of steering: the key had no hint so far; its hints are not steered."""
MOST_LANES, KEY, WAITING, EXPIRED, LAST_EVENT, DIRTY, PLAIN = range(11, 18)
"""Fields of the first lane, for keys of every kind: how many lanes the key may have; its number in the
ledger; how many of its forecasts wait, and how many have expired; the number of its last event; the number of
the first event that its state in the ledger lacks, 0 for none; whether its usual events are PLAIN, as
`KeySettings.plain` has it."""
LANE_FIELDS = 18

OWNER, MADE_BY, CELL_LOWER, CELL_WIDTH, NUMBER, BEFORE, AFTER, HINTED = range(8)
"""Fields of an open forecast: the first lane of its key; the lane that made it; the lower end and the width
of its cell; the number of its query; the key's open forecast before it and after it, -1 for none; whether
steering keeps a ticket of it."""
OPEN_FIELDS = 8


MOST_OPEN = 1 << 22
"""How many forecasts of a binary key may be open."""

UNKNOWN, KNOWN, AWAITED = -1, -2, -3
"""In the place of an entry: no query has had that id; one has, and its forecast is not open; none has, and an
outcome was parked for it."""

NOBODY, UNNAMED = -1, -2
"""In the place of a first lane: the key is not in memory; the event names no key."""

NEXT, LAST_NUMBER, TAKEN, DIRTIED, BEGUN = range(5)
"""Places in `progress`: the next event; the number of the last event that was accepted; how many free entries
were taken; how many keys have become dirty, and how many have had their first event."""
NEW, TO_NUMBER = 0, -1
"""In the place of a key's number in the ledger: no event of it was accepted yet; its first event was accepted
in this call of `accept`, after which the judge gives the key its number (`_number_keys`)."""


class LaneArrays(NamedTuple):
    """What all lanes and their open forecasts consist of.

    Attributes
    ----------
    heap
        All memories and windows, and room behind them; (n,).
    fields
        As above, (lanes, LANE_FIELDS).
    steering
        A row for each key whose hints are steered, (rows, `trust.SIZE`).
    accounts
        Sums and bets by which a key is watched, in the row of its first lane, (lanes, `account.SIZE`).
    clocks
        The latest time of each key, NaN before the first; (lanes,).
    open
        As above, (open forecasts, OPEN_FIELDS); the shapes below begin alike.
    forecasts, certificates, hints, times
        The probability that was answered, and the key's certificate then; the hint as it came, and when the
        forecast was asked for, NaN where there is none; (open,).
    tickets, stakes
        What steering keeps of the forecast, (open, `trust.TICKET`); the stakes on it, (open, `N_STAKES`).
    """

    heap: Ints
    fields: Ints
    steering: Floats
    accounts: Floats
    clocks: Floats
    open: Ints
    forecasts: Floats
    certificates: Floats
    hints: Floats
    times: Floats
    tickets: Floats
    stakes: NDArray[np.float32]


def memory_of(arrays: LaneArrays, lane: int) -> Ints:
    """A view of a lane's memory, valid until the heap changes."""
    start, length = arrays.fields[lane, [START, LENGTH]].tolist()
    return arrays.heap[start : start + length]


class EventTable(NamedTuple):
    """The events of a batch, and the forecasts that they name; all of shape (n,).

    Attributes
    ----------
    kinds, plain, times
        What each event is; whether only its id can be wrong; when it happened.
    first_lanes
        The first lane of the key that the event names, NOBODY or UNNAMED.
    rows
        Which forecast the event names: the place of the first event that names it. There the next three have
        what is known of the forecast.
    entries
        The entry of a forecast that is open; or UNKNOWN, KNOWN or AWAITED.
    asked, closed
        The events of this batch that asked for the forecast and that closed it, -1 for none.
    at, numbers
        The entry and the number that an accepted event got; 0 for other events.
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


class Steps(NamedTuple):
    """The steps that lanes are to take, in their order; all of shape (steps,).

    Attributes
    ----------
    entries
        The open forecast that the step is about.
    outcomes
        From 0 to 1, ASKED or GIVEN_UP.
    hints
        The hint where a forecast is asked for; NaN where there is none.
    numbers
        The number of the event.
    """

    entries: Ints
    outcomes: Floats
    hints: Floats
    numbers: Ints


@inlined
def note_event(fields: Any, clocks: Any, first_lane: int, number: int, time: float) -> bool:
    """What every accepted event changes; whether the key's state in the ledger lacked no event before it.

    `number` is that of the event, `time` NaN if it has none.
    """
    if not time <= clocks[first_lane] and time == time:
        clocks[first_lane] = time
    fields[first_lane, LAST_EVENT] = number
    if fields[first_lane, DIRTY] != 0:
        return False
    fields[first_lane, DIRTY] = number
    return True


@inlined
def note_query(
    fields: Any, clocks: Any, opened: Any, times: Any, first_lane: int, entry: int, number: int, time: float
) -> bool:
    """What an accepted query changes; as `note_event`. A query without a time is asked at the key's."""
    is_first = note_event(fields, clocks, first_lane, number, time)
    opened[entry, OWNER], opened[entry, NUMBER] = first_lane, number
    times[entry] = time if time == time else clocks[first_lane]
    fields[first_lane, WAITING] += 1
    return is_first


@inlined
def note_closing(fields: Any, clocks: Any, first_lane: int, number: int, time: float) -> bool:
    """What an accepted outcome or withdrawal changes; as `note_event`. Forecasters learn of it in `play`."""
    fields[first_lane, WAITING] -= 1
    return note_event(fields, clocks, first_lane, number, time)


def accept(table: EventTable, arrays: LaneArrays, free: Ints, changed: Ints, progress: Ints) -> None:
    """Accept events from `progress[NEXT]` on, up to one that is not plain; `free` are entries.

    `changed`, of shape (2, n), is filled with first lanes: those of the keys that have become dirty, and
    those of the keys that have had their first event.
    """
    fields, clocks, opened, times = arrays.fields, arrays.clocks, arrays.open, arrays.times
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
            fields[first_lane, KEY] = TO_NUMBER
            changed[1, progress[BEGUN]] = first_lane
            progress[BEGUN] += 1
        number += 1
        if asks:
            entry = free[progress[TAKEN]]
            progress[TAKEN] += 1
            is_first = note_query(fields, clocks, opened, times, first_lane, entry, number, table.times[i])
            table.entries[row], table.asked[row] = entry, i
        else:
            is_first = note_closing(fields, clocks, first_lane, number, table.times[i])
            table.entries[row], table.closed[row] = KNOWN, i
        if is_first:
            changed[0, progress[DIRTIED]] = first_lane
            progress[DIRTIED] += 1
        table.at[i], table.numbers[i] = entry, number
        progress[LAST_NUMBER] = number
    progress[NEXT] = len(table.kinds)


@inlined(counted=True)
def view_of(heap: Any, start: int, length: int) -> Any:
    """A part of the heap: a memory, or the table of a window."""
    return borrowed(heap[start : start + length])


@inlined
def add_open(fields: Any, opened: Any, first_lane: int, entry: int) -> None:
    """Append a forecast to its key's list of open forecasts."""
    last = fields[first_lane, LATEST_OPEN]
    opened[entry, BEFORE], opened[entry, AFTER] = last, -1
    if last < 0:
        fields[first_lane, OLDEST_OPEN] = entry
    else:
        opened[last, AFTER] = entry
    fields[first_lane, LATEST_OPEN] = entry


@inlined
def remove_open(fields: Any, opened: Any, first_lane: int, entry: int) -> None:
    """Take a forecast out of its key's list of open forecasts."""
    before, after = opened[entry, BEFORE], opened[entry, AFTER]
    if before < 0:
        fields[first_lane, OLDEST_OPEN] = after
    else:
        opened[before, AFTER] = after
    if after < 0:
        fields[first_lane, LATEST_OPEN] = before
    else:
        opened[after, BEFORE] = before


@inlined
def free_lane(fields: Any, first_lane: int) -> int:
    """The first lane without open forecasts; -1 if a new one is to be made; else the one with the fewest."""
    lanes, best, lane = 0, first_lane, first_lane
    while lane >= 0:
        if fields[lane, OPEN] == 0:
            return lane
        if fields[lane, OPEN] < fields[best, OPEN]:
            best = lane
        lanes += 1
        lane = fields[lane, NEXT_LANE]
    return best if lanes == fields[first_lane, MOST_LANES] else -1


@inlined(counted=True)
def certificate_of(heap: Any, fields: Any, first_lane: int) -> float:
    """A key's certificate: by Fact 4 those of its lanes add up."""
    total, lane = 0.0, first_lane
    while lane >= 0:
        total += certificate(view_of(heap, fields[lane, START], fields[lane, LENGTH]))
        lane = fields[lane, NEXT_LANE]
    return total


@kernel_part
def give_back(arrays: Any, first_lane: int, entry: int) -> None:
    """Give back the stakes on a forecast that never gets an outcome: the mean outcome does just that."""
    account, stakes, asked = (
        row_of(arrays.accounts, first_lane),
        row_of(arrays.stakes, entry),
        float(arrays.open[entry, NUMBER]),
    )
    p, hint = arrays.forecasts[entry], arrays.hints[entry]
    settle_bets(account, stakes, FORECAST, p, p, asked, 0.0, np.inf)
    if hint == hint:
        settle_bets(account, stakes, HINT, hint, hint, asked, 0.0, np.inf)


class Accepting:
    """What accepts plain events: an entry point, which is interpreted first."""

    accept: ClassVar[Callable[[EventTable, LaneArrays, Ints, Ints, Ints], None]]


INTS, INT_TABLE = types.int64[::1], types.int64[:, ::1]
FLOATS, FLOAT_TABLE, SMALL_FLOAT_TABLE = types.float64[::1], types.float64[:, ::1], types.float32[:, ::1]
LANE_TYPES = types.NamedTuple(
    (
        INTS, INT_TABLE, FLOAT_TABLE, FLOAT_TABLE, FLOATS, INT_TABLE, FLOATS, FLOATS, FLOATS, FLOATS,
        FLOAT_TABLE, SMALL_FLOAT_TABLE,
    ),
    LaneArrays,
)  # fmt: skip
STEP_TYPES = types.NamedTuple((INTS, FLOATS, FLOATS, INTS), Steps)
EVENT_TYPES = types.NamedTuple(
    (types.int8[::1], types.boolean[::1], FLOATS, INTS, INTS, INTS, INTS, INTS, INTS, INTS), EventTable
)
ACCEPTING = interpreted_first(
    Accepting,
    Address(__name__, "ACCEPTING"),
    accept=Entry(
        accept,
        0,
        (EVENT_TYPES, LANE_TYPES, INTS, INT_TABLE, INTS),
        seconds=4e-6,
        compiling=1.0,
        rows=lambda table, arrays, free, changed, progress: len(table.kinds) - int(progress[NEXT]),
    ),
)


class Playing:
    """The steps of lanes on one machine: an entry point, which is interpreted first.

    play(arrays, steps, progress, threshold) -> how it ended. `progress`, of shape (5,), is read and written.
    A memory without room moves to the end of the heap and becomes twice as long. `threshold` is that of
    alarms, inf for none.
    """

    play: ClassVar[Callable[[LaneArrays, Steps, Ints, float], int]]


STEP_SECONDS, COMPILING_SECONDS = 3e-4, 10.0
"""Seconds that the interpreter takes for a step, and that it takes to compile all steps."""


@cache
def playing(form: int) -> type[Playing]:
    """The entry point for lanes on the machine of a FORMAT."""
    rules = machine_for(form).rules
    propose, charge, has_room, bears = rules.propose, rules.charge, rules.has_room, rules.bears
    in_units, note_late, takes_shares = rules.in_units, rules.note_late, rules.takes_shares
    charge_share = share_charger(rules)

    def play(arrays: LaneArrays, steps: Steps, progress: Ints, threshold: float) -> int:
        heap, fields, opened = arrays.heap, arrays.fields, arrays.open
        steering, accounts, stakes = arrays.steering, arrays.accounts, arrays.stakes
        bets = threshold < np.inf
        learnt, sums = to_fetch(steering), to_fetch(accounts)
        for i in range(progress[STEPS_DONE], len(steps.entries)):
            progress[STEPS_DONE] = i
            if i + FETCHED_AHEAD < len(steps.entries):
                coming = opened[steps.entries[i + FETCHED_AHEAD], OWNER]
                fetch(heap, fields[coming, START], min(fields[coming, LENGTH], MOST_FETCHED))
                if fields[coming, STEERING_ROW] >= 0:
                    fetch(learnt, fields[coming, STEERING_ROW] * steering.shape[1], steering.shape[1])
                fetch(sums, coming * accounts.shape[1], accounts.shape[1])
            entry, outcome = steps.entries[i], steps.outcomes[i]
            first_lane = opened[entry, OWNER]
            row = fields[first_lane, STEERING_ROW]
            if outcome == GIVEN_UP:
                remove_open(fields, opened, first_lane, entry)
                fields[opened[entry, MADE_BY], OPEN] -= 1
                if bets:
                    give_back(arrays, first_lane, entry)
                continue
            if outcome == ASKED:
                if row == NOT_STEERED_YET and steps.hints[i] == steps.hints[i]:
                    return NO_STEERING_ROW
                lane = free_lane(fields, first_lane)
                if lane < 0:
                    progress[WAITING_LANE] = first_lane
                    return NO_LANE
                memory = view_of(heap, fields[lane, START], fields[lane, LENGTH])
                others = fields[lane, OPEN]
                fields[lane, LATE] = max(fields[lane, LATE], others)
                note_late(memory, others)
                fields[lane, OPEN] = others + 1
                hint = steps.hints[i]
                arrays.hints[entry] = hint
                opened[entry, MADE_BY] = lane
                add_open(fields, opened, first_lane, entry)
                guide = hint if hint == hint else -1.0
                opened[entry, HINTED] = int(guide >= 0.0 and row >= 0)
                if opened[entry, HINTED] != 0:
                    steered = advise(row_of(steering, row), row_of(arrays.tickets, entry), hint)
                    # only a forged state can lead beyond [0, 1] or to NaN
                    guide = steered if 0.0 <= steered <= 1.0 else hint
                lower, step = propose(memory, guide)
                forecast = report(memory, lower, step, guide)
                opened[entry, CELL_LOWER], opened[entry, CELL_WIDTH] = lower, step
                arrays.forecasts[entry] = forecast
                arrays.certificates[entry] = certificate_of(heap, fields, first_lane)
                for j in range(N_STAKES):
                    stakes[entry, j] = 0.0
                if bets:
                    ask(row_of(accounts, first_lane), row_of(stakes, entry), forecast, hint, threshold)
                continue
            lane = opened[entry, MADE_BY]
            progress[WAITING_LANE] = lane
            start, length = fields[lane, START], fields[lane, LENGTH]
            memory = view_of(heap, start, length)
            whole = outcome == 0.0 or outcome == 1.0
            if not whole and not takes_shares(memory):
                return TOO_COARSE
            if not has_room(memory):
                if not bears(memory):
                    return SPENT
                if progress[HEAP_USED] + 2 * length > len(heap):
                    return NO_MEMORY
                start = progress[HEAP_USED]
                for j in range(length):
                    heap[start + j] = memory[j]
                for j in range(length, 2 * length):
                    heap[start + j] = 0
                fields[lane, START], fields[lane, LENGTH] = start, 2 * length
                progress[HEAP_USED] += 2 * length
                memory = view_of(heap, start, 2 * length)
            has_window, now, moved = (
                fields[lane, WINDOW_LENGTH] > 0,
                fields[first_lane, SETTLED] + 1,
                memory[MOVED],
            )
            if has_window:
                table = view_of(heap, fields[lane, WINDOW], fields[lane, WINDOW_LENGTH])
                if not is_ready(table, memory, memory[ROUNDS], now):
                    return NO_WINDOW
            if opened[entry, HINTED] != 0:
                take_in(row_of(steering, row), row_of(arrays.tickets, entry), outcome)
            lower, step = in_units(memory, opened[entry, CELL_LOWER], opened[entry, CELL_WIDTH])
            if whole:
                charge(
                    memory, lower, step, int(outcome), int(outcome) * memory[SCALE], arrays.forecasts[entry]
                )
            else:
                charge_share(memory, lower, step, outcome, arrays.forecasts[entry])
            if has_window:
                table = view_of(heap, fields[lane, WINDOW], fields[lane, WINDOW_LENGTH])
                follow(table, memory, now, lower, step, outcome, moved)
            remove_open(fields, opened, first_lane, entry)
            fields[lane, OPEN] -= 1
            fields[first_lane, SETTLED] = now
            progress[LONGEST] = max(progress[LONGEST], memory[ROUNDS])
            progress[ALARMED] = settle(
                row_of(accounts, first_lane), row_of(stakes, entry), arrays.forecasts[entry],
                arrays.hints[entry], outcome, float(opened[entry, NUMBER]), float(steps.numbers[i]),
                threshold,
            )  # fmt: skip
            if progress[ALARMED] != 0:
                progress[STEPS_DONE], progress[WAITING_LANE] = i + 1, first_lane
                return ALARM
        progress[STEPS_DONE] = len(steps.entries)
        return DONE

    def rows(arrays: LaneArrays, steps: Steps, progress: Ints, threshold: float) -> int:
        return len(steps.entries) - int(progress[STEPS_DONE])

    return interpreted_first(
        Playing,
        Address(__name__, "playing", (form,)),
        play=Entry(
            play,
            0,
            (LANE_TYPES, STEP_TYPES, INTS, types.float64),
            seconds=STEP_SECONDS,
            compiling=COMPILING_SECONDS,
            rows=rows,
        ),
    )
