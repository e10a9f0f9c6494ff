"""GroupCalibratedClassifier: every group is certified and stays within its guarantee, whatever the labels."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import GroupCalibratedClassifier, calibration_distance
from onlinecal.wrappers.groups import EVERYONE, AtomForecaster, SharedForecaster
from tests.estimators import learn
from tests.properties import examples
from tests.wrappers.scripted import Said, Scripted

DISJOINT = {f"g{i}": lambda x, i=i: x["g"] == i for i in range(4)}
OVERLAPPING = {"low": lambda x: x["a"] < 5, "even": lambda x: x["a"] % 2 == 0, "odd_b": lambda x: x["b"] % 2}


def features(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"p": float(p), "g": int(g), "a": int(a), "b": int(b)}
        for p, g, a, b in zip(rng.random(count), *rng.integers([4, 10, 10], size=(count, 3)).T, strict=True)
    ]


ADVERSARIES = {
    "threshold": lambda x, p, rng: p < 0.5,
    "group threshold": lambda x, p, rng: p < (1 + x["g"]) / 5,
    "groups at odds": lambda x, p, rng: (p < 0.5) != (x["a"] % 2 == 0 and x["b"] % 2 == 0),
    "flipped coin": lambda x, p, rng: rng.random() < 1 - x["p"],
}
against_each = pytest.mark.parametrize("adversary", ADVERSARIES.values(), ids=ADVERSARIES)
by_both = pytest.mark.parametrize("scheme", ["atoms", "shared"])


def play(model, rounds, adversary):
    """Features, forecast and label of every round."""
    rng, record = np.random.default_rng(9), []
    for x in rounds:
        p = model.predict_proba_one(x)[True]
        y = bool(adversary(x, p, rng))
        model.learn_one(x, y)
        record.append((x, p, y))
    return record


def history(record, belongs):
    return np.array([(p, y) for x, p, y in record if belongs(x)], float).reshape(-1, 2).T


@against_each
def test_disjoint_groups_stay_within_the_root_of_groups_times_rounds(adversary):
    count = 1200
    model = GroupCalibratedClassifier(Said(), DISJOINT, horizon=count)
    record = play(model, features(count), adversary)
    assert sum(model.rounds[name] for name in DISJOINT) == model.rounds[EVERYONE] == count
    assert model.certificate == pytest.approx(sum(model.certificates[name] for name in DISJOINT))
    assert model.certificate <= model.guarantee <= (4 * count) ** 0.5
    for name, belongs in DISJOINT.items():
        p, y = history(record, belongs)
        assert calibration_distance(p, y, budget=0.1).lower <= model.certificates[name] + 1e-9
        assert model.certificates[name] <= model.guarantees[name]


@against_each
@by_both
@pytest.mark.parametrize("settings", [{}, {"slack": 1.0, "report": "hint"}])
def test_without_a_horizon_the_guarantee_always_holds(adversary, scheme, settings):
    model = GroupCalibratedClassifier(Said(), OVERLAPPING, scheme=scheme, **settings)
    atoms, rounds = set(), features(1200, seed=1)
    for start in range(0, 1200, 100):
        play(model, rounds[start : start + 100], adversary)
        certificates, guarantees = model.certificates, model.guarantees
        assert certificates.keys() == guarantees.keys() == model.rounds.keys()
        assert all(certificates[name] <= guarantees[name] + 1e-9 for name in certificates)
        atoms |= {tuple(bool(f(x)) for f in OVERLAPPING.values()) for x in rounds[start : start + 100]}
        if scheme == "atoms" and not settings:
            assert model.guarantee <= (3 * len(atoms) * (start + 100)) ** 0.5 + 5 / 6 * len(atoms)


@against_each
def test_a_shared_table_stays_within_the_cube_root(adversary):
    count, k = 1200, 4
    model = GroupCalibratedClassifier(Said(), OVERLAPPING, scheme="shared", horizon=count)
    play(model, features(count), adversary)
    for name in (EVERYONE, *OVERLAPPING):
        assert model.certificates[name] <= model.guarantees[name] <= (k * count**2) ** (1 / 3)


def squares_of(forecaster):
    """The sum of all squared biases of a shared table."""
    return sum((b / forecaster.scale) ** 2 for one in forecaster.groups.values() for b in one.biases)


def allowed(forecaster):
    """What the guarantee says that this sum may be: all but the distance that is reserved."""
    reserved = forecaster.groups[EVERYONE].reserve
    biases = forecaster.accounts()[EVERYONE].guarantee - reserved
    return biases**2 / (forecaster.scale - 1)


MEMBERS = [("a",), ("a", "b"), ("b",), ("a", "b", "c"), ("c", "a"), (), ("b", "c"), ("a",)]


@pytest.mark.parametrize("members", [MEMBERS, pytest.param(MEMBERS * 2, marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("slack", [0.5, 1.0, 2.0])
def test_all_sequences_keep_the_squared_biases_of_a_shared_table_small(slack, members):
    for labels in product([0, 1], repeat=len(members)):
        forecaster = SharedForecaster(slack, "midpoint", 100, 3)
        for groups, y in zip(members, labels, strict=True):
            forecaster.settle(forecaster.ask(groups, 0.4), y)
        assert squares_of(forecaster) <= allowed(forecaster) + 1e-9
        overlap = sum(1 + len(groups) for groups in members)
        growth = slack**2 if slack <= 1.0 else 2.0 * slack - 1.0
        assert allowed(forecaster) == pytest.approx(growth * overlap)


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.5]), st.sampled_from([200, None]))
def test_late_labels_in_any_order(seed, slack, horizon):
    rng = np.random.default_rng(seed)
    for forecaster in (
        SharedForecaster(slack, "hint", horizon, 3),
        AtomForecaster(slack, "hint", horizon, 6),
    ):
        waiting, record = [], []
        for t in range(201):
            if t < 200:
                groups = tuple(name for name in "abc" if rng.random() < 0.5)
                waiting.append(forecaster.ask(groups, rng.random()))
            # fewer than are asked for, and the rest at once
            while waiting and (rng.random() < 0.4 or t == 200):
                ticket = waiting.pop(int(rng.integers(len(waiting))))
                y = int(ticket.probability < 0.5)
                forecaster.settle(ticket, y)
                record.append((ticket.members, ticket.probability, y))
        accounts = forecaster.accounts()
        if isinstance(forecaster, SharedForecaster):
            assert squares_of(forecaster) <= allowed(forecaster) + 1e-9
        for name, account in accounts.items():
            p, y = history(record, lambda members, name=name: name in (EVERYONE, *members))
            assert calibration_distance(p, y, budget=0.02).lower <= account.certificate + 1e-9
            if isinstance(forecaster, SharedForecaster):
                assert account.certificate <= account.guarantee + 1e-9


class Mute(Scripted):
    """Answers nothing, whatever the features are."""

    def predict_proba_one(self, x):
        return {}


def test_columns_missing_features_and_labels_of_any_kind():
    model = GroupCalibratedClassifier(Said(), ["colour", "size"])
    rounds = [({"p": 0.5, "colour": "red", "size": 1}, "spam"), ({"p": 0.5, "colour": None}, "ham")]
    answer = learn(model, [*rounds, *rounds, (rounds[0][0], "eggs"), rounds[0]])[-1]
    assert set(model.rounds) == {EVERYONE, "colour=red", "size=1", "colour=missing", "size=missing"}
    assert set(answer) == {"spam", "ham", "eggs"}
    assert sum(answer.values()) == pytest.approx(1.0)
    assert list(model.certified_proba_one(rounds[0][0])) == ["spam"]
    with pytest.raises(
        ValueError, match=r"x must be a dict of features, since groups are names of .* got list"
    ):
        GroupCalibratedClassifier(Mute(), ["colour"]).predict_proba_one([1])


@by_both
def test_it_repairs_a_group_that_the_model_gets_wrong(scheme):
    model = GroupCalibratedClassifier(Said(), ["g"], scheme=scheme, slack=1.0, report="hint")
    record = play(
        model,
        features(3000, seed=4),
        lambda x, p, rng: rng.random() < (1 - x["p"] if x["g"] == 2 else x["p"]),
    )
    late = [(x, p, y) for x, p, y in record[1000:] if x["g"] == 2]
    q, p, y = np.array([(x["p"], p, y) for x, p, y in late], float).T
    after = calibration_distance(p, y, budget=0.1, normalize=True).upper
    before = calibration_distance(q, y, budget=0.1, normalize=True).lower
    assert after < 0.4 * before
    assert np.mean((p - y) ** 2) < np.mean((q - y) ** 2) - 0.05


@by_both
def test_a_group_counts_from_its_first_forecast_on(scheme):
    model = GroupCalibratedClassifier(Said(), ["g"], scheme=scheme)
    model.predict_proba_one({"p": 0.7, "g": 2})
    assert model.rounds == {EVERYONE: 0, "g=2": 0}
    assert set(model.certificates) == set(model.guarantees) == set(model.rounds)


@by_both
def test_a_label_that_is_named_alone_is_forecast_and_certified_with_probability_1(scheme):
    model, x = GroupCalibratedClassifier(Said(), {"any": bool}, scheme=scheme), {"p": 0.5}
    model.classifier.predict_proba_one = lambda x: {"a": 1.0}
    model.learn_one(x, "a")
    assert model.predict_proba_one(x) == model.certified_proba_one(x) == {"a": 1.0}
