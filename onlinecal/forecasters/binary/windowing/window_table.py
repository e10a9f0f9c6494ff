"""The table of a window: the rounds of the last so many moments and, exactly, the sums over them.

One flat sequence of int64: a header, the rounds as a ring, the changes of the points' biases as a hash table.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled
from onlinecal.forecasters.binary.cells import MOVED, ROUNDS, SCALE, Memory, inlined, nearest_unit
from onlinecal.forecasters.binary.compiled import compile_replay, lent
from onlinecal.forecasters.rules import Rules

# The header. SIZE: of the window, in moments. ROOM: of the ring, in rounds. BITS: there are 2^BITS slots for
# points. UNIT, GRAIN: the memory's SCALE and FINE. SEEN: how many rounds of the memory were noted. HELD: how
# many are in the ring, the oldest at FIRST. USED: slots with a point. DISTANCE, CHANGES: the sums.
SIZE, ROOM, BITS, UNIT, GRAIN, SEEN, HELD, FIRST, USED, DISTANCE, CHANGES = range(11)
RING = 11
"""Where the ring begins. An entry is a round's moment, its point, the change of its bias, the distance."""
ENTRY = 4


def new_table(size: int, unit: int, grain: int, room: int) -> NDArray[np.int64]:
    """A window without rounds, with room for so many."""
    bits = 2 + min(room - 1, unit).bit_length()
    table = np.zeros(RING + ENTRY * room + (2 << bits), np.int64)
    table[SIZE], table[ROOM], table[BITS], table[UNIT], table[GRAIN] = size, room, bits, unit, grain
    return table


@inlined
def charged_to(lower: int, step: int, y: int) -> tuple[int, int]:
    """The point to which machines `charge` a cell's round with this outcome, and the change of its bias."""
    if lower < y < lower + step:
        return y, 0
    point = lower + step * int(y > lower)
    return point, point - y


@inlined
def book(table: Memory, point: int, change: int, moved: int) -> None:
    """Add a round to the sums; with the signs reversed, take it off."""
    table[DISTANCE] += moved
    if change == 0:
        return
    bits, slots = table[BITS], RING + ENTRY * table[ROOM]
    # Fibonacci hashing: the upper bits of the lower half of the product
    slot = ((point * 2654435769) & 0xFFFFFFFF) >> (32 - bits)
    place = slots + 2 * slot
    while table[place] != 0 and table[place] != point + 1:
        slot = (slot + 1) & ((1 << bits) - 1)
        place = slots + 2 * slot
    if table[place] == 0:
        table[place] = point + 1
        table[USED] += 1
    before = table[place + 1]
    table[place + 1] = before + change
    table[CHANGES] += abs(before + change) - abs(before)


@inlined
def forget(table: Memory, now: int) -> None:
    """Let go of the rounds that the window of this moment does not reach back to."""
    over = now - table[SIZE]
    while table[HELD] > 0:
        oldest = RING + ENTRY * table[FIRST]
        if table[oldest] > over:
            return
        book(table, table[oldest + 1], -table[oldest + 2], -table[oldest + 3])
        table[HELD] -= 1
        table[FIRST] += 1
        if table[FIRST] == table[ROOM]:
            table[FIRST] = 0


@inlined
def tidy(table: Memory) -> None:
    """Free the slots of points that left the window, before more than half of all are in use."""
    if 2 * table[USED] <= 1 << table[BITS]:
        return
    for place in range(RING + ENTRY * table[ROOM], len(table)):
        table[place] = 0
    table[USED] = table[DISTANCE] = table[CHANGES] = 0
    place = table[FIRST]
    for _ in range(table[HELD]):
        entry = RING + ENTRY * place
        book(table, table[entry + 1], table[entry + 2], table[entry + 3])
        place = place + 1 if place + 1 < table[ROOM] else 0


@inlined
def note(table: Memory, now: int, point: int, change: int, moved: int) -> None:
    """Take in the round of this moment, which is later than all before; after `forget`, if there is room."""
    place = table[FIRST] + table[HELD]
    if place >= table[ROOM]:
        place -= table[ROOM]
    entry = RING + ENTRY * place
    table[entry], table[entry + 1], table[entry + 2], table[entry + 3] = now, point, change, moved
    table[HELD] += 1
    book(table, point, change, moved)
    tidy(table)


@inlined
def is_ready(table: Memory, memory: Memory, rounds: int, now: int) -> bool:
    """Whether the round of this moment can be noted that comes after so many others of the memory."""
    if table[SEEN] != rounds or table[UNIT] != memory[SCALE]:
        return False
    return bool(table[HELD] < table[ROOM] or table[RING + ENTRY * table[FIRST]] <= now - table[SIZE])


@inlined
def follow(
    table: Memory, memory: Memory, now: int, lower: int, step: int, outcome: float, moved: int
) -> None:
    """Note a round that the memory was charged with in that cell; its sum of distances was `moved` before."""
    forget(table, now)
    point, change = charged_to(lower, step, nearest_unit(memory, outcome))
    note(table, now, point, change, memory[MOVED] - moved)
    table[SEEN] += 1


@compiled
def follow_round(
    table: NDArray[np.int64],
    memory: NDArray[np.int64],
    now: int,
    lower: int,
    step: int,
    outcome: float,
    moved: int,
) -> bool:
    """`follow`, if the table is ready. A moment below 0 stands for how many rounds the memory has had."""
    if now < 0:
        now = memory[ROUNDS]
    if not is_ready(table, memory, memory[ROUNDS] - 1, now):
        return False
    follow(table, memory, now, lower, step, outcome, moved)
    return True


@compiled
def note_rounds(table: NDArray[np.int64], rounds: NDArray[np.int64]) -> None:
    """`note` all these, (moment, point, change, distance) each, in a table with room."""
    for i in range(len(rounds)):
        note(table, rounds[i, 0], rounds[i, 1], rounds[i, 2], rounds[i, 3])


@compiled
def window_sums(table: NDArray[np.int64], now: int) -> float:
    """The window's certificate at this moment."""
    forget(table, now)
    return table[DISTANCE] / (2.0 * table[UNIT] * table[GRAIN]) + table[CHANGES] / table[UNIT]


@cache
def windowed_replay(rules: Rules, number: type) -> Any:
    """`compile_replay` of a grid machine's rules, on (memory, table): it keeps the window's table, too."""
    has_room, announce, settle, point = rules.has_room, rules.announce, rules.settle, rules.point

    @inlined
    def both_have_room(both: Any) -> bool:
        memory, table = both
        return has_room(memory) and is_ready(table, memory, memory[ROUNDS], memory[ROUNDS] + 1)

    @inlined
    def announce_both(both: Any, hint: float, u: float) -> tuple[int, int, float, float]:
        return announce(both[0], hint, u)

    @inlined
    def settle_both(both: Any, lower: int, step: int, outcome: float, forecast: float) -> None:
        memory, table = both
        moved = memory[MOVED]
        settle(memory, lower, step, outcome, forecast)
        follow(table, memory, memory[ROUNDS], lower, step, outcome, moved)

    @inlined
    def point_of_both(both: Any, lower: int, step: int, outcome: float, forecast: float) -> float:
        return point(both[0], lower, step, outcome, forecast)

    return compile_replay(
        rules._replace(
            has_room=both_have_room, announce=announce_both, settle=settle_both, point=point_of_both
        ),
        number,
        lent,
    )
