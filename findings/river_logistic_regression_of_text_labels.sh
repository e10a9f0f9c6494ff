#!/usr/bin/env bash
# river learns labels "0" and "1" as they come from a CSV file: it skips every "0", and its log loss looks good.
#
# Guess. `stream.iter_csv` without a converter gives labels as text, and LogisticRegression refuses text. And
# labels -1 and 1 are either refused or learned in one and the same way, row by row or in a batch.
#
# What happens (river 0.26.1, pandas 3.1.1, Python 3.11). The loss compares a label with the number 0, and what
# is not equal goes through `int`. The text "0" is not equal to 0, so it is taken for the number 0 where -1 and 1
# are meant, and has the gradient 0. Rows of "1" are learned, rows of "0" are not: the model moves towards
# "always yes". The log loss agrees, since the text "0" counts as true there. It reports 0.25 where the honest
# figure of the model that learned from numbers is 0.48. Only the accuracy, 0 %, looks odd: True is not "1".
# The text "10" pulls ten times as hard as "1". With the label -1, learning by row and by batch differ: a batch
# maps y to 2 y - 1, so -1 becomes -3 and pulls three times as hard; one row takes -1 for no.
#
# Why it matters here. onlinecal wraps these models and calls two labels two classes, whatever their names. What
# the wrapped model makes of the names is its own affair: forecasts without skill can be calibrated, and nobody
# would see from the calibration that half of the rows were never learned.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet river==0.26.1 pandas==3.1.1 scipy==1.17.1
cd "$folder"

cat > labels.py <<'PYTHON'
"""The same rows with labels as text and as numbers; one row alone and in a batch."""

import csv
import math
import random

import pandas as pd
from river import evaluate, linear_model, metrics, stream

rng = random.Random(1)
with open("rows.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["x", "y"])
    for _ in range(3000):
        x = rng.gauss(0.0, 1.0)
        rows.writerow([x, int(rng.random() < 1.0 / (1.0 + math.exp(-2.0 * x)))])


def scores(**converters):
    """Log loss and accuracy on the way, and what the model then says where one in twenty is yes."""
    model = linear_model.LogisticRegression()
    both = metrics.LogLoss() + metrics.Accuracy()
    rows = stream.iter_csv("rows.csv", target="y", converters={"x": float, **converters})
    evaluate.progressive_val_score(rows, model, both)
    loss, accuracy = both.get()
    return loss, accuracy, model.predict_proba_one({"x": -1.5})[True]


text, number = scores(), scores(y=int)
for name, (loss, accuracy, forecast) in (("text", text), ("numbers", number)):
    print(f"{name}: log loss {loss:.3f}, accuracy {accuracy:.3f}, forecast where 5 % are yes: {forecast:.2f}")


def step(label, batch=False):
    """How far one row of this label moves the intercept of a new model, in learning rates."""
    model = linear_model.LogisticRegression()
    if batch:
        model.learn_many(pd.DataFrame({"x": [1.0]}), pd.Series([label]))
    else:
        model.learn_one({"x": 1.0}, label)
    return round(float(model.intercept) / 0.01, 6)


print("steps by row:", {label: step(label) for label in ("0", "1", "10", False, True, -1)})
print("steps in a batch:", {label: step(label, batch=True) for label in (False, True, -1)})

# right would be an error for text; as it is, the log loss is better without learning half of the rows
assert text[0] < 0.3 < 0.4 < number[0]
assert text[1] == 0.0 and number[1] > 0.75
assert text[2] > 0.7 and number[2] < 0.1
assert [step(label) for label in ("0", "1", "10", False, True)] == [0.0, 0.5, 5.0, -0.5, 0.5]
# right would be the same step twice
assert step(-1) == -0.5 and step(-1, batch=True) == -1.5
PYTHON
venv/bin/python labels.py
