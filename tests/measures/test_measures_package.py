from __future__ import annotations

import doctest
import subprocess
import sys
from importlib import import_module

import pytest

import onlinecal.measures

MODULES = [
    "distance.calibration_distance",
    "distance.levels",
    "distance.fractional.lower",
    "expected",
    "monitor",
    "smooth",
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_show_what_really_comes_out(module):
    results = doctest.testmod(import_module(f"onlinecal.measures.{module}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_every_public_name_is_there():
    for name in onlinecal.measures.__all__:
        assert callable(getattr(onlinecal.measures, name))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = onlinecal.measures.nonsense


def test_importing_the_measures_loads_neither_compiler_nor_solver():
    code = "import sys, onlinecal.measures; sys.exit('numba' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
