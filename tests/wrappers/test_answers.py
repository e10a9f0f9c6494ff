"""What the wrapper answers: labels of every kind, cold starts, NaN, many labels, and never a look ahead."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, datasets, dummy, naive_bayes, tree

from onlinecal import BinnedMean, CalibratedClassifier, PlattScaling, calibration_distance
from onlinecal.steering.binary import FORECAST
from tests.properties import examples
from tests.wrappers.scripted import Said, Scripted, coins, distance, events, played

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
@pytest.mark.parametrize("strategy", ["auto", "binary", "simplex", "top-label", "classwise", "tree"])
def test_labels_of_every_kind(kind, strategy):
    labels = KINDS[kind]
    model = CalibratedClassifier(Scripted(), strategy=strategy)
    record = played(model, named(coins(300), labels))
    assert distance(record) <= model.certificate <= model.guarantee
    for answer, _, _ in record[1:]:
        assert set(answer) <= set(labels)
        assert is_distribution(answer)
    assert len(record[-1].answer) == 2
    assert model.predict_one({"answer": {labels[0]: 0.01, labels[1]: 0.99}}) == labels[1]


@pytest.mark.parametrize("kind", ["0/1", "np.bool_", "np.int64"])
def test_equal_labels_get_equal_forecasts(kind):
    plain = played(CalibratedClassifier(Scripted()), named(coins(200), (False, True)))
    other = played(CalibratedClassifier(Scripted()), named(coins(200), KINDS[kind]))
    assert [tuple(one.answer.values()) for one in plain] == [tuple(one.answer.values()) for one in other]


@pytest.mark.parametrize("strategy", ["auto", "binary"])
def test_zero_and_one_among_ten_labels_are_not_false_and_true(strategy):
    model = CalibratedClassifier(Scripted(), strategy=strategy)
    assert model.predict_proba_one({"answer": {label: 0.1 for label in range(10)}}) == {}
    both = model.predict_proba_one({"answer": {0: 0.9, 1: 0.1}})
    assert set(both) == {False, True}


@pytest.mark.parametrize(
    "build", [tree.HoeffdingTreeClassifier, naive_bayes.GaussianNB, dummy.PriorClassifier]
)
@pytest.mark.parametrize("strategy", ["auto", "simplex", "top-label", "classwise", "tree"])
@pytest.mark.parametrize("wrap", [CalibratedClassifier, PlattScaling, BinnedMean])
def test_a_cold_start_is_an_empty_answer_and_then_goes_on(build, strategy, wrap):
    model = wrap(build(), strategy=strategy) if wrap is CalibratedClassifier else wrap(build())
    assert model.predict_proba_one({"x": 1.0}) == {}
    assert model.predict_one({"x": 1.0}) is None
    rounds = [({"x": float(t % 5)}, "ab"[t % 2]) for t in range(50)]
    for x, y in rounds:
        assert model.predict_proba_one(x) == {} or is_distribution(model.predict_proba_one(x))
        model.learn_one(x, y)
    assert set(model.predict_proba_one({"x": 1.0})) == {"a", "b"}


def test_an_empty_answer_is_no_forecast_and_a_sure_one_costs_one_when_wrong():
    model = CalibratedClassifier(tree.HoeffdingTreeClassifier())
    for t in range(5):
        x = {"x": float(t)}
        model.predict_proba_one(x)
        model.learn_one(x, "a")
    assert (model.n_rounds, model.certificate) == (5, 0.0)
    x = {"x": 9.0}
    assert model.predict_proba_one(x) == {"a": 1.0}
    model.learn_one(x, "b")
    assert model.certificate == 1.0 <= model.guarantee


@pytest.mark.filterwarnings("ignore:classifier answers with probabilities:onlinecal.LabelWarning")
@pytest.mark.parametrize("strategy", ["auto", "simplex", "top-label", "classwise", "tree"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -3.0, 7.0])
def test_a_model_that_answers_nonsense_gets_probabilities_all_the_same(strategy, bad):
    rng = np.random.default_rng(0)
    rounds = []
    for t in range(300):
        shares = dict(zip("uvw", rng.dirichlet(np.ones(3)).tolist(), strict=True))
        label = "uvw"[int(rng.integers(3))]
        for name in "uvw":
            if rng.random() < 0.3:
                shares[name] = bad
        rounds.append(({"answer": shares, "t": t}, label))
    model = CalibratedClassifier(Scripted(), strategy=strategy)
    record = played(model, rounds)
    assert all(is_distribution(answer) for answer, _, _ in record if answer)
    assert distance(record) <= model.certificate <= model.guarantee


def test_nan_counts_as_no_opinion():
    nan, half = ([({"p": p, "t": t}, y) for t, (_, y) in enumerate(coins(100))] for p in (math.nan, 0.5))
    silent, undecided = played(CalibratedClassifier(Said()), nan), played(CalibratedClassifier(Said()), half)
    assert [one.answer for one in silent] == [one.answer for one in undecided]


def test_auto_changes_with_the_number_of_labels():
    model = CalibratedClassifier(naive_bayes.GaussianNB())
    rounds = list(datasets.ImageSegments().take(400))
    plans = []
    for x, y in rounds:
        model.predict_proba_one(x)
        model.learn_one(x, y)
        plans.append(model._plan.name)
    numbers = [len({y for _, y in rounds[: t + 1]}) for t in range(len(rounds))]
    assert numbers[-1] == 7
    assert plans == ["binary" if n < 3 else "classwise" for n in numbers]


def test_classwise_answers_are_the_nearest_distribution_and_are_what_is_certified():
    model = CalibratedClassifier(naive_bayes.GaussianNB(), strategy="classwise")
    record, gaps = [], []
    for x, y in datasets.ImageSegments().take(600):
        answer = model.predict_proba_one(x)
        states = {
            label: model._strategies["classwise"].projection(label)._state for label in model._asking.asked
        }
        forecasts = {label: state[FORECAST] for label, state in states.items()}
        gaps.append(1.0 - sum(forecasts.values()))
        if record:
            moved = [answer[label] - p for label, p in forecasts.items()]
            assert sum(map(abs, moved)) == pytest.approx(abs(gaps[-1]), abs=1e-12)
            assert all(step * gaps[-1] >= 0.0 for step in moved)
            assert is_distribution(answer)
        record.append((answer, model.forecasts_one(x), y))
        assert record[-1][1] == answer
        model.learn_one(x, y)
    assert any(abs(gap) > 0.01 for gap in gaps)
    labels = {label for _, _, label in record}
    assert set(model.certificates) == labels
    assert sum(model.certificates.values()) == pytest.approx(model.certificate)
    for label in labels:
        # a label that was not known yet stood at 0
        p = [forecasts.get(label, 0.0) for _, forecasts, _ in record]
        y = [y == label for _, _, y in record]
        assert calibration_distance(p, y, budget=0.1).lower <= model.certificates[label]


@settings(max_examples=examples(60), deadline=None)
@given(
    rounds=st.lists(
        st.tuples(st.lists(st.floats(0, 1), min_size=2, max_size=4), st.sampled_from("uvwz")),
        min_size=1,
        max_size=40,
    ),
    strategy=st.sampled_from(["auto", "binary", "simplex", "top-label", "classwise", "tree"]),
    late=st.sampled_from([0, 0, 1, 6, 20]),
    slack=st.sampled_from([1.0, 1.5, 3.0]),
    n_buckets=st.sampled_from([1, 4]),
    horizon=st.sampled_from([None, 60]),
)
def test_every_sequence_of_labels(rounds, strategy, late, slack, n_buckets, horizon):
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


class Memory(base.Classifier):
    """Knows every label it was told, and nothing else; keeps a diary."""

    def __init__(self):
        self.told = {}
        self.diary = []

    def learn_one(self, x, y):
        self.told[x["t"]] = y
        self.diary.append(("learn", x["t"]))

    def predict_proba_one(self, x):
        self.diary.append(("predict", x["t"]))
        p = float(self.told.get(x["t"], 0.5))
        return {False: 1.0 - p, True: p}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("strategy", ["binary", "simplex", "top-label", "classwise", "tree"])
def test_a_model_that_memorises_gains_nothing(asked, strategy):
    model = CalibratedClassifier(Memory(), strategy=strategy)
    rng = np.random.default_rng(0)
    errors = []
    for t, y in enumerate(rng.random(2000) < 0.5):
        x = {"t": t}
        if asked:
            errors.append((model.predict_proba_one(x).get(True, 0.5) - y) ** 2)
        model.learn_one(x, bool(y))
    diary = model.classifier.diary
    for (_, before), (kind, t) in itertools.pairwise(diary):
        assert kind == "learn" or t > before
    assert not asked or np.mean(errors) > 0.24


@pytest.mark.parametrize("buckets", [1, 5])
@pytest.mark.parametrize("fights", [False, True])
def test_the_brier_score_is_near_that_of_the_best_constant_in_each_bucket(buckets, fights):
    model, rng = CalibratedClassifier(Said(), n_buckets=buckets), np.random.default_rng(2)
    groups = {}
    for t, said in enumerate(rng.random(1500).tolist()):
        p = model.predict_proba_one(x := {"p": said, "t": t}).get(True, 1.0)
        y = p < 0.5 if fights else bool(rng.random() < said)
        if model._binary is not None:
            groups.setdefault(model._binary.tables.index(model._binary._table), []).append((p, y))
        model.learn_one(x, y)
    gap = 0.0
    for group in groups.values():
        forecasts, outcomes = np.array(group).T
        gap += np.sum((forecasts - outcomes) ** 2) - np.sum((outcomes.mean() - outcomes) ** 2)
    assert gap <= 2 * model.certificate
    assert 2 * sum(table.guarantee for table in model._binary.tables) <= 4 * math.sqrt(3 * buckets * 1500)


def test_many_labels_keep_the_models_choice_and_its_calibrated_confidence():
    """Twenty labels, the top one right three times in ten: the answer is the model's, at the same skill."""
    rng = np.random.default_rng(5)
    names = [f"l{i}" for i in range(20)]
    rounds = []
    for t, row in enumerate(rng.dirichlet(np.full(20, 0.15), 1500)):
        best = int(row.argmax())
        label = best if rng.random() < 0.27 else int(rng.integers(20))
        rounds.append(({"answer": dict(zip(names, row.tolist(), strict=True)), "t": t}, names[label]))
    model = CalibratedClassifier(Scripted())
    record = played(model, rounds)
    assert model._plan.name == "top-label"
    kept = right = raw = 0
    for (x, y), (answer, forecasts, _) in list(zip(rounds, record, strict=True))[200:]:
        ((best, p),) = forecasts.items()
        assert answer[best] == p
        assert is_distribution(answer)
        chosen, said = max(answer, key=answer.get), max(x["answer"], key=x["answer"].get)
        assert chosen == best
        kept += chosen == said
        right += chosen == y
        raw += said == y
    assert kept > 0.95 * 1300
    assert right >= raw - 0.01 * 1300
    assert raw > 0.25 * 1300


def test_a_label_that_never_comes_is_not_the_choice_for_long():
    model, rng = CalibratedClassifier(Scripted(), strategy="top-label"), np.random.default_rng(0)
    for t in range(600):
        x = {"answer": {"u": 0.7, "v": 0.2, "w": 0.1}, "t": t}
        answer, forecasts = model.predict_proba_one(x), model.forecasts_one(x)
        model.learn_one(x, "vw"[rng.integers(2)])
    assert answer["u"] < 0.02
    ((best, p),) = forecasts.items()
    assert best in "vw"
    assert answer[best] == p == pytest.approx(0.5, abs=0.15)
