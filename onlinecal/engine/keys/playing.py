"""Binary keys played many steps in one compiled call, each behind its own steering.

What keys hold stands in a few arrays, so that no array has to be handed over for each of them: the memories
of forecasters and the tables of their windows one after the other in one heap of integers, steering states
and accounts as rows of matrices, and what is kept of open forecasts as rows of others.

A *player* is a lane of a key: one forecaster. The first lane stands for the key itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.instructions import borrowed, fetch_all
from onlinecal.engine.watch.account import FORECAST, HINT, TICKET, ask, settle, settle_bets
from onlinecal.forecasters.binary.cells import MOVED, ROUNDS, SCALE, certificate, inlined, report
from onlinecal.forecasters.binary.compiled import share_charger
from onlinecal.forecasters.binary.windowing.windows import follow, is_ready
from onlinecal.steering.trust import advise, take_in

ASKS, GONE = -1.0, -2.0
"""In the place of an outcome: the step asks for a forecast; the forecast that is open is given up."""

AHEAD = 2
"""What a step reads is fetched while so many before it are taken: keys are far apart in the memory."""
MOST_FETCHED = 128
"""Integers of a memory, which may be large and is mostly not read to its end."""

DONE, NO_MEMORY, SPENT, ALARM, NO_LANE, NO_WINDOW, COARSE, NO_ROW = range(8)
"""How a call ended. All steps were taken; or the next one waits for something: room in the heap, integers
that bear another round, a further lane of its key, a window that is ready, units that are fine enough for an
outcome between 0 and 1, a row of steering. Or the last one raised an alarm."""

STEP, HEAP_USED, LONGEST, WHOSE, LANE = range(5)
"""Of the progress: steps taken; integers of the heap in use; the most rounds that any player has settled;
whose
alarms the last step raised; the player that waits for something."""

START, LENGTH, TABLE, TABLE_LENGTH, NEXT_LANE, ROW, OPEN, LATE, FIRST, LAST, SETTLED = range(11)
"""Of a player: where its memory begins in the heap, and its length; the same of its window's table, length 0
without one; the key's next lane, -1 for none. Of the first lane, for the whole key, its row of steering, or
one of the two below. Its open forecasts; the most others that were open when one was asked for. For the whole
key: its oldest and its latest open forecast, -1 for none; its settled rounds."""
NO_ROW_YET, NOT_STEERED = -1, -2
"""In the place of a row: the key had no hint so far; its hints are not steered."""
MOST_LANES, KEY, WAITING, EXPIRED, USED, DIRTY, PLAIN = range(11, 18)
"""Of the first lane, of keys of every kind: how many lanes it may have; the ledger's number of the key; how
many forecasts wait, and how many it has given up; the last event that something happened in to it; the first
event that the ledger's state lacks, 0 for none; whether nothing can be wrong with a query that has a
probability for a hint, or none, nor with an outcome 0 or 1 of an open forecast."""
FIELDS = 18

OWNER, BY, LOWER, CELL, NUMBER, BEFORE, AFTER, HINTED = range(8)
"""Of an open forecast: the first lane of its key; the lane that made it; the lower end and the step of its
cell;
the number of the query; the key's open forecast before it and after it, -1 for none; whether steering keeps a
ticket."""
KEPT = 8


class Players(NamedTuple):
    """The forecasters and their open forecasts.

    Attributes
    ----------
    heap
        All memories and tables, and room behind them; (n,).
    fields
        As above, (players, FIELDS).
    steering
        A row for each key that is steered, (rows, `trust.SIZE`).
    accounts
        Of those who watch the key, a row for each player, (players, `account.SIZE`).
    clocks
        The latest time of each key, NaN before the first; (players,).
    open
        As above, (open, KEPT).
    forecasts, certificates, hints, times
        Of open forecasts: the probability that was answered, and the key's certificate then; the hint as it
        came, and when it was asked for, NaN where there is none; (open,).
    tickets, stakes
        Of open forecasts: what steering keeps, (open, `trust.TICKET`); what is bet, (open, `account.TICKET`).
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


