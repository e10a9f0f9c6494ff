"""A memory from outside with one wrong number in front is refused, or played on within its bounds."""

import numpy as np
import pytest

from onlinecal.forecasters.binary.cells import BELOW, END, LAST_MIDDLE, NO_HINT, SCALE, TABLE, report
from onlinecal.forecasters.binary.soundness import check_grid_memory
from tests.forecasters.configurations import fresh

GRIDS = {"n_cells": 7}, {"n_cells": 8}, {"horizon": 200}, {"grid": "nested"}, {"grid": "adaptive"}
RULES = {"rule": "sign"}, {"slack": 0.75}, {"slack": 1.0, "report": "hint", "hints": True}
ODD = -1, 0, 1, 2, 7, 255, 1 << 16, 1 << 28, (1 << 31) - 1, 1 << 40, (1 << 61) + 5, (1 << 63) - 1, -(1 << 63)


class Bounded(list):
    """A memory whose places are counted from its beginning only."""

    def __getitem__(self, place):
        assert not isinstance(place, int) or place >= 0
        return super().__getitem__(place)

    def __setitem__(self, place, value):
        assert place >= 0
        super().__setitem__(place, value)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("rule", RULES)
def test_an_odd_number_is_refused_or_harmless(grid, rule):
    rng = np.random.default_rng(5)
    forecaster, beginning = fresh({**grid, **rule}), fresh({**grid, **rule})
    forecaster.replay(rng.integers(0, 2, 70), rng.random(70) if forecaster.hints else None)
    check_grid_memory(forecaster.memory, beginning.memory, beginning._slack)
    refused = set()
    for place in range(TABLE):
        own = int(forecaster.memory[place])
        for odd in (*ODD, own + 1, own - 1, ~own, 2 * own):
            memory = forecaster.memory.copy()
            memory[place] = np.int64(max(-(1 << 63), min(odd, (1 << 63) - 1)))
            try:
                check_grid_memory(memory, beginning.memory, beginning._slack)
            except ValueError:
                refused.add(place)
            else:
                play(forecaster, memory, rng)
    assert {SCALE, END, BELOW, LAST_MIDDLE} <= refused


def play(forecaster, memory, rng):
    """Rounds in the interpreter, which says where a place does not exist."""
    rules, memory = forecaster.machine.rules, Bounded(memory.tolist())
    for _ in range(12):
        while not rules.has_room(memory):
            # an accumulator is full, and the forecaster says so
            if not rules.bears(memory):
                return
            memory.extend([0] * len(memory))
        hint = rng.random() if forecaster.hints and rng.random() < 0.5 else NO_HINT
        lower, step = rules.propose(memory, hint)
        y = int(rng.integers(2))
        rules.charge(memory, lower, step, y, y * memory[SCALE], report(memory, lower, step, hint))
