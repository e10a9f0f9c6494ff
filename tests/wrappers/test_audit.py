"""Every wrapper with a certificate, on thousands of short streams, against exactly what its user was given.

The classes are found: whatever is public, wraps classifiers and has a certificate. Each plays labels of many
kinds around models that name all labels, those they have learnt, some of them, at times none, False and True
instead, or the labels' texts. Labels come in time, late, in any order, or never. No distance is an estimate.
"""

import inspect
import itertools
import random
from collections import defaultdict
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from onlinecal import CombinedClassifier, calibration_distance
from onlinecal.wrappers.groups import SCHEMES
from onlinecal.wrappers.strategies.choice import STRATEGIES
from tests.estimators import public_estimators
from tests.wrappers.scripted import Scripted

ROUNDING = 1e-9
CHOICES = {"strategy": STRATEGIES, "scheme": SCHEMES}
"""Parameters all of whose values are played."""
KINDS = {
    "bool": (False, True),
    "0/1": (0, 1),
    "-1/1": (-1, 1),
    "1/2": (1, 2),
    "0/2": (0, 2),
    "0/5": (0, 5),
    "floats": (-1.0, 1.0),
    "np.int64": (np.int64(1), np.int64(2)),
    "np.str_": (np.str_("no"), np.str_("yes")),
    "texts": ("spam", "ham"),
    "texts of bool": ("False", "True"),
    "mixed": (1, "one"),
    "-1/0": (-1, 0),
    "decimals": (Decimal(-1), Decimal(1)),
    "dates": (date(2026, 1, 1), date(2026, 1, 2)),
    "0/1/2": (0, 1, 2),
    "1/2/3": (1, 2, 3),
    "-1/0/1": (-1, 0, 1),
    "three texts": ("a", "b", "c"),
}
STYLES = "all", "learnt", "some", "none", "sides", "texts"


class Model(Scripted):
    """Answers with what the features carry, in a style: what it calls the labels, and which it names."""

    def __init__(self, style):
        self.style, self.learnt = style, []

    def learn_one(self, x, y):
        self.learnt.append(y)

    def predict_proba_one(self, x):
        said, some = dict(x["said"]), x["some"]
        labels = [*said]
        if self.style == "sides":
            return {False: 1.0 - said[labels[-1]], True: said[labels[-1]]}
        if self.style == "learnt":
            labels = [label for label in labels if label in self.learnt]
        elif self.style == "some":
            labels = labels[some % 2 : 1 + some % len(labels)] or labels
        elif self.style == "none":
            labels = labels if some % 3 else []
        total = sum(said[label] for label in labels)
        return {str(one) if self.style == "texts" else one: said[one] / total for one in labels}


def audited():
    """The public wrappers of classifiers with a certificate, each in all its ways."""
    for kind in public_estimators():
        parameters = inspect.signature(kind).parameters
        if hasattr(kind, "certificate") and {"classifier", "classifiers"} & parameters.keys():
            ways = [{name: way} for name, values in CHOICES.items() if name in parameters for way in values]
            for way in ways or [{}]:
                yield pytest.param(kind, way, id="-".join([kind.__name__, *way.values()]))


def built(kind, way, style):
    """A wrapper around models of a style."""
    settings = next(iter(kind._unit_test_params()))
    inside = {"classifier": Model(style), "classifiers": [Model(style), Model("learnt")]}
    return kind(**{name: inside.get(name, value) for name, value in settings.items()}, **way)


