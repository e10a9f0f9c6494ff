"""What `warmup` compiles is everything that there is, and nobody has to wait after it."""

import pkgutil
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
from simulations.cli.console import demonstration_games


@pytest.fixture(scope="module")
def warm():
    # what other tests have made in this process, of versions of which nobody need have made these
    before = {id(kernel) for kernel in kernels if "<locals>" in kernel.py_func.__qualname__}
    for step in LIBRARY.values():
        step()
    return before


def test_every_kernel_of_the_library_is_on_the_list(warm):
    extras = {"http": "starlette", "spark": "pyspark"}
    for module in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
        needed = [library for part, library in extras.items() if f".{part}" in module.name]
        if not any(util.find_spec(library) is None for library in needed):
            import_module(module.name)
    ours = [kernel for kernel in kernels if kernel.py_func.__module__.startswith("onlinecal.")]
    # the baselines' entry points are made when one of them is first played, so they need not be here
    # what only kernels call has no code of its own when they were loaded
    called = {name for kernel in ours if kernel.overloads for name in kernel.py_func.__code__.co_names}
    known = [k for k in ours if id(k) not in warm]
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("what", LIBRARY)
def test_nobody_is_warned_of_what_was_made_up_to_compile(warm, what):
    LIBRARY[what]()


def test_the_verb_says_what_it_did(warm):
    app, taken = typer.Typer(), []
    app.command()(warmup_with(lambda: [("something else", lambda: taken.append(True))]))
    answer = CliRunner().invoke(app, [])
    assert answer.exit_code == 0
    assert "everything was there already, in" in answer.stdout
    assert taken == [True]


def test_the_demonstrations_games_are_on_the_verbs_list():
    names = dict(demonstration_games())
    assert "sign against coin" in names
    assert "balanced against coin" not in names, "the same loop as that of sign"
    assert "nested against two-phase" in names
    assert len(names) == 30
