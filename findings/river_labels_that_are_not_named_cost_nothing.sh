#!/usr/bin/env bash
# river: a label that a forecast does not name costs 0 in CrossEntropy, and the label -1 counts as true in LogLoss.
#
# Guess. A forecast that gives a label no probability gives it 0, and pays the most there is: 34.5, as for a label
# that is named with 0. In LogLoss the labels -1 and 1 are refused, or the smaller one is false.
#
# What happens (river 0.26.1, Python 3.11). CrossEntropy adds up costs over the labels that are named; for one that
# is not, there is none. Forgetting the label that comes is the best forecast of all, better than naming it with
# 0.99. A model that has not yet met a label is paid for it. LogLoss asks whether the label is truthy: -1 is, and so
# is the text "no". A forecast of 0.1 for rows of -1 pays 2.3 each, as if the event had come.
#
# Why it matters here. onlinecal wraps river's models, whose answers name only labels that came before, and takes
# labels -1 and 1. Its own metrics charge what was not named as 0.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet river==0.26.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > labels.py <<'PYTHON'
"""The costs of single forecasts."""

from river.metrics import CrossEntropy, LogLoss


def cost(metric, label, forecast):
    metric.update(label, forecast)
    return metric.get()


named = cost(CrossEntropy(), "c", {"a": 0.5, "b": 0.5, "c": 0.0})
missing = cost(CrossEntropy(), "c", {"a": 0.5, "b": 0.5})
likely = cost(CrossEntropy(), "c", {"a": 0.005, "b": 0.005, "c": 0.99})
print(f"c came, and was given 0: {named:.4f}; was not named: {missing:.4f}; was given 0.99: {likely:.4f}")
losses = {label: cost(LogLoss(), label, 0.1) for label in (False, -1, "no", True)}
print("log loss of 0.1 by label:", {label: round(loss, 4) for label, loss in losses.items()})

# right would be 34.5 for both, and one loss for False, -1 and "no", or a refusal
assert named > 34 and missing == 0.0 < likely
assert losses[False] < 0.11
assert losses[-1] == losses["no"] == losses[True] > 2.3
PYTHON
venv/bin/python labels.py
