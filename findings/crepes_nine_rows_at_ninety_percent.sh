#!/usr/bin/env bash
# crepes: the interval at 90 % of nine rows is infinite, at 95 % of nineteen it is finite; 80 and 90 % go too far.
#
# Guess. A conformal interval at level c of n rows reaches to the k-th smallest of their errors, k = c (n + 1)
# rounded up. Nine rows at 90 % and nineteen at 95 % just suffice: k = n. The level is met exactly.
#
# What happens (crepes 0.9.1, numpy 2.4.6, Python 3.11). The rank is got from `1 - confidence`, which in floating
# point is a little less than 0.1 for 0.9 and than 0.2 for 0.8, and a little more than 0.05 for 0.95. Times a whole
# number it falls just short of a whole one, and is cut to the one below. So at 80 and 90 % every interval whose
# level could be met exactly reaches one error too far, and is infinite for 4 and 9 rows; of 50, 60, 70, 75, 95
# and 99 % none does. Nine rows are said to be too few for 90 %, though `predict_percentiles` of the same package
# gives the end point from the same rows. Prediction sets of classes compare p-values with the same difference,
# so at 90 % of nine rows they hold every class, however strange, and at 95 % of nineteen they do not.
#
# Why it matters here. onlinecal too gives intervals and p-values at levels that users write as decimals. A rank
# that is got from `1 - level` is off by one at 80 and 90 %, and no test at 95 % would notice.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet \
  crepes==0.9.1 numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"

cat > ranks.py <<'PYTHON'
"""Errors 1, 2, ..., n: the end of an interval is the rank that was taken."""

import math
import warnings
from fractions import Fraction

import numpy as np
from crepes import ConformalClassifier, ConformalPredictiveSystem, ConformalRegressor

warnings.simplefilter("ignore")  # that there are too few rows
SIZES = (4, 9, 19, 39, 49, 99, 199, 999)
LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99)


def errors(rows):
    return np.arange(1.0, rows + 1.0)


too_far = {}
for level in LEVELS:
    for rows in SIZES:
        end = ConformalRegressor().fit(errors(rows)).predict_int(np.zeros(1), confidence=level)[0, 1]
        exact = Fraction(str(level)) * (rows + 1)
        rank = math.ceil(exact)
        if end != (rank if rank <= rows else math.inf):
            too_far.setdefault(level, {})[rows] = float(end), rank
            assert exact.denominator == 1 and end == (rank + 1 if rank < rows else math.inf)
for level, found in too_far.items():
    print(f"level {level}: {', '.join(f'{n} rows: {end} instead of {rank}' for n, (end, rank) in found.items())}")
percentile = ConformalPredictiveSystem().fit(errors(9)).predict_percentiles(np.zeros(1), higher_percentiles=90.0)
print("ninetieth percentile of the nine:", percentile)

strange = {}
for rows, level in ((9, 0.9), (19, 0.95)):
    sets = ConformalClassifier().fit(errors(rows))
    strange[rows] = int(sets.predict_set(np.array([[0.5, 1000.0]]), confidence=level, smoothing=False)[0, 1])
print("a class stranger than all rows is in the set:", strange)

# right would be {}, and 0 twice
assert set(too_far) == {0.8, 0.9}
assert too_far[0.9][9] == (math.inf, 9) and too_far[0.8][4] == (math.inf, 4) and too_far[0.9][99] == (91.0, 90)
assert percentile.tolist() == [9.0]
assert strange == {9: 1, 19: 0}
PYTHON
venv/bin/python ranks.py
