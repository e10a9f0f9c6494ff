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
    finest = max(now, memories.FINENESS) if changing else now
    assert memories.rounds_left(memory, changing) > 1_000_000
    for rounds in (50, 3, 0):
        # a round adds at most 2, in units of the finest grid
        memory[account] = BRIM // finest * now - 2 * now * rounds
        assert max(0, rounds - 2) <= memories.rounds_left(memory, changing) <= rounds + 1
