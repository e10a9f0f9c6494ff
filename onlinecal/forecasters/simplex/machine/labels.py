"""Which class a grid point is labelled with: Tijdeman's chairman rule, in integers.

Let v = x/M be a point with s classes of weight above zero, alpha its biases (v minus the outcome, summed
over its rounds) and h = 1/(2s - 2). If it were charged with class j next, alpha_j would become
alpha_j + v_j - 1. A class is *eligible* if that is at least h - 1, and its *deadline*, the number of
rounds after which alpha_j would exceed 1 - h if j did not come, is (1 - h - alpha_j)/v_j. The label is the
eligible class with the earliest deadline; of several, the class charged last if it is one of them, else
the largest. With two classes this is the balanced rule of `AlmostOneStepAhead` with slack 1/2.

Only biases enter, not the number of rounds, so nothing grows with the length of the run. The products
compared below stay under 2 s M^2 (1 + |alpha|).

How a round is booked; and of a grid that tunes itself what finer cells saved, less the bias they left.

Without a horizon the *base* grid of a round is that of the nested schedule; BASE is its step. A grid that
tunes itself may play on a finer one, and return. In every round the BALANCE, in units of MOVED, rises by what
the round was cheaper than the farthest vertex on the base grid, and falls by what the charge added to the
bias of an *orphan*, a point off the base grid. A round on a finer grid is played only while the balance bears
whatever may come of it; it begins with an allowance (docs/theory-simplex.md, section 7).
"""

from __future__ import annotations

from onlinecal.compiling import uncounted
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
    SLACK,
    SPREAD,
    STEP,
    SUPPORT,
    Memory,
    anchor_of,
    insert,
    record_of,
    units,
)


@uncounted
def fresh_label(memory: Memory, x: int) -> int:
    """The label of a point that was never charged: its heaviest class, of several the largest."""
    best = 0
    for c in range(1, memory[CLASSES]):
        if memory[x + c] >= memory[x + best]:
            best = c
    return best


@uncounted
def earned_label(memory: Memory, record: int, last: int) -> int:
    """The label of a charged point by the rule above; `last` is the class that it was charged with last."""
    k, scale = memory[CLASSES], memory[SCALE]
    x, biases = record + POINT, record + POINT + k
    double = 2 * memory[record + SUPPORT] - 2
    if double == 0:
        return last
    best, best_left, best_weight = -1, 0, 0
    for c in range(k):
        weight, bias = memory[x + c], memory[biases + c]
        if weight == 0 or double * (bias + weight) < scale:
            continue
        left = (double - 1) * scale - double * bias
        if best < 0:
            best, best_left, best_weight = c, left, weight
            continue
        sooner = best_left * weight - left * best_weight
        if sooner > 0 or (sooner == 0 and best != last):
            best, best_left, best_weight = c, left, weight
    return best


@uncounted
def label_of(memory: Memory, x: int, key: int) -> int:
    """The label of the point at x."""
    record = record_of(memory, x, key)
    return memory[record + LABEL] if record >= 0 else fresh_label(memory, x)


@uncounted
def anchored_label(memory: Memory, x: int) -> int:
    """The artificial label of the point at x: the first class up to which it outweighs the anchor.

    The point has one step more than the anchor in all, so there is such a class, and its weight is
    above zero. The cell b + e_0, ..., b + e_(k-1) of the anchor b is the only one with all labels.
    """
    anchor = anchor_of(memory)
    c, excess = 0, memory[x] - memory[anchor]
    while excess <= 0:
        c += 1
        excess += memory[x + c] - memory[anchor + c]
    return c


@uncounted
def label_near(memory: Memory, x: int, key: int) -> int:
    """The label of the point at x if labels may lean towards the anchor as far as the slack allows.

    The artificial label is taken if its class may be charged without pushing its bias below -slack.
    """
    wished = anchored_label(memory, x)
    record = record_of(memory, x, key)
    bias = memory[record + POINT + memory[CLASSES] + wished] if record >= 0 else 0
    if bias + memory[x + wished] >= memory[SCALE] - memory[SLACK]:
        return wished
    return memory[record + LABEL] if record >= 0 else fresh_label(memory, x)


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
