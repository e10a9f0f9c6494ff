"""The forecasters that every claim is tried on, and strategies for sequences that give them trouble."""

import pickle
from functools import lru_cache

import numpy as np
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, calibration_distance
from onlinecal.forecasters.binary.windows import Window
from tests.parts import part_of

SIGN = [{"rule": "sign", "report": report} for report in ("lower", "upper", "midpoint")]
BALANCED = [
    {"report": "midpoint"},
    {"report": "lower"},
    {"report": "upper"},
    {"slack": 0.75},
    {"slack": 1.0, "report": "hint", "hints": True},
    {"slack": 2.5},
]
RULES = SIGN + BALANCED
UNIFORM = [{**rule, "n_cells": m} for rule in RULES for m in (1, 2, 3, 7)]
ANYTIME = [{**rule, "grid": grid} for rule in RULES for grid in ("nested", "adaptive")]


configs = st.one_of(
    st.sampled_from(UNIFORM),
    st.sampled_from(ANYTIME),
    st.builds(
        lambda rule, horizon: {**rule, "horizon": horizon}, st.sampled_from(RULES), st.integers(1, 500)
    ),
)

blocks = st.lists(
    st.tuples(st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32 - 1)), min_size=1, max_size=8
)


@st.composite
def sequences(draw, longest=400):
    """Outcomes of any kind: free bits, or blocks of coins with changing bias."""
    if draw(st.booleans()):
        return np.array(draw(st.lists(st.integers(0, 1), min_size=1, max_size=60)), dtype=np.uint8)
    parts = [np.random.default_rng(seed).random(n) < bias for n, bias, seed in draw(blocks)]
    return np.concatenate(parts)[:longest].astype(np.uint8)


@st.composite
def hinted_sequences(draw, longest=400):
    """Outcomes and hints: informative, useless, or at the corners."""
    outcomes = draw(sequences(longest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["noise", "corners", "model", "constant"]))
    hints = {
        "noise": rng.random(len(outcomes)),
        "corners": rng.integers(0, 2, len(outcomes)).astype(float),
        "model": np.clip(outcomes * 0.4 + 0.3 + rng.normal(0, 0.2, len(outcomes)), 0, 1),
        "constant": np.full(len(outcomes), rng.random()),
    }[kind]
    return outcomes, hints


def fresh(config, hints=False):
    return AlmostOneStepAhead(**{**config, "hints": hints or config.get("hints", False)})


def play_late(forecaster, outcomes, most_open, rng, hint_of):
    """Keep up to `most_open` forecasts open, settle them in random order; the settled (token, outcome)."""
    waiting, settled = [], []
    for y in outcomes:
        if len(waiting) == most_open:
            settled.append(waiting.pop(rng.integers(most_open)))
            forecaster.observe(*pickle.loads(pickle.dumps(settled[-1])))
            assert forecaster.certificate <= forecaster.guarantee + 1e-9
        waiting.append((forecaster.forecast(hint_of() if rng.random() < 0.5 else None), y))
    for pair in waiting:
        settled.append(pair)
        forecaster.observe(*pair)
    return settled


def every_game(forecaster, length, played=()):
    """All prefixes of all 2^length games, each once, just played: their pairs (forecast, outcome)."""
    memory, window = forecaster.memory.copy(), part_of(forecaster, Window)
    table = None if window is None else window.table.copy()
    p = forecaster.predict_proba_one({})[True]
    for y in (0, 1):
        forecaster.memory = memory.copy()
        if window is not None:
            window.table = table.copy()
        forecaster._resume()
        forecaster.learn_one({}, y)
        game = (*played, (p, y))
        yield game
        if len(game) < length:
            yield from every_game(forecaster, length, game)


@lru_cache(maxsize=100_000)
def distance_of_sorted(rounds):
    return calibration_distance(*zip(*rounds, strict=True), method="exact").exact


def exact_distance(game):
    """Of such pairs: their order does not matter, and most games are others in another order."""
    return distance_of_sorted(tuple(sorted(game)))
