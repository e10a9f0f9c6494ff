"""Labels that come late, out of order, or never: the certificate speaks of the very forecasts answered."""

import datetime as dt
import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate, linear_model, metrics, naive_bayes, preprocessing, tree

from onlinecal import CalibratedClassifier, calibration_distance
from onlinecal.wrappers import late_labels
from tests.properties import examples
from tests.wrappers.scripted import Said, Scripted, coins, distance, events, played

MODELS = {
    "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "bayes": naive_bayes.GaussianNB,
    "tree": tree.HoeffdingTreeClassifier,
}


class Noting(CalibratedClassifier):
    """Keeps what it answered, by round number."""

    def __init__(self, classifier, slack=1.0, n_buckets=1, strategy="auto", horizon=None):
        super().__init__(classifier, slack, n_buckets, strategy, horizon)
        self.noted = []

    def predict_proba_one(self, x, **kwargs):
        answer = super().predict_proba_one(x, **kwargs)
        self.noted.append(answer)
        return answer


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("delay", [1, 7, 100])
def test_progressive_validation_with_a_delay(build, delay):
    rounds = list(datasets.Phishing().take(500))
    model = Noting(build())
    brier = evaluate.progressive_val_score(rounds, model, metrics.LogLoss(), delay=delay)
    assert brier.get() < 1.0
    assert model.n_rounds == 500
    answered = [(a[True], y) for a, (_, y) in zip(model.noted, rounds, strict=True) if a]
    p, y = np.array(answered, dtype=float).T
    assert len(p) >= 500 - delay - 1
    assert calibration_distance(p, y).upper <= model.certificate <= model.guarantee


def test_progressive_validation_by_the_clock_and_out_of_order():
    rng = np.random.default_rng(1)
    start = dt.datetime(2024, 1, 1)
    rounds = [
        ({"p": x["p"], "asked": start + dt.timedelta(minutes=t), "wait": dt.timedelta(minutes=int(wait))}, y)
        for t, ((x, y), wait) in enumerate(zip(coins(400), rng.integers(0, 60, 400), strict=True))
    ]
    model = Noting(Said())
    evaluate.progressive_val_score(
        rounds, model, metrics.LogLoss(), moment="asked", delay=lambda x, _: x["wait"]
    )
    p = [answer[True] for answer in model.noted]
    assert len(p) == model.n_rounds == 400
    y = [label for _, label in rounds]
    assert calibration_distance(p, y).upper <= model.certificate <= model.guarantee
    assert model.guarantee > CalibratedClassifier(Said()).guarantee


@settings(max_examples=examples(60), deadline=None)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60),
    late=st.integers(0, 20),
    slack=st.sampled_from([0.5, 1.0, 3.0]),
    n_buckets=st.sampled_from([1, 4]),
    horizon=st.sampled_from([None, 60]),
)
def test_every_sequence_of_outcomes_at_every_delay(flips, late, slack, n_buckets, horizon):
    model = CalibratedClassifier(Said(), slack=slack, n_buckets=n_buckets, horizon=horizon)
    record = played(model, [({"p": p, "t": t}, y) for t, (p, y) in enumerate(flips)], late)
    assert calibration_distance(*events(record)).upper <= model.certificate + 1e-9
    assert model.certificate <= model.guarantee + 1e-9


@pytest.mark.parametrize("delay", [0, 1, 20])
def test_a_delay_costs_the_guarantee_what_the_theorem_says_and_no_more(delay):
    rounds = coins(300)
    late, prompt = (CalibratedClassifier(Said(), horizon=300) for _ in range(2))
    played(late, rounds, delay)
    played(prompt, rounds)
    inner_points = prompt._binary.tables[0].memory
    assert late.guarantee >= prompt.guarantee
    cells = int(np.ceil(np.sqrt(300)))
    # the sum of max(v, 1 - v) over the inner points, for an even number of cells
    assert late.guarantee == pytest.approx(prompt.guarantee + delay * (0.75 * cells - 1))
    assert len(inner_points) >= cells + 1


def test_labels_in_time_between_late_ones_stay_in_time():
    model = CalibratedClassifier(Said())
    rounds = coins(200)
    before = model.guarantee
    for x, y in rounds:
        model.predict_proba_one(dict(x))
        model.learn_one(dict(x), y)
    twin = CalibratedClassifier(Said())
    played(twin, rounds)
    assert model.certificate == twin.certificate
    assert model.guarantee == twin.guarantee > before


