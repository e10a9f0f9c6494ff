"""Every public certificate bounds the distance to calibration of exactly what its user was given.

Objects are discovered: a public class with a certificate or a guarantee that is not played here fails the
test. Each plays streams that are shifted, rare, drifting, constant and adversarial, in time and late. What it
answered, and nothing of what it knows inside, is compared with a proven lower end of the distance.
"""

import inspect
from collections import defaultdict, deque
from functools import partial

import numpy as np
import pytest

import onlinecal
from onlinecal import (
    AlmostOneStepAhead,
    CalibratedClassifier,
    CombinedClassifier,
    GroupCalibratedClassifier,
    OneStepAhead,
    SimplexAlmostOneStepAhead,
    calibration_distance,
    multiclass_calibration_distance,
)
from onlinecal.engine import Engine, EngineConfig, KeyConfig, Outcome, Query
from tests.wrappers.scripted import Scripted

ROUNDS = 110
ROUNDING = 1e-9
STREAMS = ("shifted", "rare", "drifting", "constant", "adversarial")
DELAYS = (0, 40)


class World:
    """What a model says in each round, over k labels, and which label comes once the answer was given."""

    def __init__(self, kind, k):
        self.kind, self.k, self.rng = kind, k, np.random.default_rng(STREAMS.index(kind))

    def says(self, t):
        """Probabilities of the labels, the positive one of two being the second."""
        if self.kind == "constant":
            return np.full(self.k, 1.0 / self.k)
        alpha = np.ones(self.k)
        if self.kind == "rare":
            alpha[0] = 30.0
        return self.rng.dirichlet(alpha)

    def comes(self, t, said, given):
        """The label's number."""
        chances = {
            "shifted": lambda: said * np.linspace(0.3, 3.0, self.k),
            "rare": lambda: said * np.where(np.arange(self.k) == 0, 1.0, 0.05),
            "drifting": lambda: said if t < ROUNDS // 2 else said[::-1],
            "constant": lambda: np.eye(self.k)[-1],
            "adversarial": lambda: np.eye(self.k)[int(np.argmin(given))],
        }[self.kind]()
        return int(self.rng.choice(self.k, p=chances / chances.sum()))


def played(world, late, ask, settle, check=lambda t, record: None):
    """Ask and settle every round, `late` rounds later: the (answer, label's number) that were settled.

    `ask(t, said)` is the answer, an array or a number, with what `settle(kept, number)` needs.
    """
    waiting, record = deque(), []
    for t in range(ROUNDS + late):
        if t < ROUNDS:
            said = world.says(t)
            given, kept = ask(t, said)
            vector = np.atleast_1d(np.asarray(given, float))
            number = world.comes(t, said, [1 - vector[0], vector[0]] if len(vector) == 1 else vector)
            waiting.append((given, kept, number))
        if t >= late:
            given, kept, number = waiting.popleft()
            settle(kept, number)
            record.append((given, number))
            check(t, record)
    return record


def lower(p, y):
    """A proven lower end of the distance of these forecasts and outcomes."""
    return calibration_distance(np.array(p, float), np.array(y, float), budget=0.1).lower


def least_over_labels(answers, labels):
    """The sum over all labels of the distance of each; a label that an answer leaves out was given 0."""
    names = {name for answer in answers for name in answer} | set(labels)
    return {
        name: lower([answer.get(name, 0.0) for answer in answers], [label == name for label in labels])
        for name in names
    }


def least_on_top(answers, labels):
    """The distance of the greatest probability of each answer, as an event that its label comes."""
    tops = [max(answer, key=answer.get) for answer in answers]
    pairs = zip(tops, labels, strict=True)
    return lower([max(answer.values()) for answer in answers], [top == label for top, label in pairs])


def least_of_vectors(record):
    """The distance of whole vectors, in l1, of pairs (probabilities, label's number)."""
    p, y = (np.array(one) for one in zip(*record, strict=True))
    return multiclass_calibration_distance(p, y, budget=0.1, method="bracket").lower


def hold(distance, certificate, guarantee):
    """The chain that users rely on."""
    assert distance <= certificate + ROUNDING
    assert certificate <= guarantee + ROUNDING


def plays_one_step_ahead(kind, late):
    model, world = OneStepAhead(n_cells=10), World(kind, 2)
    outcomes = [world.comes(t, said, said) for t, said in enumerate(map(world.says, range(ROUNDS)))]
    hold(lower(model.replay(outcomes), outcomes), model.certificate, model.guarantee)


def plays_a_forecaster(kind, late, **config):
    model, window = AlmostOneStepAhead(**config), config.get("window")

    def ask(t, said):
        token = model.forecast(said[1] if config.get("hints") else None)
        return token.probability, token

    def check(t, record):
        if window is not None and t % 15 == 0:
            recent = lower(*zip(*record[-window:], strict=True))
            hold(recent, model.window_certificate, model.window_guarantee)

    record = played(World(kind, 2), late, ask, model.observe, check)
    hold(lower(*zip(*record, strict=True)), model.certificate, model.guarantee)


