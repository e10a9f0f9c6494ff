"""A row of weight w counts as w rows, in everything that is fitted to tables of probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import DecisionRecalibrator, LpRecalibrator
from onlinecal.recalibration import (
    BetaCalibration,
    DirichletCalibration,
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
    VectorScaling,
)
from tests.recalibration.test_starting import source

MODELS = {
    "temperature": TemperatureScaling(),
    "vector": VectorScaling(),
    "Dirichlet": DirichletCalibration(),
    "isotonic": PerClassIsotonic(),
    "top label": TopLabelIsotonic(),
    "beta": BetaCalibration(),
    "lp": LpRecalibrator(start="temperature", share=1.0),
    "lp, constant": LpRecalibrator.as_in_paper(n_levels=3, tolerance=0.01),
    "decision, as in the paper": DecisionRecalibrator.as_in_paper(2, 0.02, partition="hard", max_rounds=1),
    "decision, soft": DecisionRecalibrator.as_in_paper(2, 0.02, max_rounds=2),
    "decision, given losses": DecisionRecalibrator.as_in_paper(losses=1.0 - np.eye(4), max_rounds=3),
}
CHOSEN = {"lp, folds": LpRecalibrator(), "decision, folds": DecisionRecalibrator(2, max_rounds=2, n_folds=2)}

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


@pytest.mark.parametrize("name", MODELS)
def test_whole_weights_are_repeated_rows(name):
    table, labels = source(150)
    weights = np.random.default_rng(0).integers(0, 4, 150)
    repeated = MODELS[name].fit(np.repeat(table, weights, axis=0), np.repeat(labels, weights))
    expected = repeated.predict_proba(table)
    # scipy's optimiser ends near its minimum, not at it
    close = 1e-3 if name in ("vector", "Dirichlet", "beta") else 1e-7
    weighted = MODELS[name].fit(table, labels, weights).predict_proba(table)
    assert np.abs(weighted - expected).max() < close
    unweighted = MODELS[name].fit(table, labels).predict_proba(table)
    assert np.abs(unweighted - expected).max() > close


@pytest.mark.parametrize("name", [*MODELS, *CHOSEN])
def test_weights_of_1_are_none_and_rows_of_weight_0_are_left_out(name):
    table, labels = source(150)
    model = (MODELS | CHOSEN)[name]
    plain = model.fit(table[:100], labels[:100]).predict_proba(table)
    ones = np.repeat([1.0, 0.0], [100, 50])
    assert np.abs(model.fit(table, labels, ones).predict_proba(table) - plain).max() < 1e-6


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], r"sample_weight must be at least 0 and finite, got -1\.0 at row 1"),
        ([1.0, np.nan, 1.0], "sample_weight must be at least 0 and finite, got nan at row 1"),
        ([1.0, 1.0], "sample_weight must have a weight for each of 3 rows, got 2"),
        ([0, 0, 0], "sample_weight must be positive for some row, got 0 for all"),
        (["a", "b", "c"], "sample_weight must be numbers, got 'a'"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        TemperatureScaling().fit(np.full((3, 2), 0.5), [0, 1, 1], weights)
