"""docs/keep-a-model.md: what was written goes on, in another process, another Python, and out of MLflow."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests import ROOT, keeping_program

PROGRAM = ROOT / "tests" / "keeping_program.py"
PAGE = ROOT / "docs" / "keep-a-model.md"
PINNED = [f"{name}=={version(name)}" for name in ("numpy", "scipy", "numba", "river", "scikit-learn")]
MLFLOW = "3.17.2"


def ran(*command: object, folder: Path = ROOT) -> str:
    """What a command prints."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(python: object, folder: Path, *packages: str) -> Path:
    """An interpreter with onlinecal, and with the versions of packages that run here; they are downloaded."""
    ran(python, "-m", "venv", folder)
    ran(folder / "bin" / "python", "-m", "pip", "install", "--quiet", ROOT, *PINNED, *packages)
    return folder / "bin" / "python"


@pytest.mark.filterwarnings("ignore")
def test_everything_goes_on_to_the_last_bit_in_another_process(tmp_path):
    keeping_program.write(tmp_path)
    assert json.loads(ran(sys.executable, PROGRAM, "go-on", tmp_path)) == keeping_program.go_on(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("minor", [12, 13, 14])
def test_everything_goes_on_in_another_python_and_back(minor, tmp_path):
    other = shutil.which(f"python3.{minor}")
    # one of pyenv may be on the path and refuse to run
    runs = other is not None and subprocess.run([other, "-c", ""], capture_output=True, check=False)
    if not runs or runs.returncode:
        pytest.skip(f"there is no python3.{minor}")
    python = environment(other, tmp_path / "environment")
    for number, (writer, reader) in enumerate([(sys.executable, python), (python, sys.executable)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        written = ran(writer, PROGRAM, "write", folder)
        assert ran(reader, PROGRAM, "go-on", folder) == written


@pytest.mark.slow
def test_the_recipe_for_mlflow_goes_on_in_a_new_process(tmp_path):
    """The scripts that the page shows, each in a process of its own."""
    page = PAGE.read_text(encoding="utf-8")
    scripts = [PAGE.parent / name for name in re.findall(r"^```\{literalinclude\} (.*)$", page, re.M)]
    assert len(scripts) == 2
    assert f"mlflow {MLFLOW}" in page
    python = environment(sys.executable, tmp_path / "environment", f"mlflow=={MLFLOW}")
    said = [ran(python, script, folder=tmp_path).splitlines()[-1] for script in scripts]
    assert said[0] == said[1]
