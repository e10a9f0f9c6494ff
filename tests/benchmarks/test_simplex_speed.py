"""The simplex forecaster against the binary one, both replaying a drifting stream."""

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
        "2 us a round" if k <= 3 else "5 us a round",
        rounds=3,
        setup=lambda: (SimplexAlmostOneStepAhead(k, n_cells=m),),
    )
