"""l_p recalibration of real networks, half of the rows to fit, half to test, seed 0."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import LpRecalibrator, lp_calibration_error
from tests import DATA

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


def halves(name):
    file = DATA / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"the predictions of the network (shared/data/{name}.npz) are not here")
    found = np.load(file)
    table, labels = found["predictions"].astype(float), found["ground_truth"].ravel().astype(int)
    order = np.random.default_rng(0).permutation(len(labels))
    fit, test = np.split(order, [len(order) // 2])
    return table[fit], labels[fit], table[test], labels[test]


def brier(table, labels):
    return ((table - np.eye(table.shape[1])[labels]) ** 2).sum(axis=1).mean()


@pytest.mark.parametrize("within", ["shift", "constant"])
@pytest.mark.parametrize(
    ("name", "n_levels", "before", "at_most"),
    [
        ("wideresnet-16-4-cifar-10", 5, 0.0214, 0.010),
        ("lenet-5-cifar-10", 3, 0.0296, 0.018),
        ("densenet-bc-100-cifar-100", 2, 0.0184, 0.0184),
        ("densenet-bc-100-cifar-100", 5, 0.0145, 0.0145),
    ],
)
def test_the_error_on_the_test_half_falls(name, n_levels, before, at_most, within):
    """epsilon = 0.05: beta = 0.00125 for p = 2, so the tolerance is 0.000625."""
    table, labels, fresh, truth = halves(name)
    assert lp_calibration_error(fresh, truth, 2, n_levels) == pytest.approx(before, abs=1e-4)
    model = LpRecalibrator.as_in_paper(2, 0.05, n_levels=n_levels, within=within).fit(table, labels)
    mapped = model.predict_proba(fresh)
    assert lp_calibration_error(mapped, truth, 2, n_levels) <= at_most
    if within == "shift":
        assert brier(mapped, truth) < brier(fresh, truth)


def test_the_papers_coupling_finds_nothing_to_correct_on_a_good_network():
    table, labels, fresh, truth = halves("wideresnet-16-4-cifar-10")
    model = LpRecalibrator.as_in_paper(p=2, epsilon=0.1).fit(table, labels)
    assert model.n_levels_ == 200
    assert lp_calibration_error(fresh, truth, 2, 200) < 0.1
    assert model.n_rounds_ <= 10
