#!/usr/bin/env bash
# POT: out of iterations, ot.emd2 returns what a part of the mass costs: 0 for forecasts that cost .6, or 1.6 times all.
#
# Guess. `ot.emd2` at its limit `numItermax` warns, and returns the cost of the plan that it has. A plan moves all
# of the mass, so this is an upper end of the distance. The default limit of 100,000 is out of reach for some thousand
# points on a line.
#
# What happens (POT 0.9.7.post1, numpy 2.4.6, Python 3.11). It warns, and returns the cost of what has been moved so
# far. Forecasts of .5, .6, .7 and .8 go to four values of .5 at a cost of .6. After one iteration one of them has
# been moved, and the answer is 0. Of 4,000 forecasts 55 to 100 % of the mass has been moved, and the answer is 1 %
# to 3.6 times the distance. So it is neither an upper nor a lower end, and only the sum of the plan tells which it may
# be. 4,000 forecasts and values in increasing order meet the default limit, and get 1.6 times the distance.
# `ot.solve(...).value` is the same number, and its `status` is the warning. A limit of a million is enough.
#
# Why it matters here. The distance of forecasts to given values is such a transport. Where warnings are switched
# off, as in many notebooks, an unfinished answer of 0 looks like perfect calibration.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet POT==0.9.7.post1 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > part.py <<'PYTHON'
"""Forecasts go to values, as many, on the line: the least cost is that of the sorted ones."""

import inspect
import warnings

import numpy as np
import ot


def answer(forecasts, values, most):
    """The cost, the mass that was moved, and whether there was a warning."""
    mass, costs = np.ones(len(values)), np.abs(np.subtract.outer(forecasts, values))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cost, log = ot.emd2(mass, mass, costs, numItermax=most, log=True, return_matrix=True)
    return cost, log["G"].sum() / len(values), bool(caught)


near, half = np.array([0.5, 0.6, 0.7, 0.8]), np.full(4, 0.5)
least = np.abs(near - half).sum()
few = {most: answer(near, half, most) for most in (1, 2, 4, 100)}
for most, (cost, moved, warned) in few.items():
    print(f"four, {most} iterations: cost {cost:.1f} of {least:.1f}, {moved:.0%} of the mass, warning: {warned}")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    stopped = ot.solve(np.abs(np.subtract.outer(near, half)), max_iter=1)
print(f"ot.solve, 1 iteration: value {stopped.value}, status: {stopped.status}")

rng = np.random.default_rng(0)
forecasts, values = np.sort(rng.random(4000)), np.sort(rng.random(4000))
exact = np.abs(forecasts - values).sum()
many = {most: answer(forecasts, values, most) for most in (1, 2000, 10_000, 100_000, 1_000_000)}
for most, (cost, moved, warned) in many.items():
    print(f"4000, {most} iterations: {cost / exact:.2f} of the distance, {moved:.0%} moved, warning: {warned}")

# right would be an error, no number, or an upper end
assert abs(few[1][0]) < 1e-12 and few[1][1:] == (0.25, True) and abs(stopped.value) < 1e-12
assert abs(few[2][0] - 0.1) < 1e-12 and few[2][1:] == (0.5, True)
assert many[1][0] < 0.02 * exact and many[2000][0] < 0.5 * exact and many[10_000][0] > 2 * exact
# the default
assert inspect.signature(ot.emd2).parameters["numItermax"].default == 100_000
assert many[100_000][0] > 1.05 * exact and many[100_000][2]
assert abs(many[1_000_000][0] - exact) < 1e-9 * exact and not many[1_000_000][2]
assert abs(few[100][0] - least) < 1e-12 and not few[100][2]
PYTHON
venv/bin/python part.py
