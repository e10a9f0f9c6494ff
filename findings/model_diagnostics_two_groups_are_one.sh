#!/usr/bin/env bash
# model-diagnostics: of groups 0 and 1 written as numbers the bias is that of both together, and nothing says so.
#
# Guess. `compute_bias(y_obs, y_pred, feature)` groups rows by the values of a feature. With two values there are two
# lines, as with two texts; at most a numeric feature of many values is cut into bins, ten by default.
#
# What happens (model-diagnostics 1.5.0, polars 2.1.0, Python 3.11). Numbers are cut at quantiles. Those of a column of
# zeros and ones are 0 and 1, so that it is one bin, named 0.5. A model that is 0.3 too low for one group and 0.3
# too high for the other has the bias 0 with the p-value 1. As texts, the same column has two lines with biases of
# -0.3 and 0.3. Groups 0, 1 and 2 are fewer lines than three, too.
#
# Why it matters here. Multicalibration is about such groups, and a table's group columns are often 0 and 1. A user
# who checks onlinecal's groups with this package would see no difference between them.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet \
  model-diagnostics==1.5.0 polars==2.1.0 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"

cat > groups.py <<'PYTHON'
"""Forecasts of one half; one group's event comes in a fifth of the rows, the other's in four fifths."""

import warnings

import numpy as np

warnings.simplefilter("ignore")
from model_diagnostics.calibration import compute_bias

outcomes = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
forecasts, group = np.full(200, 0.5), np.repeat([0, 1], 100)


def lines(feature):
    found = compute_bias(y_obs=outcomes, y_pred=forecasts, feature=feature)
    return {row["feature"]: (round(row["bias_mean"], 6), row["bias_count"], round(row["p_value"], 4)) for row in found.to_dicts()}


numbers, texts, three = lines(group), lines(group.astype(str)), lines(np.repeat([0, 1, 2], [50, 100, 50]))
print("as numbers:", numbers)
print("as texts:  ", texts)
print("three numbers:", three)

# right would be two lines twice, and three
assert numbers == {0.5: (0.0, 200, 1.0)}
assert {name: bias for name, (bias, _, _) in texts.items()} == {"0": 0.3, "1": -0.3}
assert len(three) < 3
PYTHON
venv/bin/python groups.py
