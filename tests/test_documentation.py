"""What the documentation shows is true: examples run, links lead somewhere, top-level names exist."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import adversaries
import onlinecal
import simulations

ROOT = Path(__file__).parent.parent
MODULES = [
    info.name
    for package in (onlinecal, adversaries, simulations)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not info.name.endswith("__main__")
]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_lines_of_python_in_the_readme_run(capsys):
    names = {"forecasts": [0.2, 0.8, 0.6], "outcomes": [0, 1, 1]}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(block, names)
    *_, certificate = capsys.readouterr().out.split()
    assert float(certificate) < 0.05


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_theory_names_tests_that_exist():
    for path in re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs/theory.md").read_text()):
        assert (ROOT / path).exists(), path


def test_every_top_level_name_can_be_imported():
    for name in onlinecal.__all__:
        assert getattr(onlinecal, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Forecastr'"):
        onlinecal.Forecastr  # noqa: B018
