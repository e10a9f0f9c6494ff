"""What `warmup` compiles is everything that there is, and nobody has to wait after it."""

import os
import pkgutil
import re
import subprocess
import sys
import warnings
from importlib import import_module, util

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import onlinecal
from onlinecal import AlmostOneStepAhead, calibration_distance, smooth_calibration_error
from onlinecal.cli.everything import LIBRARY
from onlinecal.cli.warmup import warmup_with
from onlinecal.compiling import counting
from onlinecal.compiling.kernels import kernels
from onlinecal.simulations.cli.console import usual_games
from onlinecal.simulations.sweeps.plan import find_plan, read_plan
from tests import ROOT


@pytest.fixture(scope="module")
def warm():
    """What was warned of on the way, and what other tests have made of versions of which nobody need have."""
    before = {id(kernel) for kernel in kernels if "<locals>" in kernel.py_func.__qualname__}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in LIBRARY.values():
            step()
    return caught, before


def test_every_kernel_of_the_library_is_on_the_list_and_nobody_is_warned_of_what_was_made_up(warm):
    caught, before = warm
    assert [str(one.message) for one in caught] == []
    extras = {"http": "starlette", "spark": "pyspark"}
    for module in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
        needed = [library for part, library in extras.items() if f".{part}" in module.name]
        if not any(util.find_spec(library) is None for library in needed):
            import_module(module.name)
    ours = [kernel for kernel in kernels if kernel.py_func.__module__.startswith("onlinecal.")]
    # the baselines' entry points are made when one of them is first played, so they need not be here
    # what only kernels call has no code of its own when they were loaded
    called = {name for kernel in ours if kernel.overloads for name in kernel.py_func.__code__.co_names}
    known = [kernel for kernel in ours if id(kernel) not in before]
    unused = [k.py_func for k in known if not k.overloads and k.py_func.__name__ not in called]
    missed = {f"{function.__module__}.{function.__name__}" for function in unused}
    assert missed - {f"onlinecal.forecasters.{name}" for name in LATER} == set()
    assert len(ours) > 30


LATER = {"baselines.baseline.present", "baselines.baseline.advance", "binary.compiled.replay"}


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, float])
@pytest.mark.parametrize("memory", ["plain", "strided", "read-only"])
def test_after_it_other_types_of_arguments_compile_nothing(warm, kind, memory):
    rng = np.random.default_rng(1)
    step = 2 if memory == "strided" else 1
    forecasts = rng.random(200)[::step]
    outcomes = (rng.random(200) < 0.5).astype(kind)[::step]
    for array in (forecasts, outcomes):
        array.flags.writeable = memory != "read-only"
    with counting() as count:
        forecaster = AlmostOneStepAhead(hints=True)
        forecaster.observe(forecaster.forecast(hint=0.8), outcomes[0])
        forecaster.replay(outcomes, forecasts)
        smooth_calibration_error(forecasts, outcomes)
        calibration_distance(forecasts, outcomes)
        calibration_distance(forecasts.tolist()[:9], outcomes.tolist()[:9])
    assert count.loops == 0


def test_the_verb_says_what_it_did(warm):
    app, taken = typer.Typer(), []
    app.command()(warmup_with(lambda: [("something else", lambda: taken.append(True))]))
    answer = CliRunner().invoke(app, [])
    assert (answer.exit_code, taken) == (0, [True])
    assert "everything was there already, in" in answer.stdout


def test_the_usual_games_are_on_the_verbs_list():
    names = {*dict(usual_games())}
    plan = read_plan(find_plan("demo"))
    # a loop belongs to a forecaster, a step to an adversary: no pair is played that brings neither
    assert {f"{name} against coin" for name in plan.forecasters} <= names
    against = {spec.partition(":")[0] for spec in plan.adversaries} | {"epochs", "bisection", "champion"}
    assert {f"balanced against {name}" for name in against} <= names
    assert not {"adaptive against threshold", "paper against two-phase"} & names
    assert {"balanced:window=20 against sequence", "nested of 3 classes"} <= names


AFTER = """
import sys
from onlinecal.compiling import counting
from tests import ROOT
from tests.commands import record
from tests.pages import blocks_of, printed

with counting() as found:
    names = {"__name__": "page"}
    for block in blocks_of(ROOT / "README.md"):
        if block.language == "python":
            printed(block.code, names)
    for line in sys.argv[1:]:
        record(*line.split())
        print(line, found.loops, flush=True)
assert found.loops == 0, found
"""
COMMANDS = """
worst --rounds 10 --jobs 1
simulate
simulate --adversary epochs --forecaster balanced:window=1000
simulate --adversary file:path=nba,outcome=home_won,forecast=forecast
simulate --classes 3
measure nba --draws 19
recalibrate nba
"""


@pytest.mark.slow
def test_after_it_the_readme_and_the_usual_commands_compile_nothing(tmp_path):
    """In a new folder for compiled code; it says nothing but what it did, and takes its time once."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    shared = {"env": env, "capture_output": True, "text": True, "check": True}
    warmed = subprocess.run([sys.executable, "-m", "onlinecal", "warmup"], **shared)
    assert re.fullmatch(r"compiled \d+ loops in \d+ s, kept in \S+\n", warmed.stdout)
    assert all(re.fullmatch(r"compiled: \d+ of \d+", line) for line in warmed.stderr.splitlines())
    subprocess.run([sys.executable, "-c", AFTER, *COMMANDS.strip().splitlines()], cwd=tmp_path, **shared)
