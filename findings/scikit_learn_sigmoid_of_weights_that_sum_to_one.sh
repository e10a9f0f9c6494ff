#!/usr/bin/env bash
# scikit-learn's sigmoid calibration: with weights that sum to 1, forecasts of 0.1 and 0.9 become 0.41 and 0.59.
#
# Guess. Weights say how much a row counts beside the others. If all are equal, they change nothing, whether they are
# 1 each or sum to 1, as after `weights / weights.sum()`.
#
# What happens (scikit-learn 1.9.1, numpy 2.4.6, Python 3.11). Platt's method fits to targets a little inside of 0 and
# 1, and how little it takes from the number of rows with each label. With weights, their sums stand for these
# numbers. Nine hundred rows that are calibrated exactly, with weights that sum to 1, are taken for half a row with
# each label, so the targets are 0.4 and 0.6, and the map pulls what was right into the middle. With equal weights that
# sum to 20, 0.9 still becomes 0.84. "isotonic" and "temperature" give the same forecasts whatever the sum is.
#
# Why it matters here. On streams one refits with weights that fade with age: powers of 0.95 sum to 20, and many are made
# to sum to 1. onlinecal's docs put its recalibrators beside this one. Forecasts by "sigmoid" are timid then for a
# reason that is not in the stream.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > weights.py <<'PYTHON'
"""A hundred rows each of nine forecasts, in which the event came as often as forecast, with equal weights."""

import warnings

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

warnings.simplefilter("ignore")  # that the model itself is fitted already, and takes no weights
chances = np.arange(1, 10) / 10
forecasts = np.repeat(chances, 100)
came = np.concatenate([np.arange(100) < 10 * tenths for tenths in range(1, 10)]).astype(int)
features = np.log(forecasts / (1 - forecasts))[:, None]
model = FrozenEstimator(LogisticRegression(C=1e9).fit(features, came))
before = model.predict_proba(features[::100])[:, 1]


def calibrated(method, total):
    weights = np.full(900, total / 900)
    fitted = CalibratedClassifierCV(model, method=method).fit(features, came, sample_weight=weights)
    return fitted.predict_proba(features[::100])[:, 1]


found = {
    method: {total: calibrated(method, total) for total in (900, 20, 1)}
    for method in ("sigmoid", "isotonic", "temperature")
}
for method, by_total in found.items():
    for total, after in by_total.items():
        ends = f"{after[0]:.2f}, {after[4]:.2f} and {after[8]:.2f}"
        print(f"{method}, weights sum to {total}: 0.1, 0.5 and 0.9 become {ends}")

assert np.allclose(before, chances, atol=1e-3)
for method in ("isotonic", "temperature"):
    assert all(np.allclose(after, chances, atol=2e-3) for after in found[method].values())
assert np.allclose(found["sigmoid"][900], chances, atol=3e-3)
# right would be the same for 20 and 1
assert np.allclose(found["sigmoid"][20][[0, 4, 8]], [0.157, 0.5, 0.843], atol=2e-3)
assert np.allclose(found["sigmoid"][1][[0, 4, 8]], [0.414, 0.5, 0.586], atol=2e-3)
PYTHON
venv/bin/python weights.py
