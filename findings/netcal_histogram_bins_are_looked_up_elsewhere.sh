#!/usr/bin/env bash
# netcal's HistogramBinning gives a forecast at an end of a bin the frequency of the bin below, which never saw it.
#
# Guess. Histogram binning maps each forecast to the frequency of the rows that shared its bin when it was fitted.
# A forecast that was fitted gets the frequency of a set of rows that it is part of.
#
# What happens (netcal 1.4.0, numpy 2.4.6, Python 3.11). Fitting takes bins closed on the left, [a, b); the map looks
# forecasts up in bins closed on the right, (a, b]. So of the values 0.25, 0.5 and 0.75 in four bins each gets what
# the one below it was fitted to, and 0.25 gets what the empty bin below says. Ten rows with 0.5, all positive,
# come out as 0. A model whose forecasts are multiples of a bin's width, as of trees and votes, is mapped by one
# place off.
#
# Why it matters here. onlinecal compares its recalibrators with netcal's. On round forecasts this one is worse than
# none, for no reason in the method.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0
"$folder/venv/bin/python" -m pip install --quiet netcal==1.4.0 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"

cat > places.py <<'PYTHON'
"""Three forecasts of ten rows each; the second always came true, the others never."""

import warnings

import numpy as np

warnings.simplefilter("ignore")
from netcal.binning import HistogramBinning

values = np.array([0.25, 0.5, 0.75])
forecasts, outcomes = np.repeat(values, 10), np.repeat([0, 1, 0], 10)
binning = HistogramBinning(bins=4)
binning.fit(forecasts, outcomes)
at, between = binning.transform(values), binning.transform(values + 0.01)
print("frequencies by value:", {0.25: 0.0, 0.5: 1.0, 0.75: 0.0})
print("mapped:              ", dict(zip(values.tolist(), at.tolist())))
print("mapped 0.01 above:   ", dict(zip((values + 0.01).tolist(), between.tolist())))
brier = [float(((p - outcomes) ** 2).mean()) for p in (forecasts, binning.transform(forecasts))]
print("Brier score before and after, on the rows that were fitted:", brier)

# right would be 0, 1, 0 twice
assert at[1] == 0.0 and at[2] == 1.0 and between.tolist() == [0.0, 1.0, 0.0]
assert brier[1] > 2 * brier[0]
PYTHON
venv/bin/python places.py