class Steps(NamedTuple):
    """What is to happen, in its order; all of shape (steps,).

    Attributes
    ----------
    entries
        Which open forecast it is about.
    outcomes
        From 0 to 1, ASKS or GONE.
    hints
        Of those that ask, NaN where there is none.
    numbers
        Of the events.
    """

    entries: Ints
    outcomes: Floats
    hints: Floats
    numbers: Ints


@inlined
def part_at(heap: Any, start: int, length: int) -> Any:
    """A memory or a table."""
    return borrowed(heap[start : start + length])


@inlined
def enter(fields: Any, kept: Any, player: int, entry: int) -> None:
    """Let a forecast be its key's latest that is open."""
    last = fields[player, LAST]
    kept[entry, BEFORE], kept[entry, AFTER] = last, -1
    if last < 0:
        fields[player, FIRST] = entry
    else:
        kept[last, AFTER] = entry
    fields[player, LAST] = entry


@inlined
def leave(fields: Any, kept: Any, player: int, entry: int) -> None:
    """Let a forecast be open no longer."""
    before, after = kept[entry, BEFORE], kept[entry, AFTER]
    if before < 0:
        fields[player, FIRST] = after
    else:
        kept[before, AFTER] = after
    if after < 0:
        fields[player, LAST] = before
    else:
        kept[after, BEFORE] = before


@inlined
def free_lane(fields: Any, player: int) -> int:
    """The first lane that waits for nothing; -1 for a new one; else the one that waits for least."""
    lanes, found, lane = 0, player, player
    while lane >= 0:
        if fields[lane, OPEN] == 0:
            return lane
        if fields[lane, OPEN] < fields[found, OPEN]:
            found = lane
        lanes += 1
        lane = fields[lane, NEXT_LANE]
    return found if lanes == fields[player, MOST_LANES] else -1


@inlined
def certificate_of(heap: Any, fields: Any, player: int) -> float:
    """A key's certificate: by Fact 4 those of its lanes add up."""
    found, lane = 0.0, player
    while lane >= 0:
        found += certificate(part_at(heap, fields[lane, START], fields[lane, LENGTH]))
        lane = fields[lane, NEXT_LANE]
    return found


@kernel_part
def give_back(players: Any, player: int, entry: int) -> None:
    """Let stakes come back, of a forecast that never gets an outcome: as by the mean outcome."""
    account, stakes, asked = (
        players.accounts[player],
        players.stakes[entry],
        float(players.open[entry, NUMBER]),
    )
    p, hint = players.forecasts[entry], players.hints[entry]
    settle_bets(account, stakes, FORECAST, p, p, asked, 0.0, np.inf)
    if hint == hint:
        settle_bets(account, stakes, HINT, hint, hint, asked, 0.0, np.inf)


