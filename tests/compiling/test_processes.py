"""What one process compiles others find, under names of its own, and no kernel leaves its arrays."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil
import onlinecal
from onlinecal.compiling.cache import fingerprint
from onlinecal.compiling.kernels import kernels

for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
    if not info.name.endswith("__main__") and not info.name.startswith("onlinecal.cli"):
        importlib.import_module(info.name)
found = sorted(f"{k.py_func.__module__} {fingerprint(k.py_func)!r}" for k in kernels)
print("\\n".join(found))
"""


def test_every_kernel_of_the_library_is_kept_and_the_same_in_every_process():
    first, second = (
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert len(first.splitlines()) > 70
    assert first == second


NAMED = """
import os
from onlinecal.compiling import compiled


def named():
    @compiled
    def plus(x):
        return x + 1

    assert plus(1) == 2
    [found] = plus.overloads.values()
    # in one piece: two processes write into this pipe
    os.write(1, f"{found.fndesc.llvm_func_name}\\n".encode())


child = os.fork() if hasattr(os, "fork") else None
named()
if child == 0:
    os._exit(0)
if child is not None:
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_kernel_has_another_name_in_every_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(NAMED)
    names = []
    for run in range(2):
        # with a cache of its own each compiles
        told = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / str(run))}
        done = subprocess.run([sys.executable, program], env=told, capture_output=True, text=True, check=True)
        names += done.stdout.split()
    # parent and child share a cache: the later one may have loaded what the earlier one named
    assert 2 <= len(set(names)) <= len(names) == 4
    assert not set(names[:2]) & set(names[2:])


CHECKED = """
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


def test_no_kernel_reaches_beyond_its_arrays():
    """Code that checks every place, without optimisation, which would take longer than it saves.

    It is kept beside the usual code, as code by other settings.
    """
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKED],
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["checked", "done"], done.stderr
