"""The simplex machine played in the interpreter on a list, or compiled, and what to look at afterwards."""

from __future__ import annotations

import numpy as np

from onlinecal.forecasters.simplex import machine as simplex
from onlinecal.forecasters.simplex.compiled import MACHINE
from onlinecal.forecasters.simplex.table import CLASSES, HERE, POINT, SCALE

MANY = 1 << 12
NO_HINTS = np.empty((0, 0))


def ready(k, m, slack=None, records=MANY):
    memory = simplex.new_memory(k, m, 1, slack, records)
    MACHINE.begin(memory)
    return memory


def ready_list(k, m, slack=None, records=MANY):
    memory = simplex.new_memory(k, m, 1, slack, records).tolist()
    simplex.begin(memory)
    return memory


def sums_of(memory, frame):
    return [int(s) for s in memory[frame + 1 : frame + 1 + int(memory[CLASSES])]]


def vertices_of(memory, frame):
    """The vertices of a frame's cell in cyclic order: [(point, label), ...]."""
    k = int(memory[CLASSES])
    points, labels = frame + 5 + 5 * k, frame + 2 + 2 * k
    return [
        (tuple(int(c) for c in memory[points + i * k : points + i * k + k]), int(memory[labels + i]))
        for i in range(k)
    ]


def interpret(memory, outcomes, hints=None):
    """Play on a list: the forecasts (as integer sums) and the charged points."""
    forecasts, charged = [], []
    for t, outcome in enumerate(outcomes):
        frame = int(memory[HERE])
        if hints is not None:
            simplex.aim(memory, hints[t])
            frame = simplex.propose(memory)
        forecasts.append(sums_of(memory, frame))
        charged.append(vertices_of(memory, frame)[simplex.vertex_of(memory, frame, int(outcome))][0])
        simplex.charge(memory, frame, int(outcome))
    return forecasts, charged


def replay(memory, outcomes, hints=None):
    k = int(memory[CLASSES])
    forecasts, charged = np.empty((len(outcomes), k)), np.empty((len(outcomes), k))
    guide = NO_HINTS if hints is None else hints
    done = MACHINE.replay(memory, np.asarray(outcomes, np.int64), guide, forecasts, charged, 0)
    assert done == len(outcomes)
    return forecasts, charged


def biases_of(memory):
    """{point: biases} in units of 1/SCALE."""
    k = int(memory[CLASSES])
    table = simplex.records_of(np.asarray(memory))
    return {tuple(row[POINT : POINT + k].tolist()): row[POINT + k :].tolist() for row in table}


def outcomes_of(kind, k, rounds, seed):
    """A stream without an adversary: coins, drifting coins, one class after another, or a constant."""
    rng = np.random.default_rng(seed)
    if kind == "coins":
        return rng.integers(0, k, rounds)
    if kind == "drift":
        blocks = [rng.choice(k, 50, p=rng.dirichlet(np.ones(k))) for _ in range(rounds // 50 + 1)]
        return np.concatenate(blocks)[:rounds]
    if kind == "turns":
        return np.arange(rounds) % k
    return np.full(rounds, seed % k)


def chase(memory, rounds, kind, seed=0):
    """An adversary who sees the forecast: the list of the outcomes he chose."""
    rng, played = np.random.default_rng(seed), []
    for _ in range(rounds):
        here = int(memory[HERE])
        k, sums = int(memory[CLASSES]), sums_of(memory, here)
        if kind == "least":
            outcome = int(np.argmin(sums))
        elif kind == "flip":
            outcome = max(range(k), key=lambda j: (simplex.rise(memory, here, j), j))
        else:
            outcome = int(rng.choice(np.flatnonzero(np.asarray(sums) < int(memory[SCALE]) + 1)))
        played.append(outcome)
        assert MACHINE.advance(memory, outcome)
    return played
