"""Keys recalibrated under the l_p error: they say what the river wrapper says, with a certificate."""

import numpy as np
import pytest

from onlinecal import LpCalibratedClassifier, lp_calibration_error
from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query
from tests.wrappers.scripted import Told
from tests.wrappers.test_batch_maps import stream, told


def events_of(table, labels, late):
    """Each forecast is settled after so many more were asked for."""
    events = []
    for i in range(len(table) + late):
        if i < len(table):
            events.append(Query(f"q{i}", "k", hint=told(table[i])))
        if i >= late:
            events.append(Outcome(f"q{i - late}", "abc"[labels[i - late]]))
    return events


def played(path, config, events, size):
    """The forecasts of batches of that size, with a fresh engine for each."""
    found = []
    for start in range(0, len(events), size):
        with Engine(path, EngineConfig(config)) as engine:
            found += engine.handle(events[start : start + size])
            summary = engine.summary("k")
    return [each for each in found if isinstance(each, Forecast)], summary


@pytest.mark.parametrize("given", [{}, {"fading": 0.99, "n_levels": 4, "within": "constant"}])
def test_a_key_says_what_the_wrapper_says(tmp_path, given):
    table, labels = stream(700)
    config = KeyConfig(kind="lp", classes=("a", "b", "c"), first_fit=50, **given)
    found, _ = played(tmp_path / "l", config, events_of(table, labels, 0), 701)
    model = LpCalibratedClassifier(Told(), **{"n_levels": 5, "within": "shift", "first_fit": 50, **given})
    for row, label, forecast in zip(table, labels.tolist(), found, strict=True):
        assert model.predict_proba_one(told(row)) == forecast.probability
        model.learn_one(told(row), "abc"[label])
    assert model.n_fits >= 4


def test_late_labels_restarts_and_the_certificate(tmp_path):
    table, labels = stream(600)
    events, config = events_of(table, labels, 7), KeyConfig(kind="lp", first_fit=40)
    found, summary = played(tmp_path / "whole", config, events, len(events))
    assert played(tmp_path / "parts", config, events, 173) == (found, summary)
    said = np.array([[forecast.probability.get(label, 0.0) for label in "abc"] for forecast in found])
    # before a class is known nothing is said of it: those rounds are level sets of their own
    early = int(np.argmax(said.sum(axis=1) > 0.0)) + 20
    exact = (600 - early) * lp_calibration_error(said[early:], labels[early:], 2, 5)
    assert exact - 2.0 * early <= summary.certificate <= exact + 2.0 * early
    assert summary.certificate <= summary.guarantee == pytest.approx(600 * 2**0.5)
    assert summary.certificate < 0.5 * 600 * lp_calibration_error(table, labels, 2, 5)
