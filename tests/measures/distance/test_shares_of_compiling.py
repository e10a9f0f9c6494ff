"""Two processes that compile a share each have all that brackets need."""

import subprocess
import sys

PROGRAM = """
import numpy as np
from onlinecal.compiling.kernels import kernels
from onlinecal.measures import calibration_distance, smooth_calibration_error
from onlinecal.measures.distance.shares_of_compiling import SHARES

def compiled():
    return sorted((kernel.__name__, len(kernel.overloads)) for kernel in kernels)

for share in SHARES:
    before = compiled()
    share()
    assert compiled() != before
before = compiled()
rng = np.random.default_rng(0)
for rounds in (100, 1000, 4000):
    forecasts = rng.integers(0, 31, rounds) / 30
    outcomes = rng.random(rounds) < forecasts
    calibration_distance(forecasts, outcomes, budget=0.2)
    smooth_calibration_error(forecasts, outcomes)
assert compiled() == before, set(compiled()) - set(before)
"""


def test_after_both_shares_no_bracket_compiles_anything():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
