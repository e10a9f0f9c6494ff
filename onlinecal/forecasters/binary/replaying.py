"""Whole streams through a grid machine: the compiled loop for them, and what it needs beside the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import FORMAT, ROUNDS
from onlinecal.forecasters.binary.compiled import MACHINES, enlarged
from onlinecal.forecasters.binary.grids import uniform
from onlinecal.forecasters.binary.guides.guided import new_guide
from onlinecal.forecasters.binary.windowing.window_table import windowed_replay
from onlinecal.forecasters.binary.windowing.windows import Window


def play(memory: NDArray[np.int64], tapes: tuple[NDArray[Any], ...]) -> NDArray[np.int64]:
    """Play outcomes, hints, draws (see `compile_replay`) and fill the other tapes; the memory afterwards."""
    machine, (outcomes, hints) = MACHINES[int(memory[FORMAT])], tapes[:2]
    done = 0
    if outcomes.dtype == np.uint8 and len(hints):
        guide = new_guide(memory, len(outcomes))
        try:
            while (done := machine.replay_hinted((memory, guide), *tapes, done)) < len(outcomes):
                memory = enlarged(memory)
        finally:
            # an interruption is raised when the loop returns: the rounds are played by then
            if memory[FORMAT] == uniform.FORMAT_UNIFORM:
                uniform.enter_valid(memory)
        return memory
    replay = machine.replay if outcomes.dtype == np.uint8 else machine.replay_shares
    while (done := replay(memory, *tapes, done)) < len(outcomes):
        memory = enlarged(memory)
    return memory


def play_with_window(
    memory: NDArray[np.int64], window: Window, tapes: tuple[NDArray[Any], ...]
) -> NDArray[np.int64]:
    """The same, and the window takes the rounds in."""
    machine, outcomes, done = MACHINES[int(memory[FORMAT])], tapes[0], 0
    whole = outcomes.dtype == np.uint8
    replay = windowed_replay(
        machine.playable if whole else machine.playable_shares, np.int64 if whole else np.float64
    )
    while (done := replay((memory, window.table), *tapes, done)) < len(outcomes):
        if not machine.rules.has_room(memory):
            memory = enlarged(memory)
        window.prepare(memory, int(memory[ROUNDS]), int(memory[ROUNDS]) + 1)
    return memory
