"""Players that are plain Python objects: the games of compiled players, round by round."""

from __future__ import annotations

import numpy as np
import pytest
from numba.extending import register_jitable
from river import dummy

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead, adversaries, simulations
from onlinecal.forecasters import ConstantForecaster, FosterForecaster

pytestmark = pytest.mark.filterwarnings("ignore:.*plays in the interpreter")
ROUNDS = 120


class Below:
    """The adversary `threshold:at=0.5`, by hand."""

    def next(self, history):
        return int(history.forecasts[-1] < 0.5)


class LeastLikely:
    """The adversary of that name, by hand."""

    n_classes = 3

    def next(self, history):
        return int(np.argmin(history.forecasts[-1]))


class Frequencies:
    """The share of ones so far, as river has it."""

    ones, rounds = 1, 2

    def predict_proba_one(self, x):
        return {True: self.ones / self.rounds, False: 1 - self.ones / self.rounds}

    def learn_one(self, x, y):
        self.ones, self.rounds = self.ones + y, self.rounds + 1


class Alternating:
    """It looks at how much of the past it is shown."""

    def next(self, history):
        assert len(history.forecasts) == len(history.outcomes) + 1
        return len(history.outcomes) % 2


def alike(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in ("forecasts", "outcomes", "charged", "checkpoints", "certificates", "guarantees")
    )


@pytest.mark.parametrize("settings", [{"horizon": ROUNDS}, {"window": 20}, {"hints": True, "slack": 1.0}])
def test_a_plain_adversary_plays_the_game_of_its_step_function(settings):
    hints = np.random.default_rng(0).random(ROUNDS) if "hints" in settings else None
    by_hand, compiled = AlmostOneStepAhead(**settings), AlmostOneStepAhead(**settings)
    duel = simulations.play(by_hand, Below(), ROUNDS, hints=hints)
    assert alike(duel, simulations.play(compiled, adversaries.create("threshold"), ROUNDS, hints=hints))
    assert (by_hand.certificate, by_hand.n_rounds) == (compiled.certificate, ROUNDS)
    duel = simulations.play(SimplexAlmostOneStepAhead(3), LeastLikely(), ROUNDS)
    step = adversaries.create_multiclass("least-likely", 3)
    assert alike(duel, simulations.play(SimplexAlmostOneStepAhead(3), step, ROUNDS))


def test_a_plain_forecaster_is_a_classifier_of_river():
    duel = simulations.play(Frequencies(), adversaries.create("coin:bias=0.8", seed=1), ROUNDS)
    before = np.concatenate([[0], np.cumsum(duel.outcomes)[:-1]])
    assert duel.forecasts == pytest.approx((before + 1) / (np.arange(ROUNDS) + 2))
    assert duel.outcomes.tolist() == adversaries.create("coin:bias=0.8", seed=1).outcomes(ROUNDS).tolist()
    assert np.isnan(duel.certificates).all()
    assert simulations.play(dummy.PriorClassifier(), Below(), 5).forecasts[0] == 0.5


def test_both_may_be_plain_and_see_the_whole_past():
    assert simulations.play(Frequencies(), Alternating(), 4).outcomes.tolist() == [0, 1, 0, 1]
    table = simulations.play(dummy.PriorClassifier(), LeastLikely(), 6)
    assert table.forecasts.shape == (6, 3)
    assert np.allclose(table.forecasts.sum(axis=1), 1)
    slow = "Alternating: a plain Python object plays in the interpreter, hundreds of"
    with pytest.warns(UserWarning, match=slow) as caught:
        simulations.play(ConstantForecaster(0.3), Alternating(), 3)
    assert [warned.filename for warned in caught] == [__file__]


class Vector:
    def next(self, history):
        return np.array([1, 1])


class Negative(Frequencies):
    def predict_proba_one(self, x):
        return {0: 1.0, 1: 0.5, 2: -0.5}


class Third:
    def next(self, history):
        return 2


class Number:
    def predict_proba_one(self, x):
        return 0.7

    def learn_one(self, x, y):
        pass


@register_jitable
def half_step(state, t, forecast, rise_zero, rise_one, u):
    return 0.5


