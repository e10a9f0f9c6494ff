#!/usr/bin/env bash
# A classifier that scikit-learn 1.6 pickled is not read by 1.9: it has no module named `_loss`.
#
# Guess. scikit-learn promises nothing of pickles of another version, and warns (`InconsistentVersionWarning`)
# when it reads one. So an SGDClassifier of 1.6 is read with that warning, and forecasts as before or a little
# otherwise.
#
# What happens (scikit-learn 1.6.1 and 1.9.1, numpy 2.2.6, Python 3.11). Before any warning can come, reading ends
# with ModuleNotFoundError: No module named '_loss'. That is a module of scikit-learn's own, of which the pickle
# has only the last part of the name, so the message does not say what to install. In the other direction, from
# 1.9 to 1.6, reading works, with the warning, and the forecasts are the same.
#
# Why it matters here. Everything of onlinecal that was tried goes on across these versions to the last bit,
# unless such a model is inside. docs/keep-a-model.md says so.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 1.6.1 1.9.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/python" -m pip install --quiet scikit-learn==$version numpy==2.2.6 scipy==1.15.3
done
cd "$folder"

cat > write.py <<'PYTHON'
"""A model of this version, and what it forecasts."""

import pickle
import sys

import numpy as np
from sklearn.linear_model import SGDClassifier

rng = np.random.default_rng(0)
features = rng.normal(size=(50, 3))
model = SGDClassifier(loss="log_loss", random_state=0).fit(features, features[:, 0] > 0)
with open(sys.argv[1], "wb") as file:
    pickle.dump((model, features, model.predict_proba(features)), file)
PYTHON

cat > read.py <<'PYTHON'
"""The model of the other version."""

import pickle
import sys
import warnings

import sklearn

with warnings.catch_warnings(record=True) as caught, open(sys.argv[1], "rb") as file:
    warnings.simplefilter("always")
    try:
        model, features, forecasts = pickle.load(file)
        said = "read, the same forecasts" if (model.predict_proba(features) == forecasts).all() else "read"
    except ModuleNotFoundError as error:
        said = str(error)
print(f"scikit-learn {sklearn.__version__}, {sys.argv[1]}: {said}; warnings: {len(caught)}")
# right would be a model, or an error that names scikit-learn and both versions
assert said == sys.argv[2], said
PYTHON

for version in 1.6.1 1.9.1; do
    "$version/bin/python" write.py "$version.pickle"
done
1.9.1/bin/python read.py 1.6.1.pickle "No module named '_loss'"
1.6.1/bin/python read.py 1.9.1.pickle "read, the same forecasts"