def plays_a_simplex_forecaster(kind, late, **config):
    model = SimplexAlmostOneStepAhead(n_classes=3, **config)

    def ask(t, said):
        token = model.forecast(dict(enumerate(said.tolist())) if config.get("hints") else None)
        return [token.probabilities[number] for number in range(3)], token

    record = played(World(kind, 3), late, ask, model.observe)
    hold(least_of_vectors(record), model.certificate, model.guarantee)


class Growing(Scripted):
    """A model that names the labels it has learnt, and no others."""

    def __init__(self):
        self.known = {}

    def learn_one(self, x, y):
        self.known[y] = None

    def predict_proba_one(self, x):
        masses = {label: x["answer"][label] for label in self.known}
        total = sum(masses.values())
        return {label: mass / total for label, mass in masses.items()}


def asked(model, names, t, said):
    """What a wrapper answers around a model that says this, and its token with the answer."""
    token = model.forecast({"answer": dict(zip(names, said.tolist(), strict=True)), "t": t})
    return [token.answer.get(name, 0.0) for name in names], (token, token.answer)


def plays_a_classifier(kind, late, strategy, k, declared=False, **config):
    names, window = list("abcdefghijkl"[:k]), config.get("window")
    model = CalibratedClassifier(
        Scripted() if declared else Growing(),
        strategy=strategy,
        classes=names if declared else None,
        **config,
    )
    answers, labels = [], []

    def settle(kept, number):
        token, answer = kept
        model.observe(token, names[number])
        # an empty answer is no forecast
        if answer:
            answers.append(answer)
            labels.append(names[number])
            if window is not None and len(answers) % 15 == 0:
                recent = distance(answers[-window:], labels[-window:])
                hold(recent, model.window_certificate, model.window_guarantee)

    def distance(answers, labels):
        if model.certificates:
            return sum(least_over_labels(answers, labels).values())
        if model.current_strategy == "binary":
            (positive,) = model.certified_proba_one({"answer": dict.fromkeys(names, 1.0 / k), "t": -1})
            p = [answer.get(positive, 0.0) for answer in answers]
            return lower(p, [label == positive for label in labels])
        if model.current_strategy == "simplex":
            vectors = [[answer.get(name, 0.0) for name in names] for answer in answers]
            return least_of_vectors(list(zip(vectors, map(names.index, labels), strict=True)))
        return least_on_top(answers, labels)

    played(World(kind, k), late, partial(asked, model, names), settle)
    hold(distance(answers, labels), model.certificate, model.guarantee)
    if model.certificates:
        for label, least in least_over_labels(answers, labels).items():
            assert least <= model.certificates.get(label, 0.0) + ROUNDING


def plays_several_models(kind, late):
    model, record = CombinedClassifier([Scripted(), Scripted()]), []

    def settle(kept, number):
        token, answer = kept
        model.observe(token, bool(number))
        if answer:
            record.append((answer.get(True, 0.0), number))

    played(World(kind, 2), late, partial(asked, model, [False, True]), settle)
    hold(lower(*zip(*record, strict=True)), model.certificate, model.guarantee)


def plays_groups(kind, late, scheme, names):
    groups = {"even": lambda x: x["t"] % 2 == 0, "early": lambda x: x["t"] < 50}
    model = GroupCalibratedClassifier(Growing(), groups, scheme=scheme)
    seen = defaultdict(list)

    def settle(kept, number):
        token, answer = kept
        model.observe(token, names[number])
        for name, is_member in {"everyone": bool, **groups}.items():
            if answer and is_member(token.features):
                seen[name].append((answer, names[number]))

    played(World(kind, 2), late, partial(asked, model, names), settle)
    (positive,) = model.certified_proba_one({"answer": dict.fromkeys(names, 0.5), "t": -1})
    for group, pairs in seen.items():
        p = [answer.get(positive, 0.0) for answer, _ in pairs]
        distance = lower(p, [label == positive for _, label in pairs])
        hold(distance, model.certificates[group], model.guarantees[group])


def plays_a_key(kind, late, k, **config):
    names = ["a", "b", "c"] if k == 3 else [0, 1]
    key = KeyConfig(kind="simplex", classes=names) if k == 3 else KeyConfig(**config)

    def ask(t, said):
        hint = float(said[1]) if k == 2 else dict(zip(names, said.tolist(), strict=True))
        (answer,) = engine.handle([Query(str(t), "one", hint=hint)])
        return answer.probability if k == 2 else [*answer.probability.values()], t

    with Engine(config=EngineConfig(default=key)) as engine:
        record = played(World(kind, k), late, ask, lambda t, y: engine.handle([Outcome(str(t), names[y])]))
        (last,) = engine.handle([Query("last", "one")])
    distance = lower(*zip(*record, strict=True)) if k == 2 else least_of_vectors(record)
    assert 0.0 < distance <= last.certificate + ROUNDING or kind == "constant"