@cache
def playing(rules: ModuleType) -> Callable[[Players, Steps, Ints, float], int]:
    """play(players, steps, progress, threshold) -> how it ended, for players on a machine with these rules.

    `progress`, shape (5,), is read and written. A memory without room moves to the end of the heap, twice as
    long. `threshold` is that of alarms, inf for none.
    """
    propose, charge, has_room, bears = rules.propose, rules.charge, rules.has_room, rules.bears
    in_units, note_late, takes_shares = rules.in_units, rules.note_late, rules.takes_shares
    charge_share = share_charger(rules)

    @compiled
    def play(players: Players, steps: Steps, progress: Ints, threshold: float) -> int:
        heap, fields, kept = players.heap, players.fields, players.open
        steering, accounts, stakes = players.steering, players.accounts, players.stakes
        bets = threshold < np.inf
        learnt, sums = borrowed(steering.ravel()), borrowed(accounts.ravel())
        for i in range(progress[STEP], len(steps.entries)):
            progress[STEP] = i
            if i + AHEAD < len(steps.entries):
                coming = kept[steps.entries[i + AHEAD], OWNER]
                fetch_all(heap, fields[coming, START], min(fields[coming, LENGTH], MOST_FETCHED))
                if fields[coming, ROW] >= 0:
                    fetch_all(learnt, fields[coming, ROW] * steering.shape[1], steering.shape[1])
                fetch_all(sums, coming * accounts.shape[1], accounts.shape[1])
            entry, outcome = steps.entries[i], steps.outcomes[i]
            player = kept[entry, OWNER]
            row = fields[player, ROW]
            if outcome == GONE:
                leave(fields, kept, player, entry)
                fields[kept[entry, BY], OPEN] -= 1
                if bets:
                    give_back(players, player, entry)
                continue
            if outcome == ASKS:
                if row == NO_ROW_YET and steps.hints[i] == steps.hints[i]:
                    return NO_ROW
                lane = free_lane(fields, player)
                if lane < 0:
                    progress[LANE] = player
                    return NO_LANE
                memory = part_at(heap, fields[lane, START], fields[lane, LENGTH])
                others = fields[lane, OPEN]
                fields[lane, LATE] = max(fields[lane, LATE], others)
                note_late(memory, others)
                fields[lane, OPEN] = others + 1
                hint = steps.hints[i]
                players.hints[entry] = hint
                kept[entry, BY] = lane
                enter(fields, kept, player, entry)
                guide = hint if hint == hint else -1.0
                kept[entry, HINTED] = int(guide >= 0.0 and row >= 0)
                if kept[entry, HINTED] != 0:
                    steered = advise(steering[row], players.tickets[entry], hint)
                    # only a state that somebody made up can lead beyond [0, 1] or to NaN
                    guide = steered if 0.0 <= steered <= 1.0 else hint
                lower, step = propose(memory, guide)
                forecast = report(memory, lower, step, guide)
                kept[entry, LOWER], kept[entry, CELL] = lower, step
                players.forecasts[entry] = forecast
                players.certificates[entry] = certificate_of(heap, fields, player)
                for j in range(TICKET):
                    stakes[entry, j] = 0.0
                if bets:
                    ask(accounts[player], stakes[entry], forecast, hint)
                continue
            lane = kept[entry, BY]
            progress[LANE] = lane
            start, length = fields[lane, START], fields[lane, LENGTH]
            memory = part_at(heap, start, length)
            whole = outcome == 0.0 or outcome == 1.0
            if not whole and not takes_shares(memory):
                return COARSE
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
                memory = part_at(heap, start, 2 * length)
            windowed, now, moved = fields[lane, TABLE_LENGTH] > 0, fields[player, SETTLED] + 1, memory[MOVED]
            if windowed:
                table = part_at(heap, fields[lane, TABLE], fields[lane, TABLE_LENGTH])
                if not is_ready(table, memory, memory[ROUNDS], now):
                    return NO_WINDOW
            if kept[entry, HINTED] != 0:
                take_in(steering[row], players.tickets[entry], outcome)
            lower, step = in_units(memory, kept[entry, LOWER], kept[entry, CELL])
            if whole:
                charge(
                    memory, lower, step, int(outcome), int(outcome) * memory[SCALE], players.forecasts[entry]
                )
            else:
                charge_share(memory, lower, step, outcome, players.forecasts[entry])
            if windowed:
                table = part_at(heap, fields[lane, TABLE], fields[lane, TABLE_LENGTH])
                follow(table, memory, now, lower, step, outcome, moved)
            leave(fields, kept, player, entry)
            fields[lane, OPEN] -= 1
            fields[player, SETTLED] = now
            progress[LONGEST] = max(progress[LONGEST], memory[ROUNDS])
            progress[WHOSE] = settle(
                accounts[player], stakes[entry], players.forecasts[entry], players.hints[entry], outcome,
                float(kept[entry, NUMBER]), float(steps.numbers[i]), threshold,
            )  # fmt: skip
            if progress[WHOSE] != 0:
                progress[STEP], progress[LANE] = i + 1, player
                return ALARM
        progress[STEP] = len(steps.entries)
        return DONE

    return play
