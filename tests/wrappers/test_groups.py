"""GroupCalibratedClassifier: every group is certified and stays within its guarantee, whatever the labels."""

import copy
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import GroupCalibratedClassifier, calibration_distance
from onlinecal.wrappers.groups import EVERYONE, AtomForecaster, SharedForecaster
from tests.properties import examples
from tests.wrappers.scripted import Said

DISJOINT = {f"g{i}": lambda x, i=i: x["g"] == i for i in range(4)}
OVERLAPPING = {"low": lambda x: x["a"] < 5, "even": lambda x: x["a"] % 2 == 0, "odd_b": lambda x: x["b"] % 2}


def features(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"p": float(p), "g": int(g), "a": int(a), "b": int(b)}
        for p, g, a, b in zip(rng.random(count), *rng.integers([4, 10, 10], size=(count, 3)).T, strict=True)
    ]


def threshold(x, p, rng):
    return p < 0.5


def group_threshold(x, p, rng):
    return p < (1 + x["g"]) / 5


def groups_at_odds(x, p, rng):
    return (p < 0.5) != (x["a"] % 2 == 0 and x["b"] % 2 == 0)


def flipped_coin(x, p, rng):
    return rng.random() < 1 - x["p"]


ADVERSARIES = [threshold, group_threshold, groups_at_odds, flipped_coin]


def play(model, rounds, adversary):
    """Features, forecast and label of every round."""
    rng, record = np.random.default_rng(9), []
    for x in rounds:
        p = model.forecasts_one(x)[True]
        y = bool(adversary(x, p, rng))
        model.learn_one(x, y)
        record.append((x, p, y))
    return record


def history(record, belongs):
    return np.array([(p, y) for x, p, y in record if belongs(x)], float).reshape(-1, 2).T


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_disjoint_groups_stay_within_the_root_of_groups_times_rounds(adversary):
    count = 3000
    model = GroupCalibratedClassifier(Said(), DISJOINT, horizon=count)
    record = play(model, features(count), adversary)
    assert sum(model.rounds[name] for name in DISJOINT) == model.rounds[EVERYONE] == count
    assert model.certificate == pytest.approx(sum(model.certificates[name] for name in DISJOINT))
    assert model.certificate <= model.guarantee <= (4 * count) ** 0.5
    for name, belongs in DISJOINT.items():
        p, y = history(record, belongs)
        assert calibration_distance(p, y, budget=0.1).lower <= model.certificates[name] + 1e-9
        assert model.certificates[name] <= model.guarantees[name]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("scheme", ["atoms", "shared"])
@pytest.mark.parametrize("settings", [{}, {"slack": 1.0, "report": "hint"}])
def test_without_a_horizon_the_guarantee_holds_at_every_moment(adversary, scheme, settings):
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


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_shared_table_stay_within_the_cube_root(adversary):
    count, k = 3000, 4
    model = GroupCalibratedClassifier(Said(), OVERLAPPING, scheme="shared", horizon=count)
    play(model, features(count), adversary)
    for name in (EVERYONE, *OVERLAPPING):
        assert model.certificates[name] <= model.guarantees[name] <= (k * count**2) ** (1 / 3)


@pytest.mark.parametrize("scheme", ["atoms", "shared"])
def test_the_greediest_adversary(scheme):
    """It tries both labels and takes the one that raises the summed certificates more."""
    model = GroupCalibratedClassifier(Said(), OVERLAPPING, scheme=scheme, horizon=150, n_atoms=8)
    forecaster, membership = model._forecaster, model._membership
    for x in features(150, seed=3):
        ticket = forecaster.ask(membership.of(x), x["p"])
        futures = [copy.deepcopy(forecaster) for _ in (0, 1)]
        for y in (0, 1):
            futures[y].settle(ticket, y)
        forecaster = max(futures, key=lambda one: sum(one.certificates().values()))
    guarantees = forecaster.guarantees()
    assert all(c <= guarantees[name] + 1e-9 for name, c in forecaster.certificates().items())


MEMBERS = [("a",), ("a", "b"), ("b",), ("a", "b", "c"), ("c", "a"), (), ("b", "c"), ("a",)]


