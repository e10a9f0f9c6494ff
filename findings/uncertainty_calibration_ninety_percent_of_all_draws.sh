#!/usr/bin/env bash
# uncertainty-calibration: an interval at 90 % spans all of its hundred draws, and one at 50 % is nearly as wide.
#
# Guess. `get_calibration_error_uncertainties(..., alpha=0.1)` returns "1-alpha confidence intervals", as its docstring
# says: the middle 90 of 100 draws of rows. At `alpha=0.5` the interval is less than half as wide.
#
# What happens (uncertainty-calibration 0.1.4, numpy 2.4.6, scikit-learn 1.9.1, Python 3.11). The helper that takes
# percentiles counts alpha in percent. So 0.1 asks for 99.9 %, which of a hundred draws is the smallest and the
# largest, and 0.5 asks for 99.5 %. Of a thousand calibrated forecasts the interval at 90 % is from -0.03 to 0.04, twice
# as wide as that of the middle ninety draws, -0.01 to 0.03. At 50 % it is 0.92 times as wide, where 0.4 times would be
# right. `alpha=10` gives the interval at 90 %.
#
# Why it matters here. onlinecal's docs put their figures beside this package's. Forecasters whose intervals at 90 % lie
# apart have ones here that overlap, as if three rows in four were missing.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet uncertainty-calibration==0.1.4 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"

cat > intervals.py <<'PYTHON'
"""Intervals of the calibration error of a thousand forecasts of tenths, whose outcomes were drawn from them."""

import calibration
import numpy as np

source = np.random.default_rng(0)
forecasts = source.integers(1, 10, 1000) / 10
came = (source.random(1000) < forecasts).astype(int)


def interval(alpha):
    np.random.seed(0)  # the same hundred draws of rows for each alpha
    low, _, high = calibration.get_calibration_error_uncertainties(forecasts, came, p=1, alpha=alpha)
    return float(low), float(high)


def by_hand():
    """From the same draws: twice the figure, less its percentiles 95 and 5, and 99.95 and 0.05."""
    np.random.seed(0)
    figure = calibration.get_calibration_error(forecasts, came, p=1, debias=False)
    draws = []
    for _ in range(100):
        rows = np.random.choice(1000, size=1000, replace=True)
        draws.append(calibration.get_calibration_error(forecasts[rows], came[rows], p=1, debias=False))
    return 2 * figure - np.percentile(draws, [95, 5]), 2 * figure - np.percentile(draws, [99.95, 0.05])


def width(ends):
    return ends[1] - ends[0]


inner, outer = by_hand()
found = {alpha: interval(alpha) for alpha in (0.1, 0.5, 10)}
for alpha, (low, high) in found.items():
    print(f"alpha={alpha}: {low:.4f} to {high:.4f}")
print(f"the middle ninety draws: {inner[0]:.4f} to {inner[1]:.4f}; 99.9 % of them: {outer[0]:.4f} to {outer[1]:.4f}")
print(f"alpha=0.5 is {width(found[0.5]) / width(found[0.1]):.2f} times as wide as alpha=0.1")

# right would be the inner one for 0.1, and a ratio of about 0.4
assert np.allclose(found[0.1], outer, atol=1e-9) and width(found[0.1]) > 1.8 * width(inner)
assert np.allclose(found[10], inner, atol=1e-9)
assert width(found[0.5]) / width(found[0.1]) > 0.9
PYTHON
venv/bin/python intervals.py
