"""The installed command, as a shell sees it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from simulations.cli.console import app

COMMAND = [sys.executable, "-m", "onlinecal"]


def test_a_wrong_request_is_one_line_without_a_traceback():
    answer = subprocess.run([*COMMAND, "simulate", "--adversary", "nobody"], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "arguments, verb",
    [
        ("--nonsense", "onlinecal"),
        ("measur", "onlinecal"),
        ("simulate --rounds many", "onlinecal simulate"),
        ("simulate --adversary nobody", "onlinecal simulate"),
        ("recalibrate", "onlinecal recalibrate"),
        ("recalibrate net.csv --nonsense y", "onlinecal recalibrate"),
        ("recalibrate net.csv --method boots", "onlinecal recalibrate"),
        ("stream", "onlinecal stream"),
        ("stream report --nonsense", "onlinecal stream report"),
    ],
)
def test_a_wrong_request_is_pointed_to_the_help_of_its_verb(arguments, verb):
    answer = CliRunner().invoke(app, arguments.split())
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.endswith(f"; try '{verb} --help'\n")
    assert CliRunner().invoke(app, [*verb.split()[1:], "--help"]).exit_code == 0


def test_a_value_that_an_option_does_not_take_and_a_missing_file_are_named(tmp_path):
    for rounds in (["--rounds", "1e3"], ["--rounds=1e3"], ["--rounds", "-1e3"]):
        answer = CliRunner().invoke(app, ["simulate", *rounds])
        assert answer.exit_code == 2
        assert "'--rounds'" in answer.stderr
        assert f"got '{rounds[-1].removeprefix('--rounds=')}'" in answer.stderr
    # which is nothing that help explains
    answer = CliRunner().invoke(app, ["recalibrate", str(tmp_path / "nowhere.csv")])
    assert answer.exit_code == 2
    assert answer.stderr.endswith("nowhere.csv\n")


def completed(words):
    """What bash is offered for the last word."""
    asked = {
        "_ONLINECAL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    answer = subprocess.run(COMMAND, env={**os.environ, **asked}, capture_output=True, text=True)
    assert answer.stderr == ""
    return answer.stdout.split()


def test_bash_completes_verbs_and_options():
    assert completed("onlinecal re") == ["recalibrate"]
    assert {"simulate", "sweep", "measure", "stream", "warmup"} <= set(completed("onlinecal "))
    assert completed("onlinecal recalibrate net.csv --fe") == ["--features"]
    assert completed("onlinecal recalibrate net.csv --method groups --gr") == ["--group"]
    assert completed("onlinecal stream re") == ["report", "repair"]


def test_the_completion_script_asks_the_command():
    shell = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [*COMMAND, "--show-completion", "bash"]
    answer = subprocess.run(command, env={**os.environ, **shell}, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert "_ONLINECAL_COMPLETE=complete_bash" in answer.stdout
    assert "complete -o default -F _onlinecal_completion onlinecal" in answer.stdout


def test_results_and_progress_do_not_mix():
    # the first run may have to compile, and says so
    first = CliRunner().invoke(app, ["simulate", "--rounds", "100"])
    answer = subprocess.run([*COMMAND, "simulate", "--rounds", "100"], capture_output=True, text=True)
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
    while len(list(out.glob("games/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "the same command goes on from there" in told
    assert "Traceback" not in told
    kept = len(list(out.glob("games/*.json")))
    # with two processes a game may have been on its way back when the line was written
    said = int(re.search(r"(\d+) of 400 games are kept", told)[1])
    assert 3 <= said <= 400
    assert said == kept if jobs == "1" else said <= kept


@pytest.mark.parametrize(
    "arguments", [["measure", "--help"], ["adversaries"], ["adversaries", "--json"], ["--version"]]
)
def test_a_verb_whose_reader_is_gone_ends_quietly(arguments):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "onlinecal", *arguments], stdout=write, stderr=subprocess.PIPE, timeout=300
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
