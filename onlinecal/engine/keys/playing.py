"""Many forecasters of one kind, each behind its own steering, played in one compiled call.

What they hold stands in a few arrays, so that no array has to be handed over for each: the memories one after
the other in one heap of integers, steering states and accounts as rows of matrices, and what is kept of open
forecasts, cells, forecasts, tickets and stakes, as rows of others.
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
from onlinecal.forecasters.binary.cells import ROUNDS, SCALE, certificate, report
from onlinecal.steering.trust import advise, take_in

ASKS = -1
"""In the place of an outcome: the step asks for a forecast."""

GONE = -2
"""The same: the forecast that is open is given up."""

AHEAD = 2
"""What a step reads is fetched while so many before it are taken: keys are far apart in the memory."""

MOST_FETCHED = 128
"""Integers of a memory, which may be large and is mostly not read to its end."""

DONE, NO_MEMORY, SPENT, ALARM = 0, 1, 2, 3
"""How a call ended: all steps were taken; the heap, or the integers of a memory, had no room for the next;
the last one raised an alarm."""


class Players(NamedTuple):
    """The forecasters and their open forecasts.

    Attributes
    ----------
    heap
        All memories, and room behind them; (n,).
    places
        Where each player's memory begins, and its length; (players, 2).
    steering
        A row for each player that is steered, (rows, `trust.SIZE`).
    rows
        The player's row, -1 if its hints are not steered; (players,).
    counts
        Its open forecasts, and the most others that were open when it was asked; (players, 2).
    accounts
        Of those who watch the player, (players, `account.SIZE`).
    cells, forecasts, certificates, tickets, hinted
        Of open forecasts: lower end and step, (open, 2); what was answered, the probability and the key's
        certificate then, (open,); what steering keeps, (open, `trust.TICKET`), if there is anything, (open,).
    hints, numbers, stakes
        Of open forecasts: the hint as it came, NaN where there was none, (open,); the number of the query,
        (open,); what is bet on them, (open, `account.TICKET`).
    """

    heap: Ints
    places: Ints
    steering: Floats
    rows: Ints
    counts: Ints
    accounts: Floats
    cells: Ints
    forecasts: Floats
    certificates: Floats
    tickets: Floats
    hinted: NDArray[np.bool_]
    hints: Floats
    numbers: Ints
    stakes: NDArray[np.float32]


class Steps(NamedTuple):
    """What is to happen, in its order; all of shape (steps,).

    Attributes
    ----------
    players, places
        Whose forecast, and which of the open ones it is.
    outcomes
        0, 1, ASKS or GONE.
    hints
        Of those that ask; negative where there is none.
    numbers
        Of the events.
    """

    players: Ints
    places: Ints
    outcomes: Ints
    hints: Floats
    numbers: Ints


@kernel_part
def give_back(account: Any, stakes: Any, forecast: float, hint: float, asked: int) -> None:
    """Let stakes come back, of a forecast that never gets an outcome: as by the mean outcome."""
    settle_bets(account, stakes, FORECAST, forecast, forecast, float(asked), 0.0, np.inf)
    if hint == hint:
        settle_bets(account, stakes, HINT, hint, hint, float(asked), 0.0, np.inf)


@cache
def playing(rules: ModuleType) -> Callable[[Players, Steps, Ints, float], int]:
    """play(players, steps, progress, threshold) -> how it ended, for players on a machine with these rules.

    `progress`, shape (4,), is read and written: steps taken, integers of the heap in use, the most rounds
    that any player has settled, whose alarms the last step raised. A memory without room moves to the end of
    the heap, twice as long. `threshold` is that of alarms, inf for none.
    """
    propose, charge, has_room = rules.propose, rules.charge, rules.has_room
    bears, in_units, note_late = rules.bears, rules.in_units, rules.note_late

    @compiled
    def play(players: Players, steps: Steps, progress: Ints, threshold: float) -> int:
        heap, places, steering, rows = players.heap, players.places, players.steering, players.rows
        counts, accounts, stakes = players.counts, players.accounts, players.stakes
        bets = threshold < np.inf
        learnt, sums = borrowed(steering.ravel()), borrowed(accounts.ravel())
        while progress[0] < len(steps.players):
            i = progress[0]
            if i + AHEAD < len(steps.players):
                coming = steps.players[i + AHEAD]
                fetch_all(heap, places[coming, 0], min(places[coming, 1], MOST_FETCHED))
                if rows[coming] >= 0:
                    fetch_all(learnt, rows[coming] * steering.shape[1], steering.shape[1])
                fetch_all(sums, coming * accounts.shape[1], accounts.shape[1])
            player, place, outcome = steps.players[i], steps.places[i], steps.outcomes[i]
            start, length, row = places[player, 0], places[player, 1], rows[player]
            memory = borrowed(heap[start : start + length])
            if outcome == GONE:
                counts[player, 0] -= 1
                if bets:
                    give_back(
                        accounts[player],
                        stakes[place],
                        players.forecasts[place],
                        players.hints[place],
                        players.numbers[place],
                    )
            elif outcome == ASKS:
                counts[player, 1] = max(counts[player, 1], counts[player, 0])
                note_late(memory, counts[player, 0])
                counts[player, 0] += 1
                hint = steps.hints[i]
                players.hints[place] = hint if hint >= 0.0 else np.nan
                players.numbers[place] = steps.numbers[i]
                players.hinted[place] = hint >= 0.0 and row >= 0
                if players.hinted[place]:
                    guide = advise(steering[row], players.tickets[place], hint)
                    # only a state that somebody made up can lead beyond [0, 1] or to NaN
                    hint = guide if 0.0 <= guide <= 1.0 else hint
                lower, step = propose(memory, hint)
                forecast = report(memory, lower, step, hint)
                players.cells[place, 0] = lower
                players.cells[place, 1] = step
                players.forecasts[place] = forecast
                players.certificates[place] = certificate(memory)
                if bets:
                    for j in range(TICKET):
                        stakes[place, j] = 0.0
                    ask(accounts[player], stakes[place], forecast, players.hints[place])
            else:
                if not has_room(memory):
                    if not bears(memory):
                        return SPENT
                    if progress[1] + 2 * length > len(heap):
                        return NO_MEMORY
                    start = progress[1]
                    for j in range(length):
                        heap[start + j] = memory[j]
                    for j in range(length, 2 * length):
                        heap[start + j] = 0
                    places[player, 0] = start
                    places[player, 1] = 2 * length
                    progress[1] += 2 * length
                    memory = borrowed(heap[start : start + 2 * length])
                if players.hinted[place]:
                    take_in(steering[row], players.tickets[place], float(outcome))
                lower, step = in_units(memory, players.cells[place, 0], players.cells[place, 1])
                charge(memory, lower, step, outcome, outcome * memory[SCALE], players.forecasts[place])
                counts[player, 0] -= 1
                progress[2] = max(progress[2], memory[ROUNDS])
                progress[3] = settle(
                    accounts[player], stakes[place], players.forecasts[place], players.hints[place],
                    float(outcome), float(players.numbers[place]), float(steps.numbers[i]), threshold,
                )  # fmt: skip
                if progress[3] != 0:
                    progress[0] = i + 1
                    return ALARM
            progress[0] = i + 1
        return DONE

    return play
