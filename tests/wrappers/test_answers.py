"""What the wrapper answers: labels of every kind, cold starts, NaN, many labels, and never a look ahead."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, dummy, naive_bayes, tree

from onlinecal import BinnedMean, CalibratedClassifier, PlattScaling, calibration_distance
from onlinecal.steering.binary import FORECAST
from tests.estimators import learn
from tests.properties import examples
from tests.wrappers.scripted import Said, Scripted, Told, coins, distance, events, played

STRATEGIES = ["auto", "simplex", "top-label", "classwise", "tree"]
KINDS = {
    "bool": (False, True),
    "0/1": (0, 1),
    "np.bool_": (np.bool_(False), np.bool_(True)),
    "np.int64": (np.int64(0), np.int64(1)),
    "strings": ("no", "yes"),
    "np.str_": (np.str_("no"), np.str_("yes")),
    "other numbers": (3, 7),
}


def is_distribution(answer):
    return all(0.0 <= p <= 1.0 for p in answer.values()) and math.isclose(sum(answer.values()), 1.0)


def named(rounds, labels):
    """Features for Scripted that name these labels."""
    return [
        ({"answer": {labels[0]: 1.0 - x["p"], labels[1]: x["p"]}, "t": x["t"]}, labels[int(y)])
        for x, y in rounds
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_labels_of_every_kind(kind, strategy):
    labels = KINDS[kind]
    model = CalibratedClassifier(Scripted(), strategy=strategy)
    record = played(model, named(coins(100), labels))
    assert distance(record) <= model.certificate <= model.guarantee
    assert all(set(answer) <= set(labels) and is_distribution(answer) for answer, _, _ in record[1:])
    assert len(record[-1].answer) == 2
    assert model.predict_one({"answer": {labels[0]: 0.01, labels[1]: 0.99}}) == labels[1]
    if labels == (0, 1):
        # equal labels get equal forecasts
        plain = played(CalibratedClassifier(Scripted(), strategy=strategy), named(coins(100), (False, True)))
        assert [one.answer for one in plain] == [one.answer for one in record]


def test_zero_and_one_among_ten_labels_are_not_false_and_true():
    model = CalibratedClassifier(Scripted())
    assert model.predict_proba_one({"answer": {label: 0.1 for label in range(10)}}) == {}
    assert set(model.predict_proba_one({"answer": {0: 0.9, 1: 0.1}})) == {False, True}


WRAPPED = [PlattScaling, BinnedMean] + [
    lambda model, strategy=strategy: CalibratedClassifier(model, strategy=strategy) for strategy in STRATEGIES
]


@pytest.mark.parametrize(
    "build", [tree.HoeffdingTreeClassifier, naive_bayes.GaussianNB, dummy.PriorClassifier]
)
@pytest.mark.parametrize("wrap", WRAPPED, ids=["Platt", "bins", *STRATEGIES])
def test_a_cold_start_is_an_empty_answer_and_then_goes_on(build, wrap):
    model = wrap(build())
    assert model.predict_one({"x": 1.0}) is None
    answers = learn(model, [({"x": float(t % 5)}, "ab"[t % 2]) for t in range(50)])
    assert answers[0] == {}
    assert all(answer == {} or is_distribution(answer) for answer in answers)
    assert set(answers[-1]) == {"a", "b"}


def test_nan_counts_as_no_opinion():
    nan, half = (
        played(CalibratedClassifier(Said()), [({"p": p, "t": x["t"]}, y) for x, y in coins(100)])
        for p in (math.nan, 0.5)
    )
    assert [one.answer for one in nan] == [one.answer for one in half]


def test_classwise_answers_are_the_nearest_distribution_and_are_what_is_certified():
    model, gaps = CalibratedClassifier(naive_bayes.GaussianNB(), strategy="classwise"), []
    for x, y in datasets.ImageSegments().take(600):
        answer = model.predict_proba_one(x)
        projections = {label: model._plan.strategies["classwise"].projection(label) for label in answer}
        forecasts = {label: one._state[FORECAST] for label, one in projections.items()}
        if model.n_rounds:
            gaps.append(1.0 - sum(forecasts.values()))
            moved = [answer[label] - p for label, p in forecasts.items()]
            assert sum(map(abs, moved)) == pytest.approx(abs(gaps[-1]), abs=1e-12)
            assert all(step * gaps[-1] >= 0.0 for step in moved)
            assert is_distribution(answer)
        assert model.certified_proba_one(x) == answer
        model.learn_one(x, y)
    assert any(abs(gap) > 0.01 for gap in gaps)


def test_the_certificate_of_all_labels_is_the_sum_of_those_of_each_also_of_rounds_before_classwise():
    model, rng = CalibratedClassifier(Told()), np.random.default_rng(1)
    # at first one label is certain, then another surprises, then they are two
    for names in ("a", "b", "ab", "abc"):
        for label in rng.choice(list(names), 10).tolist():
            x = dict(zip(names, rng.dirichlet(np.ones(len(names))).tolist(), strict=True))
            model.predict_proba_one(x)
            model.learn_one(x, label)
        assert model.certificate > 0.0 or names == "a"
    assert model.current_strategy == "classwise"
    assert model.certificate == pytest.approx(sum(model.certificates.values()))


NONSENSE = st.sampled_from([math.nan, math.inf, -math.inf, -3.0, 7.0])


@settings(max_examples=examples(60), deadline=None)
@given(
    rounds=st.lists(
        st.tuples(st.lists(st.floats(0, 1) | NONSENSE, min_size=2, max_size=4), st.sampled_from("uvwz")),
        min_size=1,
        max_size=40,
    ),
    strategy=st.sampled_from([*STRATEGIES, "binary"]),
    late=st.sampled_from([0, 0, 1, 6, 20]),
    slack=st.sampled_from([1.0, 1.5, 3.0]),
    n_buckets=st.sampled_from([1, 4]),
    horizon=st.sampled_from([None, 60]),
)
def test_every_sequence_of_labels_after_any_answers(rounds, strategy, late, slack, n_buckets, horizon):
    model = CalibratedClassifier(
        Scripted(), strategy=strategy, slack=slack, n_buckets=n_buckets, horizon=horizon
    )
    played_rounds = [
        ({"answer": tuple(zip("uvwz", masses, strict=False)), "t": t}, label)
        for t, (masses, label) in enumerate(rounds)
    ]
    record = played(model, played_rounds, late)
    assert all(is_distribution(answer) for answer, _, _ in record if answer)
    assert model.certificate <= model.guarantee + 1e-9
    if strategy not in ("classwise", "tree") and any(forecasts for _, forecasts, _ in record):
        assert calibration_distance(*events(record)).upper <= model.certificate + 1e-9


class Memory(Scripted):
    """Knows every label it was told, and nothing else; refuses to be asked about those."""

    def __init__(self):
        self.told = {}

    def learn_one(self, x, y):
        self.told[x["t"]] = y

    def predict_proba_one(self, x):
        assert x["t"] not in self.told
        return {False: 0.5, True: 0.5}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_model_is_asked_about_a_round_before_it_learns_its_label(strategy):
    model = CalibratedClassifier(Memory(), strategy=strategy)
    for t in range(200):
        if t % 3:
            model.predict_proba_one({"t": t})
        model.learn_one({"t": t}, t % 2 == 0)
    assert (model.n_rounds, len(model.classifier.told)) == (133, 200)


def test_many_labels_keep_the_models_choice_and_its_calibrated_confidence():
    """Twenty labels, the top one right three times in ten: the answer is the model's, at the same skill."""
    rng, names, rounds = np.random.default_rng(5), [f"l{i}" for i in range(20)], []
    for t, row in enumerate(rng.dirichlet(np.full(20, 0.15), 1500)):
        label = int(row.argmax()) if rng.random() < 0.27 else int(rng.integers(20))
        rounds.append(({"answer": dict(zip(names, row.tolist(), strict=True)), "t": t}, names[label]))
    model = CalibratedClassifier(Scripted())
    record = played(model, rounds)
    assert model.current_strategy == "top-label"
    kept = right = raw = 0
    for (x, y), (answer, forecasts, _) in list(zip(rounds, record, strict=True))[200:]:
        ((best, p),) = forecasts.items()
        assert answer[best] == p == max(answer.values())
        assert is_distribution(answer)
        said = max(x["answer"], key=x["answer"].get)
        kept += best == said
        right += best == y
        raw += said == y
    assert kept > 0.95 * 1300
    assert right >= raw - 0.01 * 1300 > 0.24 * 1300