@register_jitable
def later_step(state, t, forecast, rise_zero, rise_one, u):
    return 2 if t > 3 else 0


@pytest.mark.parametrize(
    "step, words",
    [
        (half_step, "half must return the outcome 0 or 1, got 0.5 in round 0"),
        (later_step, "later must return the outcome 0 or 1, got 2 in round 4"),
    ],
)
def test_a_compiled_step_that_gives_no_outcome_is_refused(step, words):
    kind = adversaries.Kind(step.__name__.removesuffix("_step"), "wrong", "adaptive", "nobody", (), step)
    adversary = adversaries.Adversary(
        kind.name, kind, (adversaries.Phase(step, np.empty(0), power="adaptive"),)
    )
    with pytest.raises(ValueError, match=words):
        simulations.play(AlmostOneStepAhead(horizon=9), adversary, 9)


@register_jitable
def below_step(state, t, forecast, rise_zero, rise_one, u):
    return -1 if t == 3 else 1


@register_jitable
def below_class_step(state, t, forecast, rises, u):
    return -1 if t == 3 else 1


def test_a_negative_outcome_later_in_the_game_is_refused_and_reaches_no_forecaster():
    kind = adversaries.Kind("below", "wrong", "oblivious", "nobody", (), below_step)
    forecaster = AlmostOneStepAhead(horizon=9)
    adversary = adversaries.Adversary("below", kind, (adversaries.Phase(below_step, np.empty(0)),))
    with pytest.raises(ValueError, match="below must return the outcome 0 or 1, got -1 in round 3"):
        simulations.play(forecaster, adversary, 9)
    twin = AlmostOneStepAhead(horizon=9)
    twin.replay([1, 1, 1])
    assert (forecaster.n_rounds, forecaster.certificate) == (3, twin.certificate)
    phases = (adversaries.Phase(below_class_step, np.empty(0)),)
    adversary = adversaries.MulticlassAdversary("below", kind, 3, phases)
    with pytest.raises(ValueError, match="a class, a whole number from 0 to 2, got -1 in round 3"):
        simulations.play(SimplexAlmostOneStepAhead(3), adversary, 9)


def test_who_cannot_play_is_told_why():
    greedy, two = adversaries.create("certificate-greedy"), adversaries.replay_sequence([0, 1]).adversary()
    three = adversaries.create_multiclass("uniform", 3)
    for forecaster, adversary, words in (
        (
            3,
            Below(),
            "forecaster must be one of the library's, or .* got int, which has no predict_proba_one",
        ),
        (Frequencies(), "coin", "got the name 'coin': onlinecal.adversaries.create.name. makes one"),
        (AlmostOneStepAhead, Below(), "forecaster must be an object, got the class AlmostOneStepAhead"),
        (AlmostOneStepAhead(), Below, "adversary must be an object, got the class Below: make one"),
        (Number(), Below(), r"Number.predict_proba_one must return probabilities by label, .* got 0.7"),
        (Frequencies(), Third(), r"Third.next must return the outcome 0 or 1, got 2 in round 0"),
        (Frequencies(), greedy, "adversary must be oblivious or adaptive .* got certificate-greedy"),
        (FosterForecaster(horizon=9), Below(), "draw must be 'seen' where a plain adversary plays"),
        (Frequencies(), two, "at most the 2 that sequence has"),
        (Negative(), three, r"each probability that predict_proba_one announces must be .* got -0.5"),
        (
            AlmostOneStepAhead(),
            three,
            "have the outcomes 0 and 1, .* but uniform has 3 classes",
        ),
        (
            SimplexAlmostOneStepAhead(3),
            adversaries.create("coin"),
            "have 3 classes, .* coin has the out",
        ),
        (SimplexAlmostOneStepAhead(2), three, "have 2 classes, as the forecaster has, but uniform has 3"),
        (SimplexAlmostOneStepAhead(), three, "know its classes before the game: make it with n_classes"),
        (
            Frequencies(),
            Vector(),
            r"Vector.next must return the outcome 0 or 1, got array.*1, 1.* in",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            simulations.play(forecaster, adversary, 9)
    with pytest.raises(ValueError, match="progress must be a function, or None, got 5"):
        simulations.play(AlmostOneStepAhead(), two, 2, progress=5)
