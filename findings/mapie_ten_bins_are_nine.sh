#!/usr/bin/env bash
# MAPIE's calibration error with ten bins has nine, with one bin it is NaN, and "array split" looks at row order.
#
# Guess. `expected_calibration_error(y, p, num_bins=10)` cuts from 0 to 1 into ten bins of a tenth. One bin gives
# the gap between the means. The order of the rows is of no matter, whichever way of splitting is asked for.
#
# What happens (MAPIE 1.6.0, numpy 2.4.6, Python 3.11). `num_bins` is the number of edges from 0 to 1, and a bin
# holds what is above one edge and at most the next. So ten bins are nine, each a ninth wide, and the first of
# the ten is for forecasts of exactly 0. Two bins are one. With one bin, which the page allows, every forecast
# above 0 is outside of all bins, and the answer is NaN. Forecasts that are off by a tenth in opposite directions
# in both halves have the error 0 with "two bins" and 0.1 with "three". With "quantile" the smallest forecast
# has the bin alone. With "array split" the edges are the largest forecasts of chunks of the rows as they come:
# the same rows have several errors in different orders.
#
# Why it matters here. Users compare onlinecal's measures with those of other packages. A binned error means
# something only together with its bins, and here they are others than those that were asked for.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet mapie==1.6.0 numpy==2.4.6 scikit-learn==1.9.1 scipy==1.17.1
cd "$folder"

cat > bins.py <<'PYTHON'
"""Errors of MAPIE beside those of bins cut by hand."""

import warnings

import numpy as np
from mapie.metrics.calibration import expected_calibration_error

warnings.simplefilter("ignore")  # of the division by no rows


def by_hand(y, p, bins):
    """The expected calibration error of so many bins of one width."""
    place = np.minimum((p * bins).astype(int), bins - 1)
    return sum(abs((y - p)[place == b].sum()) for b in range(bins)) / len(p)


# below one half outcomes are rarer by a tenth than forecast, above more frequent by a tenth
p = np.repeat([0.3, 0.7], 10)
y = np.repeat([1, 0, 1, 0], [2, 8, 8, 2])
errors = {bins: expected_calibration_error(y, p, num_bins=bins) for bins in (1, 2, 3)}
print("asked for 1, 2, 3 bins:", errors, "| by hand 1, 2:", by_hand(y, p, 1), by_hand(y, p, 2))
assert abs(by_hand(y, p, 2) - 0.1) < 1e-12
# right would be 0 for one bin, and 0.1 for two
assert np.isnan(errors[1]) and errors[2] < 1e-12 and abs(errors[3] - 0.1) < 1e-12

rng = np.random.default_rng(0)
many = rng.random(1000)
came = (rng.random(1000) < many**2).astype(int)
asked, nine, ten = expected_calibration_error(came, many, num_bins=10), by_hand(came, many, 9), by_hand(came, many, 10)
print(f"asked for ten bins: {asked:.6f}; by hand nine {nine:.6f}, ten {ten:.6f}")
assert abs(asked - nine) < 1e-12 and abs(asked - ten) > 1e-4

eight = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
outcomes = np.array([0, 0, 1, 0, 1, 0, 1, 1])
orders = {"rising": np.arange(8), "falling": np.arange(8)[::-1], "mixed": np.array([0, 4, 1, 5, 2, 6, 3, 7])}
for split in ("uniform", "quantile", "array split"):
    found = {
        name: round(float(expected_calibration_error(outcomes[rows], eight[rows], num_bins=4, split_strategy=split)), 6)
        for name, rows in orders.items()
    }
    print(f"{split}, rows in three orders: {found}")
    # right would be one error for all orders
    assert len(set(found.values())) == (3 if split == "array split" else 1)
PYTHON
venv/bin/python bins.py