PLAYERS = {
    "AlmostOneStepAhead": (
        plays_a_forecaster,
        {"hints": True},
        {"hints": True, "slack": 0.5, "horizon": ROUNDS},
        {"hints": True, "window": 20},
        {"horizon": ROUNDS},
        {"grid": "nested", "report": "upper"},
    ),
    "OneStepAhead": (plays_one_step_ahead, {}),
    "SimplexAlmostOneStepAhead": (
        plays_a_simplex_forecaster,
        {"hints": True, "grid": "adaptive"},
        {"hints": True, "slack": 4.0},
        {"horizon": ROUNDS},
    ),
    "CalibratedClassifier": (
        plays_a_classifier,
        {"strategy": "auto", "k": 2},
        {"strategy": "auto", "k": 2, "n_buckets": 3, "window": 15},
        {"strategy": "auto", "k": 2, "slack": 0.5, "window": 7},
        {"strategy": "auto", "k": 2, "n_buckets": 3, "slack": 0.5, "horizon": ROUNDS, "window": 40},
        {"strategy": "binary", "k": 3, "window": 15},
        {"strategy": "auto", "k": 3},
        {"strategy": "auto", "k": 3, "declared": True, "horizon": ROUNDS},
        {"strategy": "classwise", "k": 4, "window": 1},
        {"strategy": "classwise", "k": 4, "declared": True, "window": 15},
        {"strategy": "top-label", "k": 4, "window": 15},
        {"strategy": "auto", "k": 12, "declared": True},
        {"strategy": "simplex", "k": 3},
        {"strategy": "simplex", "k": 3, "declared": True, "window": 5},
    ),
    "CombinedClassifier": (plays_several_models, {}),
    "GroupCalibratedClassifier": (
        plays_groups,
        {"scheme": "atoms", "names": [False, True]},
        {"scheme": "atoms", "names": ["ham", "spam"]},
        {"scheme": "shared", "names": ["ham", "spam"]},
    ),
    "key of Engine": (plays_a_key, {"k": 2}, {"k": 2, "horizon": ROUNDS}, {"k": 3}),
}


ELSEWHERE = {
    "CalibratedRegressor": "wrappers/test_regressors.py plays every sequence",
    "CalibratedDistribution": "wrappers/test_regressors.py plays every sequence",
    "RecalibratedStream": "the same to the bit as CalibratedClassifier: wrappers/test_stream.py",
    "CombinedForecasts": "the same to the bit as CombinedClassifier: wrappers/test_combine.py",
}


def certified():
    """The public classes with a certificate or a guarantee."""
    for name in dir(onlinecal):
        kind = getattr(onlinecal, name)
        if inspect.isclass(kind):
            fields = [*dir(kind), *getattr(kind, "__dataclass_fields__", ())]
            if any("certificate" in field or "guarantee" in field for field in fields):
                yield name


def test_every_public_object_with_a_certificate_is_played():
    assert {*certified(), "key of Engine"} == {*PLAYERS, *ELSEWHERE}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PLAYERS)
@pytest.mark.parametrize("kind", STREAMS)
def test_what_was_given_is_within_its_certificate(name, kind, everything):
    """Every setting on two of the streams, in time on one and late on the other, or on all in both ways.

    A class of one or two settings plays every stream, and every class every stream with some setting.
    """
    play, *configs = PLAYERS[name]
    few = len(configs) < 3
    for number, config in enumerate(configs):
        turn = (number + STREAMS.index(kind)) % len(STREAMS)
        if everything:
            delays = DELAYS
        elif few:
            delays = DELAYS[turn % 2 :][:1]
        else:
            delays = {0: DELAYS[:1], 2: DELAYS[1:]}.get(turn, ())
        for late in delays:
            play(kind, late, **config)


def test_rounds_with_one_and_two_labels_count_for_each_label_once_there_are_three():
    model, said = CalibratedClassifier(Growing()), dict.fromkeys("abc", 1.0)
    given = []
    for t, label in enumerate("abbaaba"):
        token = model.forecast({"answer": said, "t": t})
        model.observe(token, label)
        given.append((token.answer, label))
    # one label was known and the other came: 1, of the probability of the positive label
    (table,) = model._plan.strategies["binary"].projection("a").tables
    assert model.certificates == {}
    assert model.certificate == pytest.approx(1.0 + table.certificate)
    last = model.forecast({"answer": said, "t": 7})
    model.observe(last, "c")
    given.append((last.answer, "c"))
    # the third label was given 0, and what the negative one was given is as if that had come
    own = table.certificate
    assert model.certificates == pytest.approx({"a": 1.0 + own, "b": 1.0 + own + 1.0, "c": 1.0})
    assert model.certificate == pytest.approx(2.0 + 2.0 * own + 2.0) == sum(model.certificates.values())
    answers, labels = zip(*[pair for pair in given if pair[0]], strict=True)
    for label, least in least_over_labels(answers, labels).items():
        assert least <= model.certificates[label] + ROUNDING
