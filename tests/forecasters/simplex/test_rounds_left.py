"""How many more rounds the integers of a memory bear."""

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.run import SimplexRun
from tests.parts import part_of


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("account", [memories.MOVED, memories.BALANCE])
def test_what_is_counted_leaves_room_for_the_rounds_that_are_left(account, changing):
    forecaster = SimplexAlmostOneStepAhead(3, horizon=50)
    forecaster.replay(np.array([0, 1, 2, 1] * 5))
    memory = part_of(forecaster, SimplexRun).memory.copy()
    now = int(memories.units(memory))
    finest = max(now, memories.FINEST_UNITS) if changing else now
    assert memories.rounds_left(memory, changing) > 1_000_000
    for rounds in (50, 3, 0):
        # a round adds at most 2, in units of the finest grid
        memory[account] = BRIM // finest * now - 2 * now * rounds
        assert max(0, rounds - 2) <= memories.rounds_left(memory, changing) <= rounds + 1


def test_biases_that_sums_could_not_bear_are_refused():
    forecaster = SimplexAlmostOneStepAhead(3, horizon=50)
    forecaster.replay(np.array([0, 1, 2, 1] * 5))
    run = part_of(forecaster, SimplexRun)
    memory = run.memory.copy()
    memories.check_memory(memory, run)
    records = memories.records_of(memory, int(memories.capacity(memory)))
    points = records[: int(memory[memories.RECORDS_USED]), memories.POINT : memories.POINT + 3]
    row = int(np.flatnonzero((points > 0).sum(axis=1) >= 2)[0])
    first, second = (memories.POINT + 3 + int(c) for c in np.flatnonzero(points[row] > 0)[:2])
    records[row, first], records[row, second] = 1 << 60, -(1 << 60)
    with pytest.raises(ValueError, match="its biases"):
        memories.check_memory(memory, run)
