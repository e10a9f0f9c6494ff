"""The valid cell nearest to a hint on a dyadic grid: by its marks and by its readable twin, a walk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.forecasters.binary import dyadic
from onlinecal.forecasters.binary.cells import HIGH, LOW, SCALE, STEP, TABLE, TILT, report
from onlinecal.forecasters.binary.dyadic import BASE
from onlinecal.forecasters.binary.dyadic_marks import MOST_WAITING, nearest_cell, valid
from onlinecal.forecasters.binary.dyadic_search import END, enter_cell, find, find_end
from tests.forecasters.configurations import ANYTIME, fresh, hinted_sequences, label

CONFIGS = [*ANYTIME, {"slack": 0.5, "report": "hint"}, {"slack": 1.0}]


def walked(memory, target, step, free):
    """The lower end of the valid cell of width `step` nearest to `target` (of two, the lower one).

    Cells whose ends were never charged are alike: valid if unbiased points are free, else exactly where
    LOW - step <= lower end <= HIGH. So only the nearest of those, and the neighbours of charged points, need
    a look.
    """
    last = memory[SCALE] - step
    home = min(int(target), last) & -step
    index = find(memory, home)
    if valid(memory, index, home, step, free):
        return home
    left, below = next_below(memory, index, home, step, free)
    right, above = next_above(memory, index, home, step, free)
    while True:
        if right > last or (left >= 0 and target - (left + step) <= right - target):
            if valid(memory, below, left, step, free):
                return left
            left, below = next_below(memory, below, left, step, free)
        else:
            if valid(memory, above, right, step, free):
                return right
            right, above = next_above(memory, above, right, step, free)


def next_below(memory, index, lower, step, free):
    """The next cell below that might be valid and its index, or a negative number.

    `index` is that of the first pair not below `lower`.
    """
    if memory[index] == lower:
        best = lower - step
    else:
        back = index - 2
        while memory[back] & (step - 1):
            back -= 2
        best = memory[back]
    untouched = lower - step
    if memory[TILT] and not free:
        untouched = min(untouched, memory[HIGH] & -step)
    if free or memory[TILT] == 0 or untouched + step >= memory[LOW]:
        best = max(best, untouched)
    while index > TABLE and memory[index - 2] >= best:
        index -= 2
    return best, index


def next_above(memory, index, lower, step, free):
    """The next cell above that might be valid and its index, or one beyond the last (see `next_below`)."""
    upper = lower + step
    if upper >= memory[SCALE]:
        return upper, index
    while memory[index] < upper:
        index += 2
    if memory[index] == upper:
        best = upper
    else:
        ahead = index
        while memory[ahead] & (step - 1):
            ahead += 2
        best = memory[ahead] - step
    untouched = upper
    if memory[TILT] and not free:
        untouched = max(untouched, (memory[LOW] - 1) & -step)
    if free or memory[TILT] == 0 or untouched <= memory[HIGH]:
        best = min(best, untouched)
    while memory[index] < best:
        index += 2
    return best, index


def check(memory, hints, steps):
    """Marked and walked, whatever the step and whether unbiased points are free."""
    bare = [*memory[: memory[END]], 0]
    for hint in hints:
        for free in (False, True):
            for step in steps:
                target, finer = hint * memory[SCALE], int(step != memory[BASE])
                wanted = walked(bare, target, step, free)
                assert nearest_cell(memory, target, step, finer, free) == wanted
                assert nearest_cell(bare, target, step, finer, free) == wanted
                for above in range(2):
                    assert find_end(memory, wanted, step, above) == find(memory, wanted + step * above)


def play(memory, hint, y):
    lower, step = dyadic.propose(memory, hint)
    dyadic.charge(memory, lower, step, y * memory[SCALE], report(memory, lower, step, hint))


@pytest.mark.parametrize("config", CONFIGS, ids=label)
@settings(max_examples=25, deadline=None)
@given(played=hinted_sequences(longest=300), seed=st.integers(0, 2**32 - 1))
def test_the_marked_cell_is_the_one_that_the_walk_finds(config, played, seed):
    """While rounds with and without hints are charged, also late, and the level that is asked for changes."""
    rng = np.random.default_rng(seed)
    memory = fresh(config).memory.tolist() + [0] * 3000
    waiting = []
    for y, hint in zip(played[0].tolist(), played[1].tolist(), strict=True):
        waiting.append((*dyadic.propose(memory, hint if rng.random() < 0.8 else -1.0), y))
        if rng.random() < 0.9:
            lower, step, y = waiting.pop(rng.integers(len(waiting)))
            dyadic.charge(memory, lower, step, y * memory[SCALE], report(memory, lower, step, -1.0))
        if rng.random() < 0.2:
            check(memory, [hint, rng.random(), 0.0, 1.0], {memory[STEP], memory[BASE], memory[STEP] // 2})
    check(memory, [0.5, *rng.random(5)], {1 << k for k in range(14, 29)})


@pytest.mark.parametrize("config", CONFIGS, ids=label)
@pytest.mark.parametrize("seed", range(4))
def test_on_any_table_of_biases(config, seed):
    """Points of several levels, crowded or far apart, with biases on and around the borders."""
    rng = np.random.default_rng(seed)
    head = fresh(config).memory.tolist()[:TABLE]
    low, high, tilt, scale = head[LOW], head[HIGH], head[TILT], head[SCALE]
    for _ in range(5):
        coarse, fine = sorted(rng.integers(16, 27, 2).tolist())[::-1]
        points = {0, scale}
        for size in (coarse, fine):
            around = scale // 2 if rng.random() < 0.5 else int(rng.integers(scale))
            near = around + rng.integers(-30, 31, 30).astype(int) * (1 << size)
            points |= {int(x) & -(1 << size) for x in near if 0 < x < scale}
        memory = [*head]
        for x in sorted(points):
            total = int(rng.choice([tilt * x, low, high, low - 1, high + 1, tilt * x + 1, tilt * x - 1]))
            memory += [x, tilt * x if x in (0, scale) else total]
        memory[END] = len(memory)
        memory += [0] * 1000
        memory[BASE] = 1 << coarse
        enter_cell(memory, 0, 1 << coarse)
        check(memory, [0.0, 0.5, 1.0, *rng.random(8)], (1 << coarse, 1 << fine))


def test_marks_outlive_many_rounds_without_hints_and_a_table_that_grows():
    rng = np.random.default_rng(1)
    memory = fresh({}).memory.tolist() + [0] * 2000
    for round_ in range(400):
        for _ in range(int(rng.integers(0, 2 * MOST_WAITING))):
            play(memory, -1.0, int(rng.random() < 0.4))
        check(memory, [0.4, rng.random()], (memory[STEP],))
        play(memory, rng.random(), int(rng.random() < 0.4))
        if round_ == 200:
            memory += [0] * len(memory)


@pytest.mark.parametrize("config", [{}, {"slack": 1.0, "report": "hint"}], ids=label)
def test_without_hints_there_are_no_marks_and_with_them_the_same_rounds_as_without_room_for_any(config):
    rng = np.random.default_rng(2)
    outcomes, hints = rng.integers(0, 2, 3000, dtype=np.uint8), rng.random(3000)
    forecaster, hinted, cramped = fresh(config), fresh(config), fresh(config)
    forecaster.replay(outcomes)
    assert forecaster.memory[-1] >= 0
    forecasts = hinted.replay(outcomes, hints)
    assert hinted.memory[-1] < 0
    for y, hint, p in zip(outcomes[:1000].tolist(), hints, forecasts, strict=False):
        cramped.memory = dyadic.in_use(cramped.memory).copy()
        token = cramped.forecast(hint)
        assert token.probability == p
        cramped.observe(token, y)
