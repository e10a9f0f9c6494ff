"""Mixtures: who plays, with which draws, under which name; and what compiled loops on disk make of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba.core import config

from onlinecal.adversaries import create
from onlinecal.adversaries.kinds import mixture
from onlinecal.adversaries.kinds.binary import boundary_hugger_step, coin_step, threshold_step
from onlinecal.adversaries.protocol import BELOW_ONE
from onlinecal.compiling import address_of
from onlinecal.simulations.games.duel import STEP_SIGNATURE, kernel_of
from tests.adversaries.play import RECORDED, play_compiled, play_plainly, scripted_game

T = 400


@pytest.mark.parametrize(
    "first, second", [("coin:bias=0.8", "markov"), ("bias-builder", "early-stopped-coin"), ("epochs", "coin")]
)
@pytest.mark.parametrize("weight", [0.0, 0.25, 0.9, 1.0])
def test_a_mixture_equals_its_parts_on_stretched_draws(first, second, weight):
    forecasts, zero, one = scripted_game(T)
    spec = f"mixture:first={first},second={second},weight={weight}"
    outcomes = play_plainly(create(spec, horizon=T, seed=6), forecasts, zero, one)
    (a,), (b,) = (create(part, horizon=T).phases for part in (first, second))
    for t, u in enumerate(np.random.default_rng(6).random(T)):
        part, own = (a, u / weight) if u < weight else (b, (u - weight) / (1 - weight))
        assert outcomes[t] == part.step(part.state, t, forecasts[t], zero[t], one[t], own)


@given(st.floats(0.0, 1.0, exclude_max=True), st.floats(0.0, 1.0))
@example(u=BELOW_ONE, weight=0.1 + 2.0**-55)  # stretched, this draw rounds up to 1
def test_a_stretched_draw_is_a_draw(u, weight):
    seen = []

    def listen(state, t, forecast, rise_zero, rise_one, u):
        seen.append(u)
        return 0

    mixture.mixture_step.__wrapped__(listen, listen)(np.array([weight, 0.0]), 0, 0.5, 0.0, 0.0, u)
    assert 0.0 <= seen[0] < 1.0


def test_a_mixture_is_as_powerful_as_its_stronger_part_and_looks_as_far_ahead():
    for spec, power, depth in [
        ("mixture:first=coin,second=markov", "oblivious", 1),
        ("mixture", "adaptive", 1),
        ("mixture:first=[certificate-greedy:depth=3]", "internal", 3),
        ("mixture:second=[certificate-greedy:depth=4]", "internal", 4),
        ("mixture:first=[mixture:first=certificate-greedy:depth=2],second=certificate-greedy", "internal", 2),
    ]:
        (phase,) = create(spec, horizon=10).phases
        assert (phase.power, phase.depth) == (power, depth)


def test_a_mixture_ends_with_its_shorter_part():
    spec = f"mixture:first=[file:path=[{RECORDED}],outcome=won],second=river:name=Bananas"
    assert [create(spec, horizon=rounds).rounds for rounds in (None, 50)] == [300, 50]


@pytest.mark.parametrize("place", ["first", "second"])
def test_parts_with_several_phases_are_refused_but_two_phases_may_be_mixtures(place):
    with pytest.raises(ValueError, match=f"{place} must be played in one phase, but two-phase has 2"):
        create(f"mixture:{place}=two-phase", horizon=10)
    adversary = create(f"two-phase:{place}=[mixture:first=markov]", horizon=20, seed=3)
    assert [phase.rounds for phase in adversary.phases] == [10, None]
    game = scripted_game(20)
    assert play_plainly(adversary, *game) == play_compiled(adversary, *game)


def test_a_mixture_is_made_once_and_found_under_its_name():
    step = mixture.mixture_step(coin_step, threshold_step)
    assert step is mixture.mixture_step(coin_step, threshold_step)
    assert pickle.loads(pickle.dumps(step)) is step
    others = [
        mixture.mixture_step(threshold_step, coin_step),
        mixture.mixture_step(step, boundary_hugger_step),
        mixture.mixture_step(coin_step, mixture.mixture_step(threshold_step, boundary_hugger_step)),
    ]
    assert len({step.__qualname__ for step in (step, *others)}) == 4


def test_the_code_of_a_mixture_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    address_of(kernel_of(mixture.mixture_step(threshold_step, coin_step)), STEP_SIGNATURE)
    assert len([*tmp_path.rglob("*.kernel")]) == 1


@pytest.mark.parametrize(
    "name", ["mixtures", "mixture;", "mixture;coin", "mixture;a:b;a:b", "mixture;adversaries/oblivious:x;"]
)
def test_other_names_are_not_there(name):
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr(mixture, name)
