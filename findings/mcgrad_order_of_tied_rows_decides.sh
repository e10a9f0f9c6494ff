#!/usr/bin/env bash
# MCGrad's cumulative error: the same rows in another order are calibrated (p = 1.00) or are not (p = 0.004).
#
# Guess. `ecce` sorts rows by their scores and takes the range of the cumulative errors. Rows with one score have no
# order among them, so that they are taken together: forecasts that are met exactly by the frequencies have the
# error 0 and the p-value 1, whichever order the rows come in.
#
# What happens (mcgrad 0.1.5, numpy 2.4.6, Python 3.11). Rows with one score stay in some order, and each adds a step
# of its own. Three hundred rows with three scores, each met exactly by its frequency, have the error 0.083 and the
# p-value 0.004 if a file lists negatives before positives, as an export by groups does. In random orders the
# error is between 0.01 and 0.05, and the p-value between 0.37 and 1.
#
# Why it matters here. onlinecal's `cumulative_calibration_error` is the same statistic, with one step for each
# score. On tied scores the two cannot agree, and no convention can say what an order of rows makes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
# of its dependencies those that the metrics need
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet mcgrad==0.1.5 numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
cd "$folder"

cat > ties.py <<'PYTHON'
"""Three scores of a hundred rows each, exactly calibrated."""

import warnings

import numpy as np

warnings.simplefilter("ignore")
from mcgrad.metrics import ecce, ecce_pvalue

scores = np.repeat([0.2, 0.5, 0.8], 100)
labels = np.concatenate([np.repeat([0, 1], [100 - ones, ones]) for ones in (20, 50, 80)])
assert all(labels[scores == s].mean() == s for s in (0.2, 0.5, 0.8))
negatives_first = ecce(labels, scores), float(ecce_pvalue(labels, scores))
print("negatives first: error {:.4f}, p-value {:.4f}".format(*negatives_first))
rng = np.random.default_rng(0)
orders = [rng.permutation(300) for _ in range(200)]
errors = [ecce(labels[rows], scores[rows]) for rows in orders]
p_values = [float(ecce_pvalue(labels[rows], scores[rows])) for rows in orders]
print(f"random orders: error {min(errors):.4f} to {max(errors):.4f}, p-value {min(p_values):.4f} to {max(p_values):.4f}")

# right would be 0 and 1 each time
assert negatives_first[0] > 0.08 and negatives_first[1] < 0.005
assert 0.0 < min(errors) < 0.02 < 0.03 < max(errors) and max(p_values) > 0.99
PYTHON
venv/bin/python ties.py
