"""One's own forecaster, the last outcome once more, and one's own adversary, who contradicts: for --load."""

import numpy as np
from numba.extending import register_jitable

from onlinecal import adversaries
from onlinecal.forecasters.baselines.mixing import Baseline, mixing_rules, new_memory, own, play_one
from onlinecal.simulations.games import players


@register_jitable
def repeat(memory):
    play_one(memory, int(memory[own(memory)]))


@register_jitable
def remember(memory, place, outcome):
    memory[own(memory)] = outcome


class LastOutcome(Baseline):
    machine = mixing_rules(repeat, remember)

    def __init__(self):
        self._begin(new_memory([0.0, 1.0], own=1))


@register_jitable
def contradict(state, t, forecast, rise_zero, rise_one, u):
    return 1 if forecast < 0.5 else 0


def nothing(values, horizon):
    return np.zeros(1)


players.register(players.Family("last-outcome", "what came last", lambda settings, T, seed: LastOutcome()))
adversaries.register(
    adversaries.Kind("contrarian", "the less likely", "adaptive", "here", step=contradict, initial=nothing)
)
