"""Ways to play that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from onlinecal import adversaries
from onlinecal.compiling import compiled

RECORDED = Path(__file__).with_name("recorded.csv")
"""Three hundred games of two teams, in no order: columns game and won."""

GIVEN = {
    "genome": "genome:blocks=3x1 2x0 1x0011",
    "file": f"file:path=[{RECORDED}],outcome=won,sort=game",
    "river": "river:name=Phishing",
}
"""A spec for each adversary that cannot be made without settings."""


def usual_spec(name: str) -> str:
    """An adversary with its defaults, as far as it has them."""
    return GIVEN.get(name, name)


SPECS = [
    *map(usual_spec, adversaries.catalogue()),
    "change-points:changes=3",
    "change-points:spacing=17",
    "markov:stay=0.2",
    "certificate-greedy:depth=4",
    "two-phase:first=[linear-drift:start=0.2,end=0.8],second=certificate-greedy,switch=50",
    "mixture:first=bias-builder,second=markov,weight=0.3",
    "mixture:first=early-stopped-coin,second=[mixture:first=change-points,second=certificate-greedy]",
    f"mixture:first=river:name=Bananas,second=[{GIVEN['file']}],weight=0.25",
    "two-phase:first=[two-phase:first=markov,second=bias-builder],second=[two-phase:second=blocks]",
]
"""Every adversary of the catalogue with its defaults, and some of them once more with other settings."""


SPECS_OF_SEVERAL = [
    *(name for name in adversaries.multiclass_catalogue() if name not in ("file", "river")),
    "river:name=Phishing",
    "markov:stay=0",
    "markov:stay=1",
    "late-class:start=40,weight=1",
    "two-phase:first=[two-phase:first=certificate-greedy,second=bias-builder],second=markov,switch=100",
]
CASES = [*((spec, None) for spec in SPECS), *((spec, 4) for spec in SPECS_OF_SEVERAL)]
"""Specs and numbers of classes; None for outcomes 0 and 1."""


def made(spec: str, k: int | None, horizon: int | None, seed: int = 0) -> adversaries.Adversary:
    if k is None:
        return adversaries.create(spec, horizon, seed=seed)
    return adversaries.create_multiclass(spec, k, horizon, seed=seed)


def cases(oblivious: bool) -> list[tuple[str, int | None]]:
    """Those that look at nothing, or the others."""
    return [case for case in CASES if (made(*case, 200).power == "oblivious") == oblivious]


def scripted_game(T: int, k: int | None = None, seed: int = 11) -> tuple[np.ndarray, ...]:
    """Forecasts on and off a grid, with 0, 1/2 and 1 or equal entries among them, and rises with ties."""
    rng = np.random.default_rng(seed)
    on_grid = rng.random(T) < 0.5
    if k is None:
        forecasts = np.where(on_grid, rng.integers(0, 5, T) / 4, rng.random(T))
        return forecasts, *(rng.integers(-2, 3, (2, T)) / 8)
    coarse = rng.multinomial(4, np.full(k, 1 / k), T) / 4
    forecasts = np.where(on_grid[:, None], coarse, rng.dirichlet(np.ones(k), T))
    return forecasts, rng.integers(-2, 3, (T, k)) / 8


@cache
def compiled_loop_of_classes(step: Callable) -> Callable:
    @compiled
    def loop(state, forecasts, rises, uniforms, outcomes):
        for t in range(len(outcomes)):
            outcomes[t] = step(state, t, forecasts[t], rises[t], uniforms[t])

    return loop


@cache
def compiled_loop(step: Callable) -> Callable:
    @compiled
    def loop(state, forecasts, rises_zero, rises_one, uniforms, outcomes):
        for t in range(len(outcomes)):
            outcomes[t] = step(state, t, forecasts[t], rises_zero[t], rises_one[t], uniforms[t])

    return loop


def play_compiled(adversary: Any, *game: np.ndarray) -> list[int]:
    """What a driver does: every phase in turn, the draws running on. A game is forecasts and rises."""
    loop = compiled_loop if adversary.n_classes is None else compiled_loop_of_classes
    rounds = len(game[0])
    outcomes = np.full(rounds, 99, dtype=np.uint8)
    uniforms = adversary.generator().random(rounds)
    done = 0
    for phase in adversary.phases:
        until = rounds if phase.rounds is None else min(done + phase.rounds, rounds)
        span = slice(done, until)
        parts = (column[span] for column in (*game, uniforms, outcomes))
        loop(phase.step)(phase.state, *parts)
        done = until
    return outcomes.tolist()


def play_plainly(adversary: Any, *game: np.ndarray) -> list[int]:
    return [adversary.outcome(*one) for one in zip(*game, strict=True)]
