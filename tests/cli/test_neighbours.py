"""The command in folders that have a `simulations` or an `adversaries` of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onlinecal.cli.neighbours import prefer_neighbours
from tests import ROOT

SCRIPT = "import sys; from onlinecal.__main__ import main; sys.exit(main())"
EDITABLE = f"""
import sys
from importlib.machinery import PathFinder

class Finder:
    # what setuptools leaves in site-packages: asked last, and knows three names
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in ("onlinecal", "adversaries", "simulations"):
            return PathFinder.find_spec(name, [{str(ROOT)!r}])

sys.path[:] = [entry for entry in sys.path if entry != {str(ROOT)!r}]
sys.meta_path.append(Finder)
{SCRIPT}
"""


@pytest.fixture
def research(tmp_path):
    """Somebody's repository, with packages and modules of the same names; all of them raise."""
    (tmp_path / "simulations").mkdir()
    for name in ("simulations/__init__.py", "adversaries.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong one was imported')\n")
    grid = 'forecasters = ["balanced"]\nadversaries = ["coin"]\nrounds = [50]\nseeds = [0, 1, 2, 3]\n'
    (tmp_path / "grid.toml").write_text(grid)
    return tmp_path


def run(folder, start, *arguments, path):
    command = [sys.executable, *start, *map(str, arguments)]
    given = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "start, path",
    [
        (["-m", "onlinecal"], f".{os.pathsep}{ROOT}"),
        (["-c", SCRIPT], f"{os.pathsep}.{os.pathsep}{ROOT}"),
        (["-c", EDITABLE], "."),
    ],
)
def test_the_command_finds_its_own_packages(research, start, path):
    assert "coin" in run(research, start, "adversaries", "--json", path=path)


@pytest.mark.slow
def test_worker_processes_find_them_too(research):
    sweep = ("sweep", "grid.toml", "--jobs", 2, "--out", "out")
    run(research, ["-c", EDITABLE], *sweep, path=f".{os.pathsep}{ROOT}")
    assert len(list((research / "out" / "games").glob("*.json"))) == 4


def test_only_folders_with_such_a_name_move(research, monkeypatch, tmp_path_factory):
    other, site = (str(tmp_path_factory.mktemp(name)) for name in ("other", "site"))
    monkeypatch.setattr(sys, "path", [str(research), other, str(ROOT), site])
    prefer_neighbours()
    assert sys.path == [other, str(ROOT), str(research), site]
    monkeypatch.setattr(sys, "path", [str(research), other])
    prefer_neighbours()
    assert sys.path == [other, str(ROOT), str(research)]