def streamed(model, labels, draw):
    """Play a short stream: (answer, what was forecast, label) of the settled rounds, in that order."""
    record, waiting, numbers = [], [], {}
    lateness, order = draw.choice([0, 0, 1, 3, 12]), draw.choice(["queue", "any"])
    chances = [draw.random() + 0.02 for _ in labels]
    for t in range(draw.choice([4, 8, 14])):
        masses = [draw.choice([0.05, 0.5, 1.0]) * draw.random() + 1e-3 for _ in labels]
        said = tuple((label, mass / sum(masses)) for label, mass in zip(labels, masses, strict=True))
        x, label = {"said": said, "some": draw.randrange(12), "t": t}, draw.choices(labels, chances)[0]
        if draw.random() < 0.1:
            model.warm_up(x, label)
            continue
        answer, forecasts = model.predict_proba_one(x), model.certified_proba_one(x)
        number(numbers, answer)
        waiting.append((x, answer, {node_of(one, numbers): p for one, p in forecasts.items()}, label))
        while len(waiting) > lateness:
            record.append(waiting.pop(0 if order == "queue" else draw.randrange(len(waiting))))
            settle(model, record[-1], numbers)
    if draw.random() < 0.8:
        for one in waiting:
            record.append(one)
            settle(model, one, numbers)
    return [one[1:] for one in record if one[1]]


def settle(model, waiting, numbers):
    """Give the label of a round; one that its answer did not name has a number from now on, too."""
    x, answer, _, label = waiting
    model.learn_one(x, label)
    number(numbers, [*answer, label] if len(answer) > 1 else ())


def number(numbers, labels):
    """Number the labels of an answer over several in the order in which they come up, as "tree" does."""
    for label in labels if len(labels) > 1 else ():
        numbers.setdefault(label, len(numbers))


def node_of(event, numbers):
    """An event itself; of two halves of the labels also the place of their node in the tree."""
    if not isinstance(event, tuple):
        return event
    first, second = (numbers[half[0]] for half in event)
    depth = (first ^ second) & -(first ^ second)
    return depth, first % depth, event


def exact(pairs):
    """The distance to calibration of pairs (probability, whether it came true)."""
    p, y = np.array(pairs, dtype=float).reshape(-1, 2).T
    return calibration_distance(p, y).upper if len(p) else 0.0


def of_events(record):
    """The distance of what was forecast; what is forecast given one of two halves counts where that came."""
    parts = defaultdict(list)
    for _, forecasts, label in record:
        for event, p in forecasts.items():
            if not isinstance(event, tuple):
                parts[None].append((p, event == label))
                continue
            *node, (first, second) = event
            if label in first + second:
                parts[tuple(node)].append((p, label in second))
    return sum(map(exact, parts.values()))


def of_label(record, label):
    """The distance of one label's probabilities; an answer that leaves it out gave it 0."""
    return exact([(answer.get(label, 0.0), label == came) for answer, _, came in record])


def over_labels(record):
    """By label, the distance of its probabilities."""
    labels = {label for answer, _, came in record for label in [*answer, came]}
    return {label: of_label(record, label) for label in labels}


def audit(model, record, labels):
    """Hold a wrapper's numbers against what its user was given."""
    assert model.n_rounds == len(record)
    assert model.certificate <= model.guarantee + ROUNDING
    strategy = getattr(model, "current_strategy", "binary")
    if strategy in ("classwise", "simplex"):
        by_label = over_labels(record)
        assert sum(by_label.values()) <= model.certificate + ROUNDING
        for label, distance in by_label.items() if model.certificates else ():
            assert distance <= model.certificates.get(label, 0.0) + ROUNDING
        return
    assert of_events(record) <= model.certificate + ROUNDING
    if strategy == "binary" and len(labels) == 2 and record:
        # in all answers, whatever was known of the labels then
        ((positive, _),) = model.certified_proba_one(
            {"said": tuple((label, 0.5) for label in labels), "some": 1, "t": -1}
        ).items()
        assert of_label(record, positive) <= model.certificate + ROUNDING


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "way"), [*audited()])
def test_certificates_hold_for_exactly_what_was_given(kind, way, many):
    for (name, labels), style, seed in itertools.product(KINDS.items(), STYLES, range(60 if many else 1)):
        model, stream = built(kind, way, style), f"labels {name}, model {style}, seed {seed}"
        if isinstance(model, CombinedClassifier) and len(labels) > 2:
            continue  # a third label is refused
        record = streamed(model, labels, random.Random(stream))
        try:
            audit(model, record, labels)
        except AssertionError as error:
            raise AssertionError(f"{stream}: {error}") from error
