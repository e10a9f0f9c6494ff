"""The installed command, as a shell sees it."""

import os
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "simulations"]
HEAVY = ("numba", "river", "matplotlib", "polars", "scipy", "sklearn", "joblib")


def test_a_wrong_request_is_one_line_without_a_traceback():
    answer = subprocess.run([*COMMAND, "simulate", "--adversary", "nobody"], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert "Traceback" not in answer.stderr


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from simulations.cli.console import app\n"
        "for verb in ([], ['simulate'], ['sweep'], ['plot'], ['adversaries']):\n"
        "    assert CliRunner().invoke(app, [*verb, '--help']).exit_code == 0\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_results_and_progress_do_not_mix():
    first, answer = (
        subprocess.run([*COMMAND, "simulate", "--rounds", "100"], capture_output=True, text=True)
        for _ in range(2)
    )
    # the first run may have had to compile, and says so
    assert first.stdout == answer.stdout
    assert answer.returncode == 0
    assert answer.stderr == ""
    assert "100 rounds against coin" in answer.stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_sweep_says_how_to_go_on(tmp_path, jobs):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        f'forecasters = ["balanced"]\nadversaries = ["coin"]\nrounds = [400]\nseeds = {list(range(400))}'
    )
    out = tmp_path / "out"
    command = [*COMMAND, "sweep", str(grid), "--out", str(out), "--jobs", jobs]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(out.glob("cells/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in told
    assert "Traceback" not in told
    kept = len(list(out.glob("cells/*.json")))
    assert f"{kept} of 400 games are kept" in told or jobs == "2"
