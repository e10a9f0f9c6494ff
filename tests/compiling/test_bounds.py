"""Kernels stay within their arrays: a fresh process runs those that find their places themselves, checked."""

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead, calibration_distance
from onlinecal.compiling import compiled
from onlinecal.measures import multiclass_calibration_distance
from onlinecal.steering.binary import hint_of, learn_outcome, new_steering

try:
    compiled(lambda array, place: array[place])(np.zeros(3), 3)
except IndexError:
    print("checked")

rng = np.random.default_rng(10)
p = rng.dirichlet(np.ones(3), 60)
# nearly all rounds are of one class, so most level sets have one and the same mean
y = (rng.random(60) < 0.06).astype(int)
multiclass_calibration_distance(p, y, budget=0.01, method="bracket")
multiclass_calibration_distance(p[:20], rng.dirichlet(np.ones(3), 20), budget=0.01)
hints = rng.random(60).round(1)
outcomes = rng.random(60) < hints
calibration_distance(hints, outcomes, method="exact")
calibration_distance(rng.random(60), outcomes, method="bracket", budget=0.01)
AlmostOneStepAhead(horizon=60, hints=True).replay(outcomes, hints)
steering = new_steering()
for hint, outcome in zip(hints, outcomes):
    hint_of(steering, hint)
    learn_outcome(steering, int(outcome))
simplex = SimplexAlmostOneStepAhead(3, horizon=60)
for label in y:
    simplex.observe(simplex.forecast(), label)
print("done")
"""


def test_no_kernel_reaches_beyond_its_arrays(tmp_path):
    """Code that checks every place, without optimisation, which would take longer than it saves."""
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["checked", "done"], done.stderr
