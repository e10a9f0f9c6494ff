"""The steps of docs/extend.md, followed in a copy of the project: tests find the new pieces and hold them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

PAGE = (ROOT / "docs/extend.md").read_text(encoding="utf-8")
STEP = re.compile(r"^```python3\n# ([\w/.]+)(?:, (below: |in place of: )([^\n]*))?\n(.*?)^```$", re.M | re.S)
STEPS: list[tuple[str, str | None, str, str]] = [one.group(1, 2, 3, 4) for one in STEP.finditer(PAGE)]
"""Where each goes, how, at which line, and its code."""
COPIED = ("onlinecal", "adversaries", "simulations", "tests", "docs")
TRIED = {
    "an adversary": ["tests/adversaries/test_protocol.py", "-k", "above-half"],
    "a measure": ["tests/docs/test_reference.py", "-k", "overall_bias or page"],
    "a recalibrator": ["tests/test_estimators.py", "tests/docs/test_reference.py", "-k", "BaseRateMixing"],
    "a verb": ["tests/cli/test_help.py", "tests/docs/test_reference.py", "-k", "count"],
    "a grid": [
        *(f"tests/forecasters/binary/test_{one}.py" for one in ("machines", "bounds")),
        *("-k", "agree_bit_for_bit or nearest_to_the_hint or biases_within"),
    ],
    "imports and types": ["tests/test_imports.py", "tests/test_typing.py"],
}
"""Tests that have to find the pieces, and by which part of their names."""


def followed(source: str | None, how: str | None, line: str, code: str) -> str:
    """A file after a step: with the code below a line or in its place, at the end, or alone."""
    if how is None:
        return code if source is None else source + code
    assert source is not None
    assert source.count(f"\n{line}\n") == 1, line
    kept = f"{line}\n" if how == "below: " else ""
    return source.replace(f"\n{line}\n", f"\n{kept}{code}")


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the project in which all steps were followed."""
    folder = tmp_path_factory.mktemp("house")
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "images")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for path in [*ROOT.glob("*.md"), ROOT / "pyproject.toml"]:
        shutil.copy(path, folder)
    for path, *step in STEPS:
        place = folder / path
        place.write_text(followed(place.read_text() if place.exists() else None, *step))
    return folder


def run_in(folder: Path, *command: str) -> str:
    """What Python prints there."""
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_each_step_names_a_place_that_is_there_and_leaves_a_source_that_can_be_read():
    assert len(STEPS) == PAGE.count("```python3") >= 9
    sources: dict[str, str] = {}
    for path, *step in STEPS:
        place = ROOT / path
        assert place.parent.is_dir()
        before = place.read_text() if place.exists() else None
        sources[path] = followed(sources.get(path, before), *step)
        ast.parse(sources[path])


def test_the_page_names_only_files_that_are_there():
    made = {path for path, how, *_ in STEPS if how is None}
    for path in set(re.findall(r"`((?:onlinecal|adversaries|simulations|tests)/[\w/.]*)`", PAGE)) - made:
        assert (ROOT / path).exists(), path
    grids = ROOT / "onlinecal/forecasters/binary"
    section = PAGE[PAGE.index("## A grid") : PAGE.index("## A baseline")]
    for name in re.findall(r"`(\w+\.py)`", section):
        assert (grids / name).exists(), name
    contract = (grids / "contract.py").read_text()
    for name in re.findall(r"`([A-Z_]+|promise|check_grid)`", section):
        assert name in contract, name


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRIED)
def test_tests_find_the_new_pieces(copy, kind):
    # pytest fails where it finds none
    run_in(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TRIED[kind])


@pytest.mark.slow
def test_the_new_pieces_work(copy):
    (copy / "games.csv").write_text("forecast,outcome\n0.5,1\n0.25,0\n")
    program = """
from onlinecal import adversaries
from onlinecal import AlmostOneStepAhead
from onlinecal.measures import overall_bias
from onlinecal.recalibration import BaseRateMixing
print([adversaries.create("above-half").outcome(p) for p in (0.5, 0.7)])
print(overall_bias([0.5, 0.25], [1, 0]))
forecaster = AlmostOneStepAhead(grid="even", horizon=200)
forecaster.replay([1, 0, 1, 1] * 50)
print(forecaster.certificate <= forecaster.guarantee < 21)
print(BaseRateMixing().fit([[1, 0], [0, 1]], [0, 0]).predict_proba([[0, 1]]))
"""
    assert run_in(copy, "-c", program) == "[1, 0]\n-0.125\nTrue\n[[0.5 0.5]]\n"
    assert run_in(copy, "-m", "onlinecal", "count", "games.csv") == "2 rounds\n"
    signatures = run_in(copy, "-m", "tests.corpus", "none", "--write")
    assert "+onlinecal.measures.overall_bias(forecasts, outcomes)" in signatures
