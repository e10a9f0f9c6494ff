"""A loop that the interpreter begins, as it does a forecaster's, and that is compiled in a moment."""

from typing import Any

import numpy as np
from numba import int64

from onlinecal.compiling import Address, Entry, ingredients, interpreted_first

# to a process that imports this, these tests are part of the library, whose compiled code is kept
ingredients.PACKAGES = ("onlinecal", "tests")


def take_in(memory, outcome):
    """Remember how many outcomes there were, and their order."""
    memory[0] += 1
    memory[1] = (31 * memory[1] + outcome) % 1_000_003


class Loop:
    """What a counter plays with."""

    advance: Any


LOOP = interpreted_first(Loop, Address(__name__, "LOOP"), advance=Entry(take_in, 1, (int64[::1], int64)))


class Counter:
    """As much of a forecaster as takes in outcomes."""

    machine = LOOP

    def __init__(self):
        self.memory = np.zeros(2, np.int64)

    @property
    def n_rounds(self):
        """How many outcomes there were."""
        return int(self.memory[0])

    def learn_one(self, x, outcome):
        """Take in an outcome."""
        self.machine.advance(self.memory, outcome)
