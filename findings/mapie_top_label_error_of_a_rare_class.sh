#!/usr/bin/env bash
# MAPIE's top-label calibration error: one row of a rare class weighs as much as all others together.
#
# Guess. As in the paper that its page names (Gupta and Ramdas, arXiv 2107.08353), the error is an expectation
# over rows. A class that one row in a hundred has on top counts for one hundredth.
#
# What happens (MAPIE 1.6.0, numpy 2.4.6, Python 3.11). The errors of the classes are added up and divided by the
# number of classes that are ever on top, however few rows those have. A hundred rows that are right as often as
# they say have the error 0. If one of them has another class on top and is wrong, the error is 0.45, where the
# expectation is 0.01. The guide speaks in passing of an average over labels, but not that it is without weights.
# Samples of different sizes cannot be compared: the larger one meets more rare classes.
#
# Why it matters here. onlinecal's measures of many classes, where most are rarely on top, are averages over
# rounds. Whoever puts these figures beside them finds differences that no choice of bins explains.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet mapie==1.6.0 numpy==2.4.6 scikit-learn==1.9.1 scipy==1.17.1
cd "$folder"

cat > top.py <<'PYTHON'
"""Ninety-nine rows with one class on top, and one row with another."""

import numpy as np
from mapie.metrics.calibration import top_label_ece


def expected(y, table):
    """The average over rows of |frequency - confidence| given the class on top; each has one confidence here."""
    top, confidence = table.argmax(axis=1), table.max(axis=1)
    return sum(abs(((top == y) - confidence)[top == one].sum()) for one in np.unique(top)) / len(y)


# 90 of 100 right at 90 %: no error at all
table = np.tile([0.9, 0.1], (100, 1))
y = np.repeat([0, 1], [90, 10])
first = top_label_ece(y, table, num_bins=11)
# one row says class 1 at 90 %, and class 0 came
rare = table.copy()
rare[0] = [0.1, 0.9]
second, right = top_label_ece(y, rare, num_bins=11), expected(y, rare)
print(f"without the row: {first:.4f}; with it: {second:.4f}, as an average over rows {right:.4f}")
assert first < 1e-12 and expected(y, table) < 1e-12
# right would be the average over rows
assert right < 0.0101 and 0.45 < second < 0.4506
PYTHON
venv/bin/python top.py
