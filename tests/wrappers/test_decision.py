from __future__ import annotations

import numpy as np
import pytest
from river import base, datasets, naive_bayes

from onlinecal import DecisionCalibratedClassifier
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.recalibration.decision.losses import gaussian_losses
from tests.estimators import learn


class Told(base.Classifier):
    """Answers with its features, which are probabilities."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return dict(x)


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    for truth in rng.dirichlet([1, 1, 1], n):
        sure = truth**3 / (truth**3).sum()
        yield dict(zip("abc", sure.tolist(), strict=True)), "abc"[int(rng.choice(3, p=truth))]


def test_fits_come_at_doubling_times_go_on_from_each_other_and_close_the_gap():
    model = DecisionCalibratedClassifier(Told(), n_actions=2, capacity=800)
    rounds = list(stream(1700))
    answers = learn(model, rounds)
    assert model.n_fits == 4  # after 200, 400, 800, 1600
    assert answers[:200] == [x for x, _ in rounds[:200]]
    assert all(abs(sum(answer.values()) - 1) < 1e-9 for answer in answers)
    assert model.gaps().mean() < 0.4 * model.gaps(raw=True).mean()
    first = DecisionCalibratedClassifier(Told(), n_actions=2, capacity=800)
    learn(first, rounds[:200])
    assert model.recalibrator.n_rounds_ > first.recalibrator.n_rounds_
    for mine, theirs in zip(model.recalibrator.rounds_, first.recalibrator.rounds_, strict=False):
        assert np.array_equal(mine.step, theirs.step)


def test_it_can_be_fitted_at_any_time():
    model = DecisionCalibratedClassifier(Told())
    model.recalibrate()
    assert model.n_fits == 0
    learn(model, stream(50))
    model.recalibrate()
    assert (model.n_fits, model.n_rounds) == (1, 50)
    learn(model, stream(200))
    assert model.n_fits == 2


def test_the_newest_labels_are_answered_before_they_are_learnt():
    model = DecisionCalibratedClassifier(Told(), n_recent=100, labels="abc")
    rounds = list(stream(300))
    answers = learn(model, rounds)
    losses = gaussian_losses(3, 3, 20)
    table = np.array([[answer[k] for k in "abc"] for answer in answers[-100:]])
    numbers = ["abc".index(y) for _, y in rounds[-100:]]
    assert np.allclose(model.gaps(losses), decision_loss_gap(table, numbers, losses))


@pytest.mark.parametrize("memory", ["window", "reservoir"])
def test_memory_is_bounded_and_repeats_with_the_seed(memory):
    one, two = (DecisionCalibratedClassifier(Told(), memory=memory, capacity=50, seed=3) for _ in range(2))
    rounds = list(stream(500))
    assert learn(one, rounds) == learn(two, rounds)
    assert len(one._kept) < 100
    if memory == "reservoir":
        ages = [next(i for i, (x, _) in enumerate(rounds) if x == answer) for answer, _ in one._kept]
        assert min(ages) < 100
        assert max(ages) > 400


def test_a_label_that_comes_later_keeps_its_probability_until_the_next_fit():
    model = DecisionCalibratedClassifier(Told(), first_fit=100)
    learn(model, list(stream(100)))
    answer = model.predict_proba_one({"a": 0.5, "b": 0.2, "c": 0.1, "d": 0.2})
    assert answer["d"] == pytest.approx(0.2)
    assert sum(answer.values()) == pytest.approx(1)
    for x, y in list(stream(100, seed=1)):
        x = {**{k: 0.9 * p for k, p in x.items()}, "d": 0.1}
        model.learn_one(x, y)
    assert model.recalibrator.n_features_in_ == 4
    assert set(model.predict_proba_one({"a": 1.0})) == set("abcd")


def test_a_real_stream_and_a_clinics_own_loss():
    loss = np.array([[[0.0, 1.0], [0.3, 0.1]]])
    model = DecisionCalibratedClassifier(naive_bayes.GaussianNB(), losses=loss, labels=[False, True])
    learn(model, datasets.Phishing())
    assert model.gaps()[0] < model.gaps(raw=True)[0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"memory": "endless"}, "memory must be one of window, reservoir, got 'endless'"),
        ({"capacity": 5}, "capacity must be at least 10, got 5"),
        ({"first_fit": 0}, "first_fit must be a whole number of at least 1, got 0"),
        ({"n_actions": 0}, "n_actions"),
    ],
)
def test_bad_parameters_of_the_wrapper_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        DecisionCalibratedClassifier(Told(), **parameters)


def test_nothing_is_known_before_the_first_label():
    model = DecisionCalibratedClassifier(naive_bayes.GaussianNB())
    assert model.predict_proba_one({"x": 1.0}) == {}
    assert model.gaps().shape == (0,)
