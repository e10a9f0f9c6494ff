#!/usr/bin/env bash
# uncertainty-toolbox: forecasts that are always too low have nearly no calibration error by default.
#
# Guess. `mean_absolute_calibration_error` compares how often outcomes lie below each quantile with what the quantile
# says. Forecasts that are too low by 0.7 standard deviations have a large error, those with true means about 0.
#
# What happens (uncertainty-toolbox 0.1.1, numpy 2.4.6, Python 3.11). By default it looks at intervals around the mean,
# `prop_type="interval"`: how often outcomes lie within each, on whichever side. An error of the means can be made
# up for by a spread that is said too large. Five thousand forecasts that are too low by 0.7, with a spread of 1
# instead of 0.6, have the error 0.02. With `prop_type="quantile"` it is 0.23. The summary that `get_all_metrics` prints has the first alone.
#
# Why it matters here. onlinecal's distributions are calibrated by quantiles, so that a bias shows. A user who
# compares by this package's default sees none.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet \
  uncertainty-toolbox==0.1.1 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 matplotlib==3.11.1
cd "$folder"

cat > sides.py <<'PYTHON'
"""Normal forecasts: honest ones, and some that are too low and say too large a spread."""

import numpy as np
from uncertainty_toolbox.metrics import get_all_metrics
from uncertainty_toolbox.metrics_calibration import mean_absolute_calibration_error

rng = np.random.default_rng(0)
means, spread = rng.normal(size=5000), np.ones(5000)
honest = means + rng.normal(size=5000)
above = means + 0.7 + 0.6 * rng.normal(size=5000)


def error(outcomes, kind):
    return float(mean_absolute_calibration_error(means, spread, outcomes, prop_type=kind))


found = {kind: (error(honest, kind), error(above, kind)) for kind in ("interval", "quantile")}
for kind, (right, low) in found.items():
    print(f"{kind}: honest {right:.4f}, too low {low:.4f}")
print(f"share of outcomes above the mean: {(above > means).mean():.3f}")
told = get_all_metrics(means, spread, above, verbose=False)["avg_calibration"]["ma_cal"]
print(f"mean absolute calibration error in the summary: {told:.4f}")

# right would be a large error in both
assert found["interval"][1] < 0.03 and found["quantile"][1] > 0.2
assert told < 0.03 and (above > means).mean() > 0.85
PYTHON
venv/bin/python sides.py
