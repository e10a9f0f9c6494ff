#!/usr/bin/env bash
# numba's np.median of values with one NaN is NaN or a number, depending on where the NaN stands.
#
# Guess. A median with a NaN among the values is NaN, as numpy has it, in whichever order they come.
#
# What happens (numba 0.68.1, numpy 2.4.6, Python 3.11). The compiled median selects by comparisons, in which NaN
# takes part as if it had a place. Of NaN, 0.5 and 0.1 it is 0.5; of 0.1, 0.5, NaN and 0.9 it is NaN. So a column
# with a missing value in it has a plausible median in some orders of its rows. numpy's is NaN in all of them.
# `np.max`, `np.min` and `np.mean` of compiled code are NaN as they should be.
#
# Why it matters here. onlinecal's kernels see columns that may have holes. They are looked for before any compiled
# code, since what that says of them cannot be relied on.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
cd "$folder"

cat > medians.py <<'PYTHON'
"""Medians of all orders of five values, one of them missing."""

from collections import Counter
from itertools import permutations

import numpy as np
from numba import njit

compiled = njit(lambda values: np.median(values))
others = njit(lambda values: (np.max(values), np.min(values), np.mean(values)))
orders = [np.array(order) for order in permutations([0.1, 0.2, 0.6, 0.9, np.nan])]
found = Counter(str(float(compiled(order))) for order in orders)
plain = Counter(str(float(np.median(order))) for order in orders)
print(f"{len(orders)} orders, numba's medians:", dict(found), "numpy's:", dict(plain))
print("of NaN, 0.5, 0.1:", compiled(np.array([np.nan, 0.5, 0.1])))

# right would be NaN in all orders
assert plain == {"nan": 120}
assert len(found) > 1 and sum(number for value, number in found.items() if value != "nan") > 0
assert compiled(np.array([np.nan, 0.5, 0.1])) == 0.5
assert all(np.isnan(others(order)).all() for order in orders)
PYTHON
venv/bin/python medians.py
