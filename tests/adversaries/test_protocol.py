"""What holds for every adversary, whoever it is: each one in the catalogue is tested without being named."""

from __future__ import annotations

import copy
import importlib

import numpy as np
import pytest

from onlinecal import adversaries
from tests.adversaries.play import CASES, cases, made, play_compiled, play_plainly, scripted_game, usual_spec
from tests.pickles import read_only

T = 300


SOME = CASES[::6]
"""By default only these are compiled: a loop around every adversary takes a third of a second each time."""


@pytest.mark.parametrize(
    "spec, k", [case if case in SOME else pytest.param(*case, marks=pytest.mark.slow) for case in CASES]
)
def test_plain_and_compiled_play_agree(spec, k):
    game = scripted_game(T, k)
    plain = play_plainly(made(spec, k, T, seed=5), *game)
    assert plain == play_compiled(made(spec, k, T, seed=5), *game)


@pytest.mark.parametrize("spec, k", CASES)
def test_copies_and_whoever_begins_again_play_the_same(spec, k):
    game = scripted_game(T, k)
    adversary = made(spec, k, T, seed=5)
    plain, twins = [], []
    for stop, again in ((60, read_only), (200, copy.deepcopy), (T, None)):
        plain += play_plainly(adversary, *(column[len(plain) : stop] for column in game))
        if again is not None:
            twins.append((stop, again(adversary)))
    assert set(plain) <= set(range(k or 2))
    assert all(type(outcome) is int for outcome in plain)
    assert adversary.n_rounds == T
    for stop, twin in twins:
        assert repr(twin) == repr(adversary)
        assert play_plainly(twin, *(column[stop:] for column in game)) == plain[stop:]
    adversary.reset()
    assert adversary.n_rounds == 0
    again = made(adversary.name, k, T, seed=5)
    assert again.name == adversary.name
    assert play_plainly(adversary, *game) == play_plainly(again, *game) == plain


@pytest.mark.parametrize("spec, k", cases(oblivious=True))
def test_an_oblivious_adversary_lists_what_it_plays_whatever_is_forecast(spec, k):
    adversary = made(spec, k, T, seed=4)
    listed = adversary.outcomes(T)
    assert listed.dtype == (np.uint8 if k is None else np.int64)
    assert listed.shape == (T,)
    assert play_plainly(adversary, *scripted_game(T, k, seed=1)) == listed.tolist()
    assert adversary.outcomes().tolist() == listed.tolist()
    assert adversary.outcomes(10).tolist() == listed[:10].tolist()


@pytest.mark.parametrize("spec, k", cases(oblivious=False))
def test_an_adversary_that_reacts_cannot_list_its_outcomes(spec, k):
    with pytest.raises(ValueError, match="depend on what the forecaster does"):
        made(spec, k, T).outcomes(T)


@pytest.mark.parametrize("spec, k", CASES)
def test_only_internal_adversaries_look_at_rises_and_steps_have_names(spec, k):
    forecasts, *rises = scripted_game(T, k)
    adversary = made(spec, k, T, seed=2)
    with_rises = play_plainly(adversary, forecasts, *rises)
    adversary.reset()
    without = play_plainly(adversary, forecasts, *(0 * column for column in rises))
    assert (with_rises == without) == (adversary.power != "internal")
    for phase in adversary.phases:
        module = importlib.import_module(phase.step.__module__)
        assert getattr(module, phase.step.__qualname__) is phase.step


@pytest.mark.parametrize("kind", adversaries.catalogue().values(), ids=lambda kind: kind.name)
def test_a_horizon_is_asked_for_exactly_when_it_is_needed(kind):
    if kind.needs_horizon:
        with pytest.raises(ValueError, match=f"{kind.name} needs a horizon"):
            adversaries.create(usual_spec(kind.name))
    else:
        assert adversaries.create(usual_spec(kind.name)).horizon is None


@pytest.mark.parametrize(
    "k, arguments, message",
    [
        *((None, (p,), r"forecast must be a number in \[0, 1\]") for p in (1.5, -0.1, float("nan"))),
        (None, (0.5, float("inf"), 0.0), "rise_zero must be a finite number, got inf"),
        (None, (0.5, 0.0, float("nan")), "rise_one must be a finite number, got nan"),
        (3, ([0.5, 0.5], None), r"forecast must be 3 finite numbers, one for each class, got \[0\.5, 0\.5\]"),
        *((3, (p, None), "probabilities with sum 1, got") for p in ([0.5, 0.6, 0.1], [1.2, -0.2, 0.0])),
        (3, (["a", 0, 0], None), "forecast must be 3 finite numbers"),
        (3, (None, [0.0, np.nan, 0.0]), "rises must be 3 finite numbers"),
    ],
)
def test_a_refused_round_is_not_played(k, arguments, message):
    adversary, twin = (made("coin" if k is None else "uniform", k, None, seed=1) for _ in range(2))
    begun = [adversary.outcome() for _ in range(5)]
    with pytest.raises(ValueError, match=message):
        adversary.outcome(*arguments)
    assert adversary.n_rounds == 5
    assert begun + [adversary.outcome() for _ in range(15)] == [twin.outcome() for _ in range(20)]


def test_outcomes_needs_a_number_of_rounds_from_somewhere():
    with pytest.raises(ValueError, match="coin has no end"):
        adversaries.create("coin").outcomes()
    for wrong in (0, -3, 2.5, "10", True):
        with pytest.raises(ValueError, match="T must be a whole number of at least 1"):
            adversaries.create("coin").outcomes(wrong)


def test_an_adversary_without_phases_is_refused():
    kind = adversaries.catalogue()["coin"]
    for phases in (5, [], [5]):
        with pytest.raises(ValueError, match="phases must be a sequence of Phase, at least one, got"):
            adversaries.Adversary("nobody", kind, phases)


def test_steps_for_another_number_of_classes_are_refused():
    two, three = adversaries.create("coin"), adversaries.create_multiclass("uniform", 3)
    with pytest.raises(
        ValueError, match=r"step\(state, t, forecast, rise_zero, rise_one, u\), .*uniform_step"
    ):
        adversaries.Adversary("mixed up", two.kind, [*two.phases, *three.phases])
    with pytest.raises(
        ValueError, match=r"step\(state, t, forecast, rises, u\), got .*coin_step.* in phase 0"
    ):
        adversaries.MulticlassAdversary("mixed up", three.kind, 3, two.phases)
    with pytest.raises(ValueError, match="got 'coin' in phase 0"):
        adversaries.Adversary("mixed up", two.kind, [adversaries.Phase("coin", two.phases[0].state)])


def test_a_seed_gives_the_same_draws_and_one_that_would_not_is_refused():
    child = np.random.SeedSequence(7).spawn(2)[1]
    adversary = adversaries.create("coin", seed=child)
    assert (adversary.outcomes(50) == adversaries.create("coin", seed=child).outcomes(50)).all()
    for seed in (None, -1, "one", 1.5, np.random.default_rng(1)):
        with pytest.raises(ValueError, match=r"seed must be .*, or a numpy\.random\.SeedSequence, got"):
            adversaries.create("coin", seed=seed)
