"""How a round is booked; and of a grid that tunes itself what finer cells saved, less the bias they left.

Without a horizon the *base* grid of a round is that of the nested schedule; BASE is its step. A grid that
tunes itself may play on a finer one, and return. In every round the BALANCE, in units of MOVED, rises by what
the round was cheaper than the farthest vertex on the base grid, and falls by what the charge added to the
bias of an *orphan*, a point off the base grid. A round on a finer grid is played only while the balance bears
whatever may come of it; it begins with an allowance (docs/theory-simplex.md, section 7).
"""

from __future__ import annotations

from onlinecal.compiling import uncounted
from onlinecal.forecasters.simplex.machine.labels import earned_label
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    BASE,
    CLASSES,
    FINE,
    LABEL,
    MOVED,
    POINT,
    REPORT,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    Memory,
    insert,
    record_of,
    units,
)

RESERVE = 4
"""What two charges can add to biases at most, in l1: one in its turn, one that has become late."""


@uncounted
def book(memory: Memory, x: int, key: int, outcome: int, away: int) -> int:
    """Enter a round with that outcome, so far away, into the record of the point at x: its new label."""
    record = record_of(memory, x, key)
    if record < 0:
        record = insert(memory, x, key)
    k = memory[CLASSES]
    biases, rise = record + POINT + k, 0
    for c in range(k):
        old = memory[biases + c]
        new = old + memory[x + c]
        if c == outcome:
            new -= memory[SCALE]
        memory[biases + c] = new
        rise += abs(new) - abs(old)
    memory[MOVED] += away
    memory[SPREAD] += rise
    memory[ROUNDS] += 1
    if memory[BASE] > 0:
        settle_account(memory, x, away, rise)
    label = earned_label(memory, record, outcome)
    memory[record + LABEL] = label
    return label


@uncounted
def price(memory: Memory) -> int:
    """The farthest that a round on the base grid can be from what it is charged to, in units of MOVED."""
    k, base = memory[CLASSES], memory[BASE]
    high = min(memory[SCALE] // base, k >> 1)
    farthest = k if memory[REPORT] > 0 else k - high
    return 2 * high * farthest * base * memory[FINE]


@uncounted
def settle_account(memory: Memory, x: int, away: int, rise: int) -> None:
    """Enter a round that was charged to the point at x, so far away, and made all biases rise by so much."""
    memory[BALANCE] += price(memory) - away
    for c in range(memory[CLASSES]):
        if memory[x + c] & (memory[BASE] - 1) != 0:
            memory[BALANCE] -= rise * memory[CLASSES] * memory[FINE]
            return


@uncounted
def is_overdrawn(memory: Memory) -> bool:
    """Whether the present grid is finer than the base and the balance bears that no longer."""
    return bool(memory[STEP] < memory[BASE] and memory[BALANCE] < RESERVE * units(memory))
