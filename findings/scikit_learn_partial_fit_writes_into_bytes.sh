#!/usr/bin/env bash
# scikit-learn's partial_fit writes into an immutable `bytes` object, and so changes other models read from it.
#
# Guess. A model that is unpickled by protocol 5 over `bytes` has arrays that cannot be written. So `partial_fit`
# of an SGDClassifier copies them first, or raises, as numpy does if one assigns to such an array.
#
# What happens (scikit-learn 1.9.1, numpy 2.4.6, Python 3.11). Nothing is raised. The inner loop takes the memory
# of the coefficients by its address and writes there. The array still says that it cannot be written, and
# assigning to it is still an error, but its numbers have changed. The `bytes` object has changed too, though
# Python holds it for immutable: its hash, if somebody has asked for it before, is the old one. A second model
# that was read from the same buffers has become a model that learned rows it has never seen. In a variant of
# this the process crashed.
#
# Why it matters here. onlinecal wraps estimators with `partial_fit`, and hands models to other processes. What is
# handed over without a copy consists of just such buffers, and a model that learns would change what others
# read. So whoever restores a model without a copy must copy it before it learns.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > frozen.py <<'PYTHON'
"""Two models over the same immutable buffers: one of them learns, and both have changed."""

import pickle

import numpy as np
from sklearn.linear_model import SGDClassifier

rng = np.random.default_rng(0)
features = rng.normal(size=(50, 3))
labels = features[:, 0] > 0
model = SGDClassifier(loss="log_loss", random_state=0).partial_fit(features, labels, classes=[False, True])

views = []
pickled = pickle.dumps(model, protocol=5, buffer_callback=views.append)
buffers = [bytes(view.raw()) for view in views]
hashes = [hash(buffer) for buffer in buffers]
copies = [bytes(bytearray(buffer)) for buffer in buffers]

learner = pickle.loads(pickled, buffers=buffers)
reader = pickle.loads(pickled, buffers=buffers)
before = reader.predict_proba(features)
try:
    learner.coef_[0, 0] = 1.0
    refused = False
except ValueError as error:
    refused = True
    print("assigning to a coefficient:", error)
learner.partial_fit(features, labels)

moved = abs(reader.predict_proba(features) - before).max()
changed = [buffer != copy for buffer, copy in zip(buffers, copies, strict=True)]
print("the coefficients can be written:", learner.coef_.flags.writeable)
print("bytes objects that have changed:", sum(changed), "of", len(changed))
print("their hashes are as before:", hashes == [hash(buffer) for buffer in buffers])
print("forecasts of the model that did not learn moved by", round(moved, 3))

assert refused and not learner.coef_.flags.writeable
# right would be an error, or no change
assert any(changed)
assert moved > 0.01
assert (learner.coef_ == reader.coef_).all() and (reader.coef_ != model.coef_).any()
PYTHON
venv/bin/python frozen.py
