"""What one process compiles others find, under names of its own, and no kernel leaves its arrays."""

import os
import subprocess
import sys

import pytest

from tests import ROOT


def said(program, *arguments, **settings):
    """The words that a program prints in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


ALL = """
import importlib, pkgutil
import onlinecal
from onlinecal.compiling.ingredients import fingerprint
from onlinecal.compiling.kernels import kernels

without = "cli", "plots", "spark", "http", "__main__"
for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
    if not set(info.name.split(".")) & set(without):
        importlib.import_module(info.name)
print(len(kernels), *sorted(f"{k.py_func.__module__} {fingerprint(k.py_func)!r}" for k in kernels))
"""


def test_every_kernel_of_the_library_is_kept_and_the_same_in_every_process():
    first, second = (said(ALL, PYTHONHASHSEED=seed) for seed in "12")
    assert int(first[0]) > 70
    assert first == second


VERSIONS = """
import math
import sys
from numba import int64, njit
from onlinecal.compiling import address_of, compiled, counting, ingredients, kernel_part
from onlinecal.compiling.instructions import called

ingredients.is_ours = lambda path: True


def make(number):
    @kernel_part
    def part(x):
        for place in range(x):
            # so much that it stays a call
            x += int(abs(math.sin(x) + math.cos(x) + math.tan(x) + math.exp(x) + math.log(x))) // 10**9
            x += int(abs(math.asin(x) + math.acos(x) + math.atan(x) + math.cosh(x) + math.tanh(x))) // 10**9
            x += int(abs(math.sin(2 * x) + math.cos(2 * x) + math.tan(2 * x) + math.exp(-x))) // 10**9
            x += int(abs(math.sin(3 * x) + math.cos(3 * x) + math.tan(3 * x) + math.exp(-3 * x))) // 10**9
        return x + number

    @compiled
    def kernel(x):
        return part(x) + part(0) - number

    return kernel


@compiled
def call(function, x):
    return called(function, x)


before, after = njit(lambda x: x), njit(lambda x: x)
before(1)
with counting() as now:
    versions = [make(int(word)) for word in sys.argv[1:]]
    answers = [version(1) for version in versions]
# only now, when all are loaded
answers += [call(address_of(version, int64(int64)), 1) for version in versions]
after(1)
numbers = [list(each.overloads.values())[0].fndesc.uid for each in (before, after)]
print(*answers, now.loops, max(numbers) < 100)
"""


def test_two_versions_of_one_loop_by_two_processes_are_told_apart_in_a_third(tmp_path):
    place = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert said(VERSIONS, "1", **place) == ["2", "2", "1", "True"]
    assert said(VERSIONS, "2", **place) == ["3", "3", "1", "True"]
    # both are there; functions of others have the numbers that numba gives
    assert said(VERSIONS, "1", "2", **place) == ["2", "3", "2", "3", "0", "True"]


WITHOUT = """
import os, sys
import numpy as np
import numba.core.codegen, numba.core.options, numba.core.typed_passes
from numba.core.compiler import CompileResult
from numba.extending import overload


def otherwise(*given):
    raise TypeError("takes something else")


class Otherwise:
    def __init__(self, *given):
        otherwise()


def play():
    from onlinecal.compiling import compiled, counting, ingredients, inlined, uncounted

    ingredients.is_ours = lambda path: True

    @uncounted
    def largest(values):
        found = values[0]
        for value in values:
            found = max(found, value)
        return found

    @inlined
    def doubled(values):
        return 2 * largest(values)

    def kernel(values):
        return doubled(values) + largest(values)

    with counting() as now:
        answers = [compiled(kernel)(np.array([1, 5, 3])) for again in range(2)]
    return *answers, now.loops


for case in sys.argv[1:]:
    place, name, how = case.split()
    owner = CompileResult if place == "CompileResult" else getattr(numba.core, place)
    owner = owner.DefaultOptions if place == "options" else owner
    child = os.fork()
    if child == 0:
        os.environ["NUMBA_CACHE_DIR"] = numba.core.config.CACHE_DIR = os.path.join(os.getcwd(), case)
        if how == "missing":
            delattr(owner, name)
        else:
            setattr(owner, name, Otherwise if name[0].isupper() else otherwise)
        os.write(1, f"{case}: {play()}\\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
"""
NAMES = {
    "codegen JITCodeLibrary missing": 2,
    "codegen JITCodeLibrary otherwise": 2,
    "typed_passes NativeLowering missing": 2,
    "CompileResult _reduce missing": 2,
    "CompileResult _reduce otherwise": 2,
    "CompileResult _rebuild missing": 2,
    "options _nrt missing": 1,
}
"""Private names of numba, and how often a kernel is compiled in two attempts without them."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_where_numba_lacks_a_private_name_all_goes_on(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT, *NAMES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{name}: (15, 15, {loops})" for name, loops in NAMES.items()], (
        done.stderr
    )


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


@pytest.mark.slow
def test_no_kernel_reaches_beyond_its_arrays():
    """Code that checks every place, without optimisation, which would take longer than it saves.

    It is kept beside the usual code, as code by other settings. The small form is what the interpreter plays,
    see `test_interpreted`.
    """
    assert said(CHECKED, NUMBA_BOUNDSCHECK="1", NUMBA_OPT="0") == ["checked", "done"]