@pytest.mark.parametrize("members", [MEMBERS, pytest.param(MEMBERS * 2, marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("slack", [0.5, 1.0, 2.0])
def test_all_sequences_keep_the_squared_biases_of_a_shared_table_small(slack, members):
    for labels in product([0, 1], repeat=len(members)):
        forecaster = SharedForecaster(slack, "midpoint", 100, 3)
        for groups, y in zip(members, labels, strict=True):
            forecaster.settle(forecaster.ask(groups, 0.4), y)
        squares = sum((b / forecaster.scale) ** 2 for table in forecaster._biases.values() for b in table)
        assert squares <= forecaster._square + 1e-9
        assert forecaster._square == pytest.approx(forecaster.growth * forecaster._overlap)


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.5]), st.booleans())
def test_late_labels_in_any_order(seed, slack, with_horizon):
    rng = np.random.default_rng(seed)
    horizon = 200 if with_horizon else None
    for forecaster in (
        SharedForecaster(slack, "hint", horizon, 3),
        AtomForecaster(slack, "hint", horizon, 6),
    ):
        waiting, record = [], []
        for _ in range(200):
            groups = tuple(name for name in "abc" if rng.random() < 0.5)
            waiting.append(forecaster.ask(groups, rng.random()))
            while waiting and rng.random() < 0.6:
                ticket = waiting.pop(int(rng.integers(len(waiting))))
                y = int(ticket.probability < 0.5)
                forecaster.settle(ticket, y)
                record.append((ticket, y))
        for name in "abc":
            inside = [(t.probability, y) for t, y in record if name in t.members]
            if inside:
                p, y = np.array(inside).T
                assert calibration_distance(p, y, budget=0.02).lower <= forecaster.certificates()[name] + 1e-9
        if isinstance(forecaster, SharedForecaster):
            guarantees = forecaster.guarantees()
            assert all(c <= guarantees[name] + 1e-9 for name, c in forecaster.certificates().items())


@pytest.mark.parametrize("scheme", ["atoms", "shared"])
def test_a_label_that_meets_no_other_open_forecast_costs_no_guarantee(scheme):
    late, at_once = (GroupCalibratedClassifier(Said(), ["a"], scheme=scheme) for _ in range(2))
    for x in features(60, seed=4):
        for model in (late, at_once):
            model.predict_proba_one(x)
        late.learn_one(dict(x), x["p"] < 0.5)
        at_once.learn_one(x, x["p"] < 0.5)
    assert late.guarantees == at_once.guarantees


def test_columns_and_missing_features():
    model = GroupCalibratedClassifier(Said(), ["colour", "size"])
    for x in ({"p": 0.5, "colour": "red", "size": 1}, {"p": 0.5, "colour": None}):
        model.predict_proba_one(x)
        model.learn_one(x, True)
    assert set(model.rounds) == {EVERYONE, "colour=red", "size=1", "colour=missing", "size=missing"}


@pytest.mark.parametrize("scheme", ["atoms", "shared"])
def test_it_repairs_a_group_that_the_model_gets_wrong(scheme):
    rng = np.random.default_rng(4)
    model = GroupCalibratedClassifier(Said(), ["g"], scheme=scheme, slack=1.0, report="hint")
    record, raw = [], []
    for x in features(6000, seed=4):
        y = bool(rng.random() < (1 - x["p"] if x["g"] == 2 else x["p"]))
        p = model.predict_proba_one(x)[True]
        model.learn_one(x, y)
        record.append((x, p, y))
        raw.append((x, x["p"], y))
    p, y = history(record[2000:], lambda x: x["g"] == 2)
    q, _ = history(raw[2000:], lambda x: x["g"] == 2)
    after = calibration_distance(p, y, budget=0.1, normalize=True).upper
    before = calibration_distance(q, y, budget=0.1, normalize=True).lower
    assert after < 0.4 * before
    assert np.mean((p - y) ** 2) < np.mean((q - y) ** 2) - 0.05


def test_strings_for_labels():
    model = GroupCalibratedClassifier(Said(), ["a"])
    x = {"p": 0.5, "a": 1}
    for label in ("spam", "ham", "spam", "eggs"):
        model.learn_one(x, label)
    answer = model.predict_proba_one(x)
    assert set(answer) == {"spam", "ham", "eggs"}
    assert sum(answer.values()) == pytest.approx(1.0)
    assert list(model.forecasts_one(x)) == ["spam"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": []}, "groups is empty"),
        ({"groups": 3}, "groups must be names and functions, or a list of columns, got 3"),
        ({"groups": {"a": 3}}, "groups must map names to functions, got 'a': 3"),
        ({"groups": {EVERYONE: bool}}, "groups must map names to functions, got 'everyone'"),
        ({"groups": ["a"], "scheme": "x"}, "scheme must be one of atoms, shared, got 'x'"),
        ({"groups": ["a"], "report": "x"}, "report must be one of .* got 'x'"),
        ({"groups": ["a"], "slack": 0.1}, "slack must be a number from 0.5"),
        ({"groups": ["a"], "horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"groups": ["a"], "horizon": 9}, "n_atoms is needed beside a horizon"),
        ({"groups": ["a"], "n_atoms": 1.5}, "n_atoms must be a whole number of at least 1, got 1.5"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        GroupCalibratedClassifier(Said(), **settings)
