#!/usr/bin/env bash
# splinecalib: a bootstrap around it draws the same rows each time, so the error bar is 0; a fifth of rows are not fitted.
#
# Guess. `SplineCalib(random_state=42)` keeps its randomness to itself. Eight samples by `np.random.randint` give eight
# maps, whose spread says how sure the map is. And the map that comes out in the end is fitted to all rows.
#
# What happens (splinecalib 0.0.13, numpy 2.4.6, scipy 1.17.1, Python 3.11). `fit` sets the seed of numpy's global
# generator to 42, and that of `random`, too. What the caller draws next is nearly always what was drawn after the
# last fit, and after at most three samples all that follow are one: the spread of the map at a half is 0 instead of
# 0.03. With `np.random.default_rng` it is right. And the last fit is to the rows that were left when the first fold was
# held out. Of a hundred forecasts that are moved to the other end, one at a time, 20 leave the map as it was.
#
# Why it matters here. Error bars of a recalibrator are often got like this, and a loop that compares several on drawn
# rows, of which one is this, draws the same rows for all the others. onlinecal takes seeds and generators, and
# leaves the global ones alone.
#
# splinecalib comes as source, so that this takes a C compiler.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet splinecalib==0.0.13 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1 matplotlib==3.11.1
cd "$folder"

cat > samples.py <<'PYTHON'
"""Eight samples of two hundred rows, drawn in two ways; and a hundred rows of which one at a time is moved."""

import warnings

import numpy as np
from splinecalib import SplineCalib

warnings.simplefilter("ignore")  # of an overflow in the search
source = np.random.default_rng(0)
forecasts = source.random(200)
came = (source.random(200) < forecasts**1.5).astype(int)


def bootstrap(draw):
    samples, maps = set(), []
    for _ in range(8):
        rows = draw(0, 200, 200)
        samples.add(tuple(rows))
        curve = SplineCalib()
        curve.fit(forecasts[rows], came[rows])
        maps.append(curve.calibrate(np.array([0.5]))[0])
    return len(samples), float(np.std(maps[-5:]))


np.random.seed(1)
drawn, spread = bootstrap(np.random.randint)
own, right = bootstrap(np.random.default_rng(1).integers)
print(f"by np.random: {drawn} samples of 8 differ, the spread of the last five maps at 0.5 is {spread:.4f}")
print(f"by a generator: {own} samples of 8 differ, the spread is {right:.4f}")

# knots and penalty are given, so that rows can act through the fit alone
few, labels = forecasts[:100], came[:100]


def map_of(rows):
    curve = SplineCalib(knot_sample_size=0, reg_param_vec=[1.0])
    curve.fit(rows, labels)
    return curve.calibrate(np.linspace(0.05, 0.95, 10))


def moved(place):
    rows = few.copy()
    rows[place] = 0.97 if rows[place] < 0.5 else 0.03
    return np.abs(map_of(rows) - whole).max()


whole = map_of(few)
changes = np.array([moved(place) for place in range(100)])
print(f"of 100 forecasts that are moved, {(changes < 1e-9).sum()} change nothing, {(changes > 1e-3).sum()} change the map")

# right would be 8 samples, a spread of 0.03, and 100 that change the map
assert drawn <= 4 and spread < 1e-9
assert own == 8 and right > 0.02
assert (changes < 1e-9).sum() == 20 and (changes > 1e-3).sum() == 80
PYTHON
OPENBLAS_NUM_THREADS=1 venv/bin/python samples.py  # the matrices are small
