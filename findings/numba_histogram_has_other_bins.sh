#!/usr/bin/env bash
# numba's np.histogram puts forecasts at ends of bins into other bins than numpy's; 0.3 of ten is one of them.
#
# Guess. Compiled code gives the same counts as numpy for the same array, number of bins and range: counting has no
# rounding of its own.
#
# What happens (numba 0.68.1, numpy 2.4.6, Python 3.11). numpy guesses a bin and then compares with its edges. numba
# divides and cuts to a whole number, and compares with nothing. So 0.3, 0.6 and 0.7 of ten bins from 0 to 1 are one
# bin higher. Of all i/B with 2 to 100 bins more than five hundred are elsewhere. With edges given as an array both
# agree. In the same way `round(2.675, 2)` is 2.68 in compiled code and 2.67 in Python.
#
# Why it matters here. onlinecal compiles its loops with numba, and bins forecasts, many of them round numbers. It
# compares with correctly rounded edges i/B in one place, outside compiled code.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
cd "$folder"

cat > counts.py <<'PYTHON'
"""Histograms of single values, compiled and not."""

import numpy as np
from numba import njit


def of_range(values, bins):
    return np.histogram(values, bins, (0.0, 1.0))[0]


def of_edges(values, edges):
    return np.histogram(values, edges)[0]


compiled_range, compiled_edges = njit(of_range), njit(of_edges)
ten = {p: (int(of_range(np.array([p]), 10).argmax()), int(compiled_range(np.array([p]), 10).argmax())) for p in (0.3, 0.6, 0.7, 0.8)}
print("bins of ten, numpy's and numba's:", ten)
elsewhere = with_edges = total = 0
for bins in range(2, 101):
    edges = np.linspace(0.0, 1.0, bins + 1)
    for p in np.arange(bins + 1) / bins:
        one = np.array([p])
        elsewhere += bool((of_range(one, bins) != compiled_range(one, bins)).any())
        with_edges += bool((of_edges(one, edges) != compiled_edges(one, edges)).any())
        total += 1
print(f"of {total} ends, {elsewhere} are in another bin by number and range, {with_edges} by edges")
rounded = njit(lambda x: round(x, 2))(2.675), round(2.675, 2)
print("round(2.675, 2), compiled and not:", rounded)

# right would be equal pairs, 0 and 0, and 2.67 twice
assert ten == {0.3: (2, 3), 0.6: (5, 6), 0.7: (6, 7), 0.8: (8, 8)}
assert elsewhere > 500 and with_edges == 0
assert rounded == (2.68, 2.67)
PYTHON
venv/bin/python counts.py
