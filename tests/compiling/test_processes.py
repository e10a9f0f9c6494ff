"""What one process compiles others find, under names of its own, and no kernel leaves its arrays."""

import os
import subprocess
import sys

import pytest


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

for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
    if not info.name.endswith("__main__") and not info.name.startswith("onlinecal.cli"):
        importlib.import_module(info.name)
print(len(kernels), *sorted(f"{k.py_func.__module__} {fingerprint(k.py_func)!r}" for k in kernels))
"""


def test_every_kernel_of_the_library_is_kept_and_the_same_in_every_process():
    found = said(ALL)
    assert int(found[0]) > 70
    assert found == said(ALL)


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
            x += int(math.sin(x) + math.cos(x) + math.tan(x) + math.exp(x) + math.log(x) + math.sinh(x)) // 99
            x += int(math.asin(x) + math.acos(x) + math.atan(x) + math.cosh(x) + math.tanh(x)) // 99
            x += int(math.sin(2 * x) + math.cos(2 * x) + math.tan(2 * x) + math.exp(-x) + math.log(2 * x)) // 99
            x += int(math.sin(3 * x) + math.cos(3 * x) + math.tan(3 * x) + math.exp(-3 * x)) // 99
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
import sys
import numba.core.codegen, numba.core.options, numba.core.typed_passes
from numba.core.compiler import CompileResult

place, name, how = sys.argv[1:]
owner = CompileResult if place == "CompileResult" else getattr(numba.core, place)
owner = owner.DefaultOptions if place == "options" else owner
if how == "is missing":
    delattr(owner, name)
else:
    def otherwise(*given):
        raise TypeError("takes something else")
    setattr(owner, name, type(name, (), {"__init__": otherwise}) if name[0].isupper() else otherwise)

import numpy as np
from onlinecal.compiling import compiled, counting, inlined, uncounted
from onlinecal.compiling import ingredients

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


@compiled
def kernel(values):
    return doubled(values) + largest(values)


with counting() as now:
    print(kernel(np.array([1, 5, 3])), now.loops)
"""


@pytest.mark.parametrize(
    "place, name, how, kept",
    [
        ("codegen", "JITCodeLibrary", "is missing", False),
        ("typed_passes", "NativeLowering", "is missing", False),
        ("options", "_nrt", "is missing", True),
        ("CompileResult", "_reduce", "is missing", False),
        ("CompileResult", "_rebuild", "is missing", False),
        ("CompileResult", "_reduce", "answers otherwise", False),
        ("codegen", "JITCodeLibrary", "answers otherwise", False),
    ],
)
def test_where_numba_lacks_a_private_name_all_goes_on(tmp_path, place, name, how, kept):
    settings = {"NUMBA_CACHE_DIR": str(tmp_path)}
    found = [said(WITHOUT, place, name, how, **settings) for _ in range(2)]
    assert found == [["15", "1"], ["15", "0" if kept else "1"]]


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
