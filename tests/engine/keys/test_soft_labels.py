"""Soft labels as outcomes of keys, all through the engine, and refused where they cannot be."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    Match,
    Outcome,
    Query,
    Rejected,
    Settled,
    check_ledger,
    repair_ledger,
)
from onlinecal.forecasters.simplex.machine import memory

LABELS = ("a", "b", "c")


CONFIG = EngineConfig(
    KeyConfig(kind="simplex", lanes=2),
    (Match("sky", KeyConfig(kind="simplex", classes=LABELS)), Match("lp", KeyConfig(kind="lp"))),
)


def test_a_label_that_reads_like_a_soft_one_is_a_label(tmp_path):
    text, soft = '{"a": 0.5, "b": 0.5}', {"a": 0.5, "b": 0.5}
    with Engine(tmp_path / "ledger", EngineConfig(KeyConfig(kind="simplex"))) as engine:
        engine.handle([Query("q", "k"), Outcome("q", text), Query("r", "k"), Outcome("r", soft)])
    with Engine(tmp_path / "ledger") as engine:
        again = engine.handle(
            [Outcome("q", text), Outcome("r", soft), Outcome("q", soft), Outcome("r", text)]
        )
        assert [type(one) for one in again] == [Settled, Settled, Rejected, Rejected]
        [told] = engine.handle([Query("s", "k")])
        assert list(told.probability) == [text, "a", "b"]
    with closing(sqlite3.connect(tmp_path / "ledger")) as connection:
        connection.execute("UPDATE closings SET value = x'7B22' WHERE typeof(value) = 'blob'")
        connection.commit()
    repaired = repair_ledger(tmp_path / "ledger", tmp_path / "again")
    assert ["makes no sense" in one for one in repaired.lost] == [True]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "value must be a class label, or an object of probabilities, got {}"),
        ({"a": 0.5}, "value must be numbers in [0, 1] that sum to 1, got [0.5]"),
        ({"a": 1.5, "b": -0.5}, "value must be numbers in [0, 1] that sum to 1, got [1.5, -0.5]"),
        ({"a": float("nan"), "b": 1.0}, "value must be numbers in [0, 1] that sum to 1, got [nan, 1.0]"),
        ({"a": "1"}, "value must be numbers in [0, 1], got ['1']"),
        ({"d": 0.0, "a": 1.0}, "the labels of value must be one of the classes ['a', 'b', 'c'], got 'd'"),
        ({"": 1.0}, "the labels of value must be a class label, a text"),
        ({7: 1.0}, "the labels of value must be a class label, a text"),
        ([0.5, 0.5, 0.0], "value must be a class label, a text"),
    ],
)
def test_what_is_no_soft_label_is_refused_and_leaves_no_trace(value, why):
    with Engine(None, CONFIG) as engine:
        engine.handle([Query("q", "sky")])
        [refused] = engine.handle([Outcome("q", value)])
        assert refused.reason == "invalid"
        assert refused.detail.startswith(why)
        [settled] = engine.handle([Outcome("q", {"a": np.float64(0.25), "b": 0.75})])
        assert isinstance(settled, Settled)


def test_kinds_without_soft_labels_say_so():
    with Engine(None, EngineConfig(KeyConfig(), CONFIG.matches)) as engine:
        engine.handle([Query("q", "lp"), Query("r", "binary")])
        of_lp, of_binary = engine.handle([Outcome("q", {"a": 1.0}), Outcome("r", {"0": 0.5, "1": 0.5})])
    assert "kind 'lp', whose errors speak of labels (kind 'simplex' takes soft ones)" in of_lp.detail
    assert of_binary.detail.startswith("value must be")


def test_a_grid_too_fine_for_soft_labels_refuses_them_and_takes_classes():
    labels = tuple(f"c{i}" for i in range(40))
    config = EngineConfig(KeyConfig(kind="simplex", classes=labels, n_cells=1 << 17))
    with Engine(None, config) as engine:
        [_, refused] = engine.handle([Query("q", "k"), Outcome("q", {"c0": 0.5, "c1": 0.5})])
        assert "too fine for soft labels over 40 classes" in refused.detail
        assert engine.handle([Outcome("q", "c0")]) == [Settled("q")]


@pytest.fixture
def bears_three(monkeypatch):
    """Integers that bear three classes on any grid: to find the true limits takes hundreds of classes."""
    monkeypatch.setattr(memory, "most_late", lambda k, scale, *settings: 1000 if k <= 3 else -1)


@pytest.mark.parametrize("most", [1, 3, 200])
def test_a_class_that_the_integers_do_not_bear_is_refused_and_the_key_goes_on(tmp_path, bears_three, most):
    given = [one for i in range(5) for one in (Query(f"q{i}", "k"), Outcome(f"q{i}", f"l{i}"))]
    given += [Query("soft", "k"), Outcome("soft", {"l0": 0.5, "l9": 0.5}), Outcome("soft", "l2")]
    with Engine(tmp_path / "ledger", EngineConfig(KeyConfig(kind="simplex"))) as engine:
        told = [one for i in range(0, len(given), most) for one in engine.handle(given[i : i + most])]
    refused = [one for one in told if isinstance(one, Rejected)]
    assert [one.id for one in refused] == ["q3", "q4", "soft"]
    assert all("4 classes are more than its integers bear on a grid of" in one.detail for one in refused)
    assert told[-1] == Settled("soft")
    check_ledger(tmp_path / "ledger")


def test_a_forecaster_that_cannot_bear_a_class_is_as_it_was(bears_three):
    forecaster = SimplexAlmostOneStepAhead()
    for label in "abc":
        forecaster.learn_one({}, label)
    before = forecaster.predict_proba_one({}), forecaster.certificate, forecaster.guarantee
    for outcome in ("d", {"d": 0.5, "a": 0.5}):
        with pytest.raises(ValueError, match="4 classes are more than its integers bear"):
            forecaster.learn_one({}, outcome)
        assert before == (forecaster.predict_proba_one({}), forecaster.certificate, forecaster.guarantee)
        assert forecaster.classes == ["a", "b", "c"]
