"""What one process compiles others find, under names of its own, and no kernel leaves its arrays."""

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

import onlinecal
from onlinecal.compiling.ingredients import fingerprint
from onlinecal.compiling.kernels import kernels
from tests import ROOT


def words(program, *arguments, **settings):
    """The words that a program prints in a fresh process."""
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def every_kernel():
    """Of each kernel of the library its module and fingerprint."""
    without = "cli", "plots", "spark", "http", "__main__"
    for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
        if not set(info.name.split(".")) & set(without):
            importlib.import_module(info.name)
    return fingerprints()


def fingerprints():
    """Of each kernel of the library that is loaded its module and fingerprint."""
    ours = [k.py_func for k in kernels if k.py_func.__module__.startswith("onlinecal.")]
    return {f"{function.__module__}:{fingerprint(function)}" for function in ours}


THERE = f"""
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
from {__name__} import fingerprints
print(*fingerprints())
"""


def test_every_kernel_of_the_library_is_kept_and_the_same_in_every_process():
    here = every_kernel()
    modules = {one.partition(":")[0] for one in here}
    # sets of texts have another order there
    there = set(words(THERE, *modules, PYTHONHASHSEED="1", PYTHONPATH=str(ROOT)))
    assert len(there) > 70
    # other tests may have made more of them here
    assert there <= here


def in_folder(folder):
    """The environment of a process that keeps compiled code in a folder of its own."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder)}


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


def test_two_versions_of_one_loop_by_two_processes_are_told_apart_in_a_third(play, tmp_path):
    def said(*numbers):
        done = play(VERSIONS, *numbers, environment=in_folder(tmp_path))
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert said("1") == ["2", "2", "1", "True"]
    assert said("2") == ["3", "3", "1", "True"]
    # both are there; functions of others have the numbers that numba gives
    assert said("1", "2") == ["2", "3", "2", "3", "0", "True"]


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
    def larger(values):
        return max(values[0], values[1])

    @inlined
    def doubled(values):
        return 2 * larger(values)

    def kernel(values):
        return doubled(values) + larger(values)

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
            if place == "options":
                # where numba has looked it up
                delattr(numba.core.cpu._options_mixin, name)
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
    "typed_passes NopythonTypeInference missing": 2,
    "CompileResult _reduce missing": 2,
    "CompileResult _reduce otherwise": 2,
    "CompileResult _rebuild missing": 2,
    "options _nrt missing": 1,
}
"""Private names of numba, and how often a kernel is compiled in two attempts without them."""


def test_where_numba_lacks_a_private_name_all_goes_on(play, tmp_path):
    done = play(WITHOUT, *NAMES, environment=in_folder(tmp_path), cwd=tmp_path)
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
recalibrate_stream(hints, outcomes, settled_at=np.arange(60) + 5)
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
    assert words(CHECKED, NUMBA_BOUNDSCHECK="1", NUMBA_OPT="0") == ["checked", "done"]


TURNS = """
import os, signal
from contextlib import suppress
from onlinecal.compiling import compiled, folder, ingredients

ingredients.is_ours = lambda path: True
folder.LONGEST_WAIT = 1e9
ready, go = os.pipe()
started, start = os.pipe()
child = os.fork()
if child == 0:
    folder.take_turn("kernel")
    os.write(start, b".")
    os.read(ready, 1)
    folder.write("kernel", b"code")
    # its turn ends with it
    os._exit(0)
os.read(started, 1)
folder.take_turn("other")
print(folder.read("kernel"))
os.write(go, b".")
folder.take_turn("kernel")
print(folder.read("kernel"))
folder.end_turn()

@compiled
def unknown(x):
    return x.unknown

def fails():
    with suppress(Exception):
        unknown(1)
fails()
child = os.fork()
if child == 0:
    # whoever waits for the process whose attempt has failed is ended
    signal.alarm(20)
    fails()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_process_waits_for_another_only_while_that_compiles_the_same_kernel(play, tmp_path):
    done = play(TURNS, environment=in_folder(tmp_path))
    assert done.stdout.split() == ["None", "b'code'", "0"], done.stderr
