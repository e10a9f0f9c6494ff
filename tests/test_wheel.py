"""What is installed is one package, whole and the same in every way to install it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import FOLDERS, ROOT

pytestmark = pytest.mark.slow
GRID = """
forecasters = ["balanced"]
adversaries = ["coin"]
rounds = [50]
seeds = [0, 1, 2, 3]
"""


def run(*command: object, folder: Path) -> str:
    """What a command prints in a folder, without this checkout's own paths."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """A wheel made of the checkout, one made of the sdist, and the sdist. They need a package index."""
    folder = tmp_path_factory.mktemp("dist")
    for name, kinds in {"direct": ["--wheel"], "sdist": []}.items():
        run(sys.executable, "-m", "build", *kinds, "--outdir", folder / name, ROOT, folder=folder)
    [direct], [made] = ((folder / name).glob("*.whl") for name in ("direct", "sdist"))
    [source] = (folder / "sdist").glob("*.tar.gz")
    return {"the wheel of the checkout": direct, "the wheel of the sdist": made, "the sdist": source}


def kept() -> set[str]:
    """The files of the checkout that belong to the package, by where they are installed."""
    return {
        str(Path(*package.split("."), path.relative_to(ROOT / folder)))
        for folder, package in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.parametrize("kind", ["the wheel of the checkout", "the wheel of the sdist"])
def test_a_wheel_has_the_files_of_the_checkout_and_no_others(built, kind):
    with zipfile.ZipFile(built[kind]) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == kept()


def test_the_sdist_has_each_file_once(built):
    with tarfile.open(built["the sdist"]) as sdist:
        names = [name.partition("/")[2] for name in sdist.getnames()]
    assert len(names) == len(set(names))
    assert {"adversaries/registry.py", "simulations/demo.toml", "tests/test_wheel.py"} <= set(names)
    assert not [name for name in names if name.startswith(("onlinecal/adversaries", "onlinecal/simulations"))]


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory) -> Path:
    """A clean environment's Python, with all that the package asks for and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder, folder=folder)
    python = folder / "bin" / "python"
    install(python, built["the wheel of the sdist"])
    yield python
    shutil.rmtree(folder)


def install(python: Path, *what: object) -> None:
    """By uv, which takes a third of pip's time, where it is to be had."""
    try:
        run(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *what, folder=ROOT)
    except AssertionError:
        run(python, "-m", "pip", "install", "--quiet", *what, folder=ROOT)


@pytest.mark.parametrize("kind", ["the wheel of the sdist", "the wheel of the checkout", "editable"])
def test_it_plays_sweeps_and_draws_where_a_user_has_folders_of_the_same_names(
    built, environment, tmp_path, kind
):
    what = ["--editable", ROOT] if kind == "editable" else [built[kind]]
    install(environment, "--no-deps", "--force-reinstall", *what)
    for name in ("adversaries", "simulations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one was imported')\n")
    (tmp_path / "grid.toml").write_text(GRID)
    command = environment.with_name("onlinecal")
    assert "200 rounds against coin" in run(command, "simulate", "--rounds", 200, folder=tmp_path)
    run(command, "sweep", "grid.toml", "--jobs", 2, "--out", "out", folder=tmp_path)
    assert len(list((tmp_path / "out" / "games").glob("*.json"))) == 4
    run(command, "plot", "out", folder=tmp_path)
    assert list((tmp_path / "out").rglob("*.png"))
    place = "import onlinecal.adversaries as one; print(one.__file__)"
    installed = Path(run(environment, "-c", place, folder=tmp_path).strip())
    assert installed.is_relative_to(ROOT) == (kind == "editable")
