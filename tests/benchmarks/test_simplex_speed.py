"""The simplex forecaster against the binary one, both replaying a drifting stream; hints against none."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead

ROUNDS = 10**6


def drifting(k):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.choice(k, 50, p=rng.dirichlet(np.ones(k))) for _ in range(ROUNDS // 50)])


@pytest.mark.parametrize(("k", "m"), [(2, 1000), (3, 100), (4, 30), (8, 4)])
def test_simplex_replay_against_the_binary_one(compare, k, m):
    outcomes, binary = drifting(k), drifting(2)
    SimplexAlmostOneStepAhead(k, n_cells=m).replay(outcomes[:10])
    compare(
        lambda forecaster: forecaster.replay(outcomes),
        lambda: AlmostOneStepAhead(n_cells=1000).replay(binary),
        # a binary round takes some 9 ns where a round of three classes is to take .4 us
        {2: "200", 3: "45", 4: "500", 8: "500"}[k],
        rounds=3,
        setup=lambda: (SimplexAlmostOneStepAhead(k, n_cells=m),),
    )


def hinted(kind):
    """Hints (T, 3) and outcomes: chances that wander or jump and are true, or jump and say nothing."""
    rng, t = np.random.default_rng(1), np.arange(ROUNDS // 10)[:, None]
    jumping = rng.dirichlet(np.ones(3), len(t))
    wandering = 1.2 + np.sin(t / np.array([5000, 3777, 2911]) + np.arange(3))
    wandering /= wandering.sum(axis=1, keepdims=True)
    hints = wandering if kind == "wandering" else jumping
    chances = rng.dirichlet(np.ones(3), len(t)) if kind == "false" else hints
    return hints, (rng.random((len(t), 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)


TARGETS = {"wandering": "3", "jumping": "3", "false": "3"}


@pytest.mark.parametrize("slack", [None, 1.0])
@pytest.mark.parametrize("kind", TARGETS)
def test_hints_against_none(compare, kind, slack):
    outcomes, (hints, hinted_outcomes) = drifting(3)[: ROUNDS // 10], hinted(kind)
    SimplexAlmostOneStepAhead(3, n_cells=100, slack=slack, hints=True).replay(outcomes[:9], hints[:9])
    compare(
        lambda forecaster: forecaster.replay(hinted_outcomes, hints),
        lambda: SimplexAlmostOneStepAhead(3, n_cells=100).replay(outcomes),
        TARGETS[kind],
        setup=lambda: (SimplexAlmostOneStepAhead(3, n_cells=100, slack=slack, hints=True),),
    )
