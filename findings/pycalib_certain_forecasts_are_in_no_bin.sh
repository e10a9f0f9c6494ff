#!/usr/bin/env bash
# pycalib: with six bins, confidences of exactly 1 are in none. Who is always sure and always wrong has the error 0.
#
# Guess. `conf_ECE(y, p, bins=6)` cuts [0, 1] into six parts, and every confidence is in one of them. A model that
# gives 1 to a class that never comes has the error 1, the largest there is.
#
# What happens (pycalib 0.1.0.dev6, numpy 2.4.6, Python 3.11). Upper ends are added up by `numpy.arange`, and lower
# ends are a width below, both with rounding errors. The last of six ends at 0.9999999999999999. So the error of
# that model is 0. With the 15 bins of the default, confidences of 0.4 and 0.8 are in no bin; with nine, 2/3 is in
# two, and the error of rows that are all wrong is 4/3. Of the numbers of bins from 2 to 59, 41 leave out or double
# some i/B above one half. `binary_ECE` of the same package cuts in another way and is not affected.
#
# Why it matters here. Recalibrators give out round numbers, and classifiers are often certain. onlinecal's
# `convention="pycalib"` has to leave out the same rows.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pycalib==0.1.0.dev6 numpy==2.4.6 scikit-learn==1.9.1 scipy==1.17.1
cd "$folder"

cat > bins.py <<'PYTHON'
"""Rows with one confidence, none of them right: the error is the confidence."""

import numpy as np
from pycalib.metrics import binary_ECE, conf_ECE


def errors(confidence, bins):
    """Of three classes, the second of which always comes and the first of which is always promised."""
    rest = 1.0 - confidence
    table = np.tile([confidence, rest / 2, rest / 2], (10, 1))
    return conf_ECE(np.ones(10, int), table, bins=bins), binary_ECE(np.zeros(10), table[:, 0], bins=bins)


found = {(p, bins): errors(p, bins) for p, bins in ((1.0, 5), (1.0, 6), (0.4, 15), (0.8, 15), (2 / 3, 9))}
for (p, bins), (top, event) in found.items():
    print(f"confidence {p:.4f}, {bins} bins: conf_ECE {top:.4f}, binary_ECE {event:.4f}")
off = []
for bins in range(2, 60):
    values = [i / bins for i in range(bins // 2 + 1, bins + 1)]
    off += [bins] if any(abs(errors(p, bins)[0] - p) > 1e-9 for p in values) else []
print(f"numbers of bins from 2 to 59 with a wrong error at some i/B above one half: {len(off)}")

# right would be the confidence each time
assert found[1.0, 5][0] == 1.0 and found[1.0, 6][0] == 0.0
assert found[0.4, 15][0] == 0.0 == found[0.8, 15][0]
assert abs(found[2 / 3, 9][0] - 4 / 3) < 1e-9
assert all(abs(event - p) < 1e-9 for (p, _), (_, event) in found.items())
assert len(off) > 30
PYTHON
venv/bin/python bins.py
