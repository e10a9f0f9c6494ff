"""What one process compiles others find, under names of its own, and no kernel leaves its arrays."""

import os
import subprocess
import sys

import pytest


def said(program, **settings):
    """The words that a program prints in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


ALL = """
import importlib, pkgutil
import onlinecal
from onlinecal.compiling.cache import fingerprint
from onlinecal.compiling.kernels import kernels

for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
    if not info.name.endswith("__main__") and not info.name.startswith("onlinecal.cli"):
        importlib.import_module(info.name)
print(len(kernels), *sorted(f"{k.py_func.__module__} {fingerprint(k.py_func)!r}" for k in kernels))
"""


def test_every_kernel_of_the_library_is_kept_and_the_same_in_every_process():
    found = said(ALL)
    assert int(found[0]) > 70
    assert found == said(ALL)


NAMED = """
import os
from onlinecal.compiling import compiled

child = os.fork()
kernel = compiled(lambda x: x + 1)
assert kernel(1) == 2
[found] = kernel.overloads.values()
# in one piece: two processes write into this pipe
os.write(1, f"{found.fndesc.llvm_func_name}\\n".encode())
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_kernel_has_another_name_in_every_process(tmp_path):
    # with a cache of its own each compiles
    names = [said(NAMED, NUMBA_CACHE_DIR=str(tmp_path / run)) for run in ("one", "other")]
    # parent and child share a cache: the later one may have loaded what the earlier one named
    assert [len(both) for both in names] == [2, 2]
    assert not set(names[0]) & set(names[1])


CHECKED = """
import numpy as np
from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead, recalibrate_stream
from onlinecal import calibration_distance, multiclass_calibration_distance
from onlinecal.compiling import compiled

try:
    compiled(lambda array, place: array[place])(np.zeros(3), 3)
except IndexError:
    print("checked")

rng = np.random.default_rng(10)
p, y = rng.dirichlet(np.ones(3), 60), (rng.random(60) < 0.06).astype(int)
# nearly all rounds are of one class, so most level sets have one and the same mean
multiclass_calibration_distance(p, y, budget=0.01, method="bracket")
multiclass_calibration_distance(p[:20], rng.dirichlet(np.ones(3), 20), budget=0.01)
hints = rng.random(60).round(1)
outcomes = rng.random(60) < hints
calibration_distance(hints, outcomes, method="exact")
calibration_distance(rng.random(60), outcomes, method="bracket", budget=0.01)
AlmostOneStepAhead(horizon=60, hints=True).replay(outcomes, hints)
recalibrate_stream(hints, outcomes, np.arange(60) + 5)
simplex = SimplexAlmostOneStepAhead(3, horizon=60)
for label in y:
    simplex.observe(simplex.forecast(), label)
print("done")
"""


def test_no_kernel_reaches_beyond_its_arrays():
    """Code that checks every place, without optimisation, which would take longer than it saves.

    It is kept beside the usual code, as code by other settings.
    """
    assert said(CHECKED, NUMBA_BOUNDSCHECK="1", NUMBA_OPT="0") == ["checked", "done"]
