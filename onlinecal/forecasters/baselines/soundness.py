"""Whether a mixing machine can play on a memory that came from outside (see `binary.soundness`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.baselines.mixing import LISTS, NOT_MIXED, PEEKS, POINTS, ROUNDS, SETTINGS, SUPPORT
from onlinecal.forecasters.binary.soundness import require


def check_mixing_memory(memory: Any, fresh: NDArray[np.float64], kept: Iterable[int] = ()) -> None:
    """ValueError unless a machine can play on the memory; `fresh` is one as it was before the first round.

    `kept` are the settings in which the machine keeps the place of a value.
    """
    require(isinstance(memory, np.ndarray) and memory.dtype == np.float64, "its type")
    require(memory.shape == fresh.shape, "its length")
    n = int(fresh[POINTS])
    # the machine's settings and its own numbers are its own affair
    for part in (memory[:SETTINGS], memory[LISTS : LISTS + 5 * n], memory[list(kept)]):
        require(bool(np.isfinite(part).all()), "its numbers")
    require((memory[POINTS], memory[PEEKS]) == (n, fresh[PEEKS]) and memory[ROUNDS] >= 0, "its header")
    values, counts, ones, places = (memory[LISTS + part * n : LISTS + (part + 1) * n] for part in range(4))
    require(bool((values == fresh[LISTS : LISTS + n]).all()), "its values")
    require(bool(((ones >= 0) & (ones <= counts)).all()), "its tally")
    support = memory[SUPPORT]
    require(NOT_MIXED <= support <= n and support == int(support), "its mixture")
    # a reference that peeks looks its two values up by the outcome
    drawn = places[: max(0, int(support))]
    require(bool(((drawn >= 0) & (drawn < n) & (drawn == np.floor(drawn))).all()), "its mixture")
    for setting in kept:
        require(0 <= memory[setting] < n and memory[setting] == int(memory[setting]), "its settings")
