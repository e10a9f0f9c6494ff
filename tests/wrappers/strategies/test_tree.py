"""The tree of halves, what auto is with a horizon, and the joint strategy with all classes named."""

import math
from collections import deque

import numpy as np
import pytest

from onlinecal import (
    CalibratedClassifier,
    GuaranteeWarning,
    SimplexAlmostOneStepAhead,
    calibration_distance,
    recalibrate_stream,
)
from onlinecal.wrappers.strategies.tree import halves_of
from tests.wrappers.scripted import Scripted, by_node, played

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def stream(k, rounds, seed=0, drift=False):
    """Answers over k letters, and labels drawn with those chances, or with others if they drift."""
    rng = np.random.default_rng(seed)
    for t in range(rounds):
        shares = rng.dirichlet(np.full(k, 0.5))
        truth = rng.dirichlet(np.full(k, 0.5)) if drift else shares
        answer = tuple(zip(LETTERS[:k], shares.tolist(), strict=True))
        yield {"answer": answer, "t": t}, LETTERS[rng.choice(k, p=truth)]


def test_a_tree_is_as_flat_as_it_can_be():
    trees = {k: halves_of(tuple(range(k)), {label: label for label in range(k)}) for k in range(2, 42)}
    for k, tree in trees.items():
        assert len(tree) == k - 1
        assert max(node.depth for node in tree) + 1 == (k - 1).bit_length()
        first, second = tree[0, 0]
        assert sorted(first + second) == list(range(k))
        # a node of one more label, and the others as they were
        assert k == 41 or set(tree) < set(trees[k + 1])


def node_distances(record):
    """A proven lower end of the distance of each node."""
    nodes = by_node(one[1:] for one in record)
    return [calibration_distance(p, y, budget=0.1).lower for p, y in nodes.values()]


@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("k", [3, 11])
def test_each_node_is_calibrated_on_the_rounds_below_it_and_all_within_the_bound(k, drift):
    rounds = 300
    model = CalibratedClassifier(Scripted(), strategy="tree", classes=list(LETTERS[:k]))
    record = played(model, list(stream(k, rounds, k, drift)))
    for answer, forecasts, _ in record:
        assert sum(answer.values()) == pytest.approx(1.0)
        for (first, second), p in forecasts.items():
            weight = sum(answer[label] for label in second)
            assert weight == pytest.approx(p * (weight + sum(answer[label] for label in first)))
    distances = node_distances(record)
    assert len(distances) == k - 1
    assert sum(distances) <= model.certificate <= model.guarantee
    widths = [min(1 << d, k - (1 << d)) for d in range((k - 1).bit_length())]
    # 2 sqrt(3 c t) a node, at the default c = 3/2
    assert model.guarantee <= 2 * math.sqrt(4.5 * rounds) * sum(map(math.sqrt, widths))
    assert model.guarantee <= 2 * math.sqrt(4.5 * rounds) * (1 + math.sqrt(2)) * math.sqrt(k)


@pytest.mark.parametrize("late", [0, 7])
def test_labels_that_appear_late_cost_one_each_and_are_certified(late):
    """A new label's round counts at the nodes whose halves were named, and as a surprise where it splits."""
    model = CalibratedClassifier(Scripted(), strategy="tree")
    rounds = []
    for k in (2, 3, 5, 9):
        rounds += [({**x, "t": (k, x["t"])}, y) for x, y in stream(k, 80, k)]
    # the model never names it
    rounds += [({**x, "t": (t, x["t"])}, "new") for t, (x, _) in enumerate(stream(9, 5))]
    record = played(model, rounds, late)
    (tree,) = (one for one in model._plan.strategies.values() if one.projections)
    assert tree.name == "tree" == model.current_strategy
    assert list(tree.numbers) == [*LETTERS[:9], "new"]
    # until its label has come once
    surprises = [one.certificate - sum(table.certificate for table in one.tables) for one in tree.bounded()]
    assert sum(surprises) == pytest.approx(min(late + 1, 5))
    assert set(record[-1].answer) == {*LETTERS[:9]} | ({"new"} if late < 4 else set())
    assert sum(node_distances(record)) <= model.certificate <= model.guarantee


@pytest.mark.parametrize("late", [0, 4])
def test_every_window_is_certified_node_by_node(late):
    window, waiting, settled = 30, deque(), []
    model = CalibratedClassifier(Scripted(), strategy="tree", window=window)
    for t, (x, y) in enumerate(stream(4, 250)):
        model.predict_proba_one(x)
        waiting.append((x, y, model.certified_proba_one(x)))
        if t >= late:
            x, y, forecasts = waiting.popleft()
            model.learn_one(x, y)
            settled.append((forecasts, y))
            nodes = by_node(settled[-window:]).values()
            due = sum(calibration_distance(*node, method="exact").exact for node in nodes)
            assert due <= model.window_certificate + 1e-6
            assert model.window_certificate <= model.window_guarantee + 1e-6


def test_an_empty_joint_guarantee_is_remarked_on_when_there_are_too_many_labels():
    model = CalibratedClassifier(Scripted(), strategy="simplex", horizon=200)
    for t, label in enumerate("ab"):
        model.learn_one({"answer": {}, "t": t}, label)
    with pytest.warns(GuaranteeWarning, match="200 rounds of 3 classes the guarantee for all") as caught:
        model.learn_one({"answer": {}, "t": 2}, "c")
    assert [one.filename for one in caught] == [__file__]


@pytest.mark.filterwarnings("ignore:the recalibrated probabilities:onlinecal.LabelWarning")
@pytest.mark.parametrize(("strategy", "said"), [("auto", 0), ("classwise", 0), ("simplex", 1)])
def test_an_empty_guarantee_is_remarked_on_once_where_it_was_asked_for(strategy, said, recwarn):
    CalibratedClassifier(Scripted(), strategy=strategy, horizon=200, classes=list(LETTERS[:10]))
    recalibrate_stream(np.full((20, 10), 0.1), [0, 1] * 10, strategy=strategy, horizon=200)
    SimplexAlmostOneStepAhead(10, horizon=50_000)
    SimplexAlmostOneStepAhead(10)
    found = [one.filename for one in recwarn if one.category is GuaranteeWarning]
    assert found == [__file__] * 2 * said