def test_labels_that_never_come_are_not_charged():
    rng = np.random.default_rng(2)
    model, record = CalibratedClassifier(Said()), []
    for x, y in coins(600):
        answer = model.predict_proba_one(x)
        if rng.random() < 0.6:
            record.append((answer[True], y))
            model.learn_one(x, y)
    p, y = np.array(record, dtype=float).T
    assert model.n_rounds == len(p) < 600
    assert calibration_distance(p, y).upper <= model.certificate <= model.guarantee


def test_not_more_than_so_many_forecasts_wait(monkeypatch):
    monkeypatch.setattr(late_labels, "MOST_PENDING", 50)
    model = CalibratedClassifier(Said())
    rounds = coins(200)
    for x, _ in rounds:
        model.predict_proba_one(x)
    assert len(model._pending) == 50
    for x, y in rounds:
        model.learn_one(dict(x), y)
    assert model.n_rounds == 200
    assert len(model._pending) == 0
    assert model.certificate <= model.guarantee


@pytest.mark.parametrize("late", [0, 5])
def test_equal_features_are_settled_oldest_first(late):
    rounds = [({"p": 0.7}, t % 10 < 7) for t in range(300)]
    model = CalibratedClassifier(Said())
    record = played(model, rounds, late)
    p, y = events(record)
    assert calibration_distance(p, y).upper <= model.certificate <= model.guarantee


def test_features_that_cannot_be_hashed_are_known_by_identity():
    rounds = [({"p": 0.4, "words": ["a", "b"]}, bool(t % 2)) for t in range(20)]
    model = CalibratedClassifier(Said())
    for x, _ in rounds:
        model.predict_proba_one(x)
    for x, y in rounds:
        model.learn_one(x, y)
    assert len(model._pending) == 0
    assert model.n_rounds == 20


@pytest.mark.parametrize("strategy", ["auto", "simplex", "top-label", "classwise", "tree"])
@pytest.mark.parametrize("late", [0, 1, 15])
def test_three_labels_one_of_them_new(strategy, late):
    rng = np.random.default_rng(5)
    rounds = []
    for t in range(250):
        shares = rng.dirichlet([1.0, 1.0, 1.0] if t > 60 else [1.0, 1.0])
        names = "uvw"[: len(shares)]
        rounds.append(
            ({"answer": dict(zip(names, shares, strict=True)), "t": t}, rng.choice(list(names), p=shares))
        )
    rounds = [({**x, "answer": tuple(x["answer"].items())}, y) for x, y in rounds]
    model = CalibratedClassifier(Scripted(), strategy=strategy)
    record = played(model, rounds, late)
    assert distance(record) <= model.certificate <= model.guarantee
    plans = {plan.name for plan in model._strategies.values() if plan.projections}
    assert plans == {"auto": {"binary", "classwise"}, "simplex": set()}.get(strategy, {strategy})


@pytest.mark.parametrize("build", [naive_bayes.GaussianNB, tree.HoeffdingTreeClassifier])
@pytest.mark.parametrize("late", [0, 12])
def test_a_second_label_that_appears_late(build, late):
    rng = np.random.default_rng(0)
    rounds = [({"x": rng.normal()}, "a" if t < 80 or rng.random() < 0.5 else "b") for t in range(200)]
    model = CalibratedClassifier(build())
    record = played(model, rounds, late)
    assert all(answer in ({}, {"a": 1.0}) for answer, _, _ in record[:80])
    assert all(forecasts in ({}, {"a": 1.0}) for _, forecasts, _ in record[:80])
    assert all(answer["a"] == forecasts["a"] for answer, forecasts, _ in record if answer)
    p, y = events(record)
    assert calibration_distance(p, y).upper <= model.certificate <= model.guarantee


def test_features_that_cannot_be_hashed_are_kept_while_they_wait_so_no_other_is_taken_for_them():
    class Features(dict):
        """That can be referred to weakly."""

    pending, x = late_labels.Pending(), Features(words=["a", "b"])
    pending.add(x, "forecast")
    known = weakref.ref(x)
    assert pending.take(Features(words=["a", "b"])) is None
    del x
    gc.collect()
    assert pending.take(known()) == "forecast"
    gc.collect()
    assert known() is None
