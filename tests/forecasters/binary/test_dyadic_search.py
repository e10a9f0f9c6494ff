"""The table of a dyadic grid: what its header says about the current cell."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.forecasters.binary.cells import LOWER, STEP, TABLE
from onlinecal.forecasters.binary.grids.dyadic_search import ABOVE, BELOW, END, find
from tests.forecasters.configurations import ANYTIME, fresh, hinted_sequences, label
from tests.properties import examples


def check_ends(forecaster):
    memory = forecaster.memory.tolist()
    positions = memory[TABLE : memory[END] : 2]
    assert all(left < right for left, right in pairwise(positions))
    assert memory[BELOW] == find(memory, memory[LOWER])
    assert memory[ABOVE] == find(memory, memory[LOWER] + memory[STEP])


@pytest.mark.parametrize("config", ANYTIME, ids=label)
@settings(max_examples=examples(15), deadline=None)
@given(played=hinted_sequences(longest=200), most_open=st.integers(0, 5), seed=st.integers(0, 2**32 - 1))
def test_the_header_knows_the_pairs_at_the_ends_of_the_current_cell(config, played, most_open, seed):
    """Whatever is charged, here with hints, late labels and cells of a level that is no longer in use."""
    rng = np.random.default_rng(seed)
    forecaster, waiting = fresh(config, hints=True), []
    check_ends(forecaster)
    for y, hint in zip(*played, strict=True):
        waiting.append((forecaster.forecast(hint if rng.random() < 0.5 else None), y))
        if len(waiting) > most_open:
            forecaster.observe(*waiting.pop(rng.integers(len(waiting))))
            check_ends(forecaster)
