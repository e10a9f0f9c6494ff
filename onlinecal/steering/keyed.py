"""Many forecasters of one kind, each behind its own steering, played in one compiled call.

What they hold stands in a few arrays, so that no array has to be handed over for each: the memories one after
the other in one heap of integers, steering states as rows of a matrix, and what is kept of open forecasts,
cells, forecasts and tickets, as rows of others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled
from onlinecal.compiling.borrowed import borrowed
from onlinecal.forecasters.binary.cells import ROUNDS, SCALE, certificate, report
from onlinecal.steering.trust import advise, take_in

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ASKS = -1
"""In the place of an outcome: the step asks for a forecast."""

GONE = -2
"""The same: the forecast that is open is given up."""

DONE, NO_MEMORY, SPENT = 0, 1, 2
"""How a call ended: all steps were taken; the heap, or the integers of a memory, had no room for the next."""


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
    cells, forecasts, tickets, hinted
        Of open forecasts: lower end and step, (open, 2); the probability, (open,); what steering keeps,
        (open, `trust.TICKET`), if there is anything, (open,).
    """

    heap: Ints
    places: Ints
    steering: Floats
    rows: Ints
    counts: Ints
    cells: Ints
    forecasts: Floats
    tickets: Floats
    hinted: NDArray[np.bool_]


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
    forecasts, certificates
        What is answered to those that ask.
    """

    players: Ints
    places: Ints
    outcomes: Ints
    hints: Floats
    forecasts: Floats
    certificates: Floats


@cache
def playing(rules: ModuleType) -> Callable[[Players, Steps, Ints], int]:
    """play(players, steps, progress) -> how it ended, for players on a grid machine with these rules.

    `progress`, shape (3,), is read and written: steps taken, integers of the heap in use, and the most rounds
    that any player has settled. A memory without room moves to the end of the heap, twice as long.
    """
    propose, charge, has_room = rules.propose, rules.charge, rules.has_room
    bears, in_units = rules.bears, rules.in_units

    @compiled
    def play(players: Players, steps: Steps, progress: Ints) -> int:
        heap, places, steering, rows = players.heap, players.places, players.steering, players.rows
        counts = players.counts
        while progress[0] < len(steps.players):
            i = progress[0]
            player, place, outcome = steps.players[i], steps.places[i], steps.outcomes[i]
            start, length, row = places[player, 0], places[player, 1], rows[player]
            memory = borrowed(heap[start : start + length])
            if outcome == GONE:
                counts[player, 0] -= 1
            elif outcome == ASKS:
                counts[player, 1] = max(counts[player, 1], counts[player, 0])
                counts[player, 0] += 1
                hint = steps.hints[i]
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
                steps.forecasts[i] = forecast
                steps.certificates[i] = certificate(memory)
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
            progress[0] = i + 1
        return DONE

    return play
