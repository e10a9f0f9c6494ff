#!/usr/bin/env bash
# netcal's MMCE of forecasts that are never wrong is 0.5, and of the same forecasts as two columns it is 0.
#
# Guess. `MMCE().measure(p, y)` takes, as its page says, a column of one event's probabilities or a table of classes.
# Forecasts of 0 and 1 that all come true have the error 0 in either form, and calibrated forecasts about 0.
#
# What happens (netcal 1.4.0, numpy 2.4.6, Python 3.11). A column is taken for confidence in the predicted class. A
# forecast of 0.1 is then a prediction of "no" in which one has the confidence 0.1, and which is right nine times
# in ten. So forecasts of 0 that never come true are as wrong as can be. Of four that are never wrong the error is
# 0.5. Calibrated forecasts of any chance have the error 0.21 as a column, and 0.01 as two. netcal's ECE reads the
# same column as one event.
#
# Why it matters here. onlinecal's forecasts of one event are columns. What netcal says of them in one measure is
# about another question than what it says in the next.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet netcal==1.4.0 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"

cat > columns.py <<'PYTHON'
"""The same forecasts as one column and as two."""

import warnings

import numpy as np

warnings.simplefilter("ignore")
from netcal.metrics import ECE, MMCE


def both(p, y):
    return float(MMCE().measure(p, y)), float(MMCE().measure(np.column_stack([1 - p, p]), y))


certain = np.array([0.0, 0.0, 1.0, 1.0])
rng = np.random.default_rng(0)
calibrated = rng.random(2000)
came = (rng.random(2000) < calibrated).astype(int)
never_wrong, drawn = both(certain, certain.astype(int)), both(calibrated, came)
print("never wrong, as one column and as two: {:.4f}, {:.4f}".format(*never_wrong))
print("calibrated, as one column and as two: {:.4f}, {:.4f}".format(*drawn))
print(f"ECE of the same columns: {ECE(10).measure(certain, certain.astype(int)):.4f}, {ECE(10).measure(calibrated, came):.4f}")

# right would be 0 and 0, and twice about 0.01
assert never_wrong == (0.5, 0.0)
assert drawn[0] > 0.2 and drawn[1] < 0.03
assert ECE(10).measure(certain, certain.astype(int)) < 1e-12
PYTHON
venv/bin/python columns.py
