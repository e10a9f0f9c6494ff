#!/usr/bin/env bash
# relplot's Laplace kernel calibration error never looks at the last row, and exact calibration is not near 0.
#
# Guess. `laplace_calibration_approx` estimates the kernel error from random pairs of rows: all rows alike, more
# or less precise, and about 0 for forecasts that are exactly calibrated.
#
# What happens (relplot 1.0.3, numpy 2.4.6, Python 3.11). Places are drawn below n - 1 by a function that leaves
# the upper end out already, so the last row is never drawn. A column that is wrong in its last row alone has the
# error 0 for every seed; of two rows only the first counts. And the root of the absolute value is taken of an
# average that may come out on either side of 0. So a thousand rows with the exact error 0 get about 0.04, less
# or more by chance, and what would be a plain "below 0" looks like an error. The figure of forecasts that are
# wrong by 0.02 throughout is not told from it.
#
# Why it matters here. relplot comes from the same theory of distances to calibration as onlinecal's measures, so
# users compare the two. In a stream the row that is left out is the newest one.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet relplot==1.0.3 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > last.py <<'PYTHON'
"""The estimate by many seeds beside the exact error by all pairs."""

import numpy as np
from relplot.metrics import laplace_calibration_approx


def exact(forecasts, outcomes):
    gaps = forecasts - outcomes
    kernel = np.exp(-np.abs(forecasts[:, None] - forecasts[None, :]))
    return float(np.sqrt(max(0.0, gaps @ kernel @ gaps))) / len(gaps)


def estimates(forecasts, outcomes, seeds=range(30)):
    found = []
    for seed in seeds:
        np.random.seed(seed)
        found.append(float(laplace_calibration_approx(forecasts, outcomes)))
    return np.array(found)


def told(name, forecasts, outcomes):
    found = estimates(forecasts, outcomes)
    print(f"{name}: exact {exact(forecasts, outcomes):.4f}, estimated {found.min():.4f} to {found.max():.4f}", end="")
    print(f", on average {found.mean():.4f}")
    return found


wrong = np.zeros(10)
wrong[-1] = 1.0
last = told("ten rows, the last one wrong", wrong, np.zeros(10))
first = told("ten rows, the first one wrong", wrong[::-1], np.zeros(10))
pair = told("two rows, off by 0.2 and 0.9", np.array([0.2, 0.9]), np.zeros(2))
half = np.resize([0.0, 1.0], 1000)
calibrated = told("a thousand of one half, exactly calibrated", np.full(1000, 0.5), half)
off = told("a thousand of one half, off by 0.02", np.full(1000, 0.52), half)

# right would be 0.1 twice
assert (last == 0.0).all() and 0.08 < first.mean() < 0.13
assert np.allclose(pair, 0.2)
# right would be about 0
assert exact(np.full(1000, 0.5), half) < 1e-12 and calibrated.mean() > 0.02
assert abs(off.mean() - calibrated.mean()) < 0.01
PYTHON
venv/bin/python last.py
