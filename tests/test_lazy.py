"""Names that are loaded when they are first asked for: kept then, all told, and found without sources."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onlinecal
from tests import FOLDERS, ROOT

PROGRAM = """
import onlinecal
from onlinecal import AlmostOneStepAhead

forecaster = AlmostOneStepAhead()
for outcome in [0, 1, 1]:
    forecaster.observe(forecaster.forecast(), outcome)
print(onlinecal.__file__)
print(forecaster.certificate, sorted(onlinecal.__all__), len(onlinecal.adversaries.describe()))
"""


def said(folder: Path) -> tuple[str, str]:
    """Where the package of a folder is loaded from, and what it says."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    place, _, rest = ran.stdout.partition("\n")
    return place, rest


def test_submodules_are_attributes_and_all_names_are_told():
    assert {"plots", "measures", "engine", "adversaries", "simulations"} <= set(dir(onlinecal))
    assert {"AlmostOneStepAhead", "__all__", "__file__"} <= set(dir(onlinecal))
    assert onlinecal.measures.__name__ == "onlinecal.measures"


def test_a_name_is_kept_once_it_was_asked_for(monkeypatch):
    monkeypatch.delitem(vars(onlinecal), "chance_level", raising=False)
    first = onlinecal.chance_level
    assert vars(onlinecal)["chance_level"] is first is onlinecal.measures.chance_level


def test_names_are_found_without_sources(tmp_path):
    for folder, package in FOLDERS.items():
        place = tmp_path.joinpath(*package.split("."))
        shutil.copytree(ROOT / folder, place, ignore=shutil.ignore_patterns("__pycache__", *FOLDERS))
    assert compileall.compile_dir(tmp_path, legacy=True, quiet=2)
    for source in tmp_path.rglob("*.py"):
        source.unlink()
    place, answers = said(tmp_path)
    assert place == str(tmp_path / "onlinecal" / "__init__.pyc")
    assert answers == said(ROOT)[1]
