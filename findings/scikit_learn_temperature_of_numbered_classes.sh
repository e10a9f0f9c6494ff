#!/usr/bin/env bash
# scikit-learn's temperature scaling: classes named 1 and 2 make every forecast one half, names as text do not.
#
# Guess. `CalibratedClassifierCV(method="temperature")` looks at the order of the classes, as its other methods
# do. What the classes are called changes nothing: 0 and 1, -1 and 1, 1 and 2, "no" and "yes" get one temperature.
#
# What happens (scikit-learn 1.9.1, numpy 2.4.6, Python 3.11). Labels become places in the list of classes only
# if they are text. Numbers go to the loss as they are, which takes them for places that count from 0. With
# classes 1 and 2 the loss sees class 2 where there are places 0 and 1. The best temperature is then the largest
# that the search allows, and all forecasts are 0.5. With -1 and 1 they are pulled towards one half, to a log
# loss of 0.38 instead of 0.27. With three classes 1, 2, 3 all forecasts are a third. Nothing is raised and nobody
# is warned. The accuracy stays, since the order of forecasts does, so a test of accuracy does not see it.
# "sigmoid" and "isotonic" give the same for all names.
#
# Why it matters here. Temperature is one of onlinecal's own recalibrators, and whoever compares it with this one
# on labels that count from 1 would find a difference that is none. In onlinecal two labels are two classes
# whatever they are called.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > names.py <<'PYTHON'
"""One model and one set of rows, calibrated under several names of the classes."""

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss


def calibrated(features, places, names, method):
    """The calibrated probabilities, columns in the order of `names`, of the rows that it was fitted to."""
    labels = np.array(names)[places]
    model = LogisticRegression(max_iter=10_000).fit(features[::2], labels[::2])
    fitted = CalibratedClassifierCV(FrozenEstimator(model), method=method).fit(features[1::2], labels[1::2])
    assert list(fitted.classes_) == list(names)
    return fitted.predict_proba(features[1::2])


features, places = load_breast_cancer(return_X_y=True)
features = features[:, :3]
truth = places[1::2]
losses = {}
for method in ("temperature", "sigmoid", "isotonic"):
    for names in ([0, 1], [False, True], ["no", "yes"], [-1, 1], [1, 2]):
        forecasts = calibrated(features, places, names, method)[:, 1]
        losses[method, str(names)] = log_loss(truth, forecasts)
        print(f"{method:12s}{names!s:15s} log loss {log_loss(truth, forecasts):.4f},",
              f"forecasts from {forecasts.min():.4f} to {forecasts.max():.4f},",
              f"accuracy {((forecasts > 0.5) == truth).mean():.3f}")
three, kinds = load_iris(return_X_y=True)
from_one = calibrated(three, kinds, [1, 2, 3], "temperature")
from_zero = calibrated(three, kinds, [0, 1, 2], "temperature")
print("three classes: largest forecast", from_zero.max().round(4), "counted from 0,", from_one.max().round(4), "from 1")

usual = losses["temperature", "[0, 1]"]
assert usual < 0.28
assert abs(losses["temperature", "['no', 'yes']"] - usual) < 1e-6
assert abs(losses["temperature", "[False, True]"] - usual) < 1e-6
# right would be the loss of 0 and 1 for these as well, as the other methods have it
assert losses["temperature", "[-1, 1]"] > usual + 0.1
assert abs(losses["temperature", "[1, 2]"] - np.log(2)) < 1e-3
assert from_zero.max() > 0.99 and abs(from_one - 1 / 3).max() < 1e-3
for method in ("sigmoid", "isotonic"):
    of_method = [loss for (name, _), loss in losses.items() if name == method]
    assert max(of_method) - min(of_method) < 1e-6
PYTHON
venv/bin/python names.py
