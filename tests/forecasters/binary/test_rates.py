"""How the self-tuning grid grows: slower than sqrt(T) where the world is benign, never beyond its bound."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead

ROUNDS = (10**4, 10**5, 10**6, 10**7)


def certificates(outcomes, rounds):
    forecaster = AlmostOneStepAhead()
    values, start = [], 0
    for t in rounds:
        forecaster.replay(outcomes[start:t])
        values.append(forecaster.certificate)
        start = t
    return values


def test_on_coins_the_certificate_grows_with_an_exponent_of_at_most_042():
    values = [
        certificates(np.random.default_rng(seed).integers(0, 2, ROUNDS[-1], dtype=np.uint8), ROUNDS)
        for seed in range(3)
    ]
    exponent = np.polyfit(np.log(ROUNDS), np.log(np.mean(values, axis=0)), 1)[0]
    assert exponent <= 0.42


@pytest.mark.parametrize(
    "kind", ["coins then blocks", "constant then drift", "alternating then change points"]
)
def test_a_world_that_turns_nasty_half_way_stays_below_the_guarantee(kind):
    half = 200_000
    rng = np.random.default_rng(7)
    benign, nasty = {
        "coins then blocks": (rng.random(half) < 0.5, np.arange(half) // 700 % 2 == 1),
        "constant then drift": (np.ones(half, bool), rng.random(half) < np.linspace(0, 1, half)),
        "alternating then change points": (
            np.arange(half) % 2 == 1,
            rng.random(half) < np.repeat(rng.random(half // 1000), 1000),
        ),
    }[kind]
    forecaster = AlmostOneStepAhead()
    for part in np.array_split(np.concatenate([benign, nasty]), 400):
        forecaster.replay(part)
        assert forecaster.certificate <= forecaster.guarantee <= np.sqrt(3 * forecaster.n_rounds)


@pytest.mark.parametrize("bias", [0.5, 0.3, 0.9])
def test_on_coins_it_beats_the_nested_grid(bias):
    outcomes = np.random.default_rng(3).random(10**5) < bias
    adaptive, nested = AlmostOneStepAhead(grid="adaptive"), AlmostOneStepAhead(grid="nested")
    adaptive.replay(outcomes)
    nested.replay(outcomes)
    assert adaptive.certificate < 0.8 * nested.certificate
