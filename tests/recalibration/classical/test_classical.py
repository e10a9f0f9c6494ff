from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV

from onlinecal.recalibration import DirichletCalibration, TemperatureScaling, TopLabelIsotonic
from onlinecal.recalibration.classical.dirichlet import penalised_loss


def source(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(4), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    table = truth**2.5
    return table / table.sum(axis=1, keepdims=True), labels


class Told(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities."""

    classes_ = np.arange(4)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)

    def __sklearn_is_fitted__(self):
        return True


def test_temperature_scaling_is_that_of_scikit_learn():
    table, labels = source()
    frozen = pytest.importorskip("sklearn.frozen").FrozenEstimator(Told())
    theirs = CalibratedClassifierCV(frozen, method="temperature")
    try:
        theirs.fit(table, labels)
    except ValueError:
        pytest.skip("this scikit-learn has no temperature scaling")
    ours = TemperatureScaling().fit(table, labels)
    assert ours.inverse_temperature_ == pytest.approx(0.4, abs=0.03)
    assert np.abs(ours.predict_proba(table) - theirs.predict_proba(table)).max() < 1e-6


def test_temperature_scaling_needs_no_label_of_every_class_and_takes_certain_rows():
    model = TemperatureScaling().fit([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]], [0, 0, 1])
    assert np.isfinite(model.predict_proba([[0.0, 0.0, 1.0]])).all()


def test_the_gradient_of_dirichlet_calibration_is_that_of_finite_differences():
    rng = np.random.default_rng(1)
    table, labels = source(40)
    logs, at = np.log(table + 1e-12), rng.standard_normal((4, 5))
    _, slope = penalised_loss(at, logs, labels, 0.3, 0.2)
    for place in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[place] = 1e-6
        up, down = (penalised_loss(at + sign * step, logs, labels, 0.3, 0.2)[0] for sign in (1, -1))
        assert slope[place] == pytest.approx((up - down) / 2e-6, abs=1e-5)


def test_dirichlet_calibration_finds_the_map_that_spoilt_the_truth():
    table, labels = source(20_000)
    model = DirichletCalibration(0.0, 0.0).fit(table, labels)
    # probabilities are truth^2.5 up to a factor per row, so W = 0.4 I up to a constant row
    found = model.coef_ - model.coef_.mean(axis=0)
    assert np.abs(found - 0.4 * (np.eye(4) - 0.25)).max() < 0.05
    tied = DirichletCalibration(1e4, 1e4).fit(table, labels)
    assert np.abs(tied.coef_ - np.diag(np.diag(tied.coef_))).max() < 1e-3
    with pytest.raises(ValueError, match="off_diagonal must be a number of at least 0, got -1"):
        DirichletCalibration(-1).fit(table, labels)


def test_top_label_isotonic_calibrates_the_confidence_and_keeps_the_others_proportions_below_it():
    table, labels = source()
    model = TopLabelIsotonic().fit(table, labels)
    top, rows = table.argmax(axis=1), np.arange(len(table))
    mapped = model.predict_proba(table)
    confidence, right = mapped[rows, top], top == labels
    for value in np.unique(confidence):
        share = right[confidence == value].mean()
        # never quite sure: 1500 rows
        assert np.clip(share, 1 / 1501, 1500 / 1501) == pytest.approx(value)
    second = table.argsort(axis=1)[:, -2:-3:-1].ravel()
    third = table.argsort(axis=1)[:, -3:-4:-1].ravel()
    full = mapped[rows, second] == np.nextafter(confidence, 0.0)
    assert 0.0 < full.mean() < 0.5
    kept = mapped[rows, second] * table[rows, third], mapped[rows, third] * table[rows, second]
    assert np.allclose(kept[0][~full], kept[1][~full])
    assert np.allclose(model.predict_proba([[1.0, 0.0, 0.0, 0.0]]).sum(), 1.0)


@pytest.mark.parametrize("kind", [TemperatureScaling, DirichletCalibration, TopLabelIsotonic])
def test_baselines_know_labels_by_name(kind):
    table, labels = source(300)
    names = ["ant", "bee", "cow", "dog"]
    model = kind(classes=names).fit(table, np.array(names)[labels])
    assert set(model.predict(table)) <= set(names)
    assert np.allclose(model.predict_proba(table).sum(axis=1), 1)
