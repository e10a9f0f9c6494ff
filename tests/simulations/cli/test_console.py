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

from onlinecal.simulations.cli.console import app
from onlinecal.simulations.sweeps.results import Store
from tests.commands import refused, run

COMMAND = [sys.executable, "-m", "onlinecal"]


@pytest.mark.parametrize(
    "arguments, verb",
    [
        ("--nonsense", "onlinecal"),
        ("measur", "onlinecal"),
        ("simulate --rounds many", "onlinecal simulate"),
        ("recalibrate", "onlinecal recalibrate"),
        ("recalibrate net.csv --method boots", "onlinecal recalibrate"),
        ("stream", "onlinecal stream"),
        ("stream report --nonsense", "onlinecal stream report"),
    ],
)
def test_a_wrong_request_is_pointed_to_its_help(arguments, verb):
    assert refused(*arguments.split()).endswith(f"; try '{verb} --help'")
    assert run(*verb.split()[1:], "--help").exit_code == 0


def test_a_value_that_an_option_does_not_take_and_a_missing_file_are_named(tmp_path):
    for rounds in (["--rounds", "1e3"], ["--rounds=1e3"], ["--rounds", "-1e3"]):
        words = refused("simulate", *rounds)
        assert "'--rounds'" in words
        assert f"got '{rounds[-1].removeprefix('--rounds=')}'" in words
    # which is nothing that help explains
    assert refused("recalibrate", tmp_path / "nowhere.csv").endswith("nowhere.csv")


def completed(words):
    """What bash is offered for the last word."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    given = {"_ONLINECAL_COMPLETE": "complete_bash", **asked}
    answer = CliRunner().invoke(app, [], env=given, prog_name="onlinecal")
    assert (answer.exit_code, answer.stderr) == (0, "")
    return answer.stdout.split()


def test_bash_completes_verbs_and_options_by_a_script_that_asks_the_command():
    assert {"simulate", "sweep", "measure", "stream", "warmup"} <= set(completed("onlinecal "))
    assert completed("onlinecal recalibrate net.csv --method groups --gr") == ["--group"]
    assert completed("onlinecal stream re") == ["report", "repair"]
    # which shell asks is looked up when the command is imported
    given = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [*COMMAND, "--show-completion", "bash"]
    script = subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout
    assert "_ONLINECAL_COMPLETE=complete_bash" in script
    assert "complete -o default -F _onlinecal_completion onlinecal" in script


def test_an_interrupt_says_how_many_games_are_kept_and_the_same_command_goes_on(tmp_path, monkeypatch):
    grid, out, kept = tmp_path / "grid.toml", tmp_path / "out", Store.keep
    grid.write_text(
        'forecasters = ["balanced"]\nadversaries = ["coin"]\nrounds = [40]\nseeds = [1, 2, 3, 4, 5]'
    )

    def keep(store, game, finished):
        kept(store, game, finished)
        if len(store.finished) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Store, "keep", keep)
    interrupted = run("sweep", grid, "--out", out, "--jobs", 1)
    assert interrupted.exit_code == 130
    assert "3 of 5 games are kept" in interrupted.stderr
    assert "the same command goes on from there" in interrupted.stderr
    monkeypatch.undo()
    assert "5 games: 2 played, 3 were there already" in run("sweep", grid, "--out", out, "--jobs", 1).stdout


@pytest.mark.slow
@pytest.mark.parametrize("end, jobs", [(signal.SIGINT, "1"), (signal.SIGINT, "2"), (signal.SIGKILL, "1")])
def test_a_sweep_that_is_interrupted_or_killed_goes_on_from_there(tmp_path, end, jobs):
    grid, out, seeds = tmp_path / "grid.toml", tmp_path / "out", list(range(24))
    grid.write_text(f'forecasters = ["balanced"]\nadversaries = ["coin"]\nrounds = [400]\nseeds = {seeds}')
    command = [*COMMAND, "sweep", str(grid), "--out", str(out), "--jobs", jobs]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(out.glob("games/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, end)
    _, told = process.communicate(timeout=300)
    kept = len(list(out.glob("games/*.json")))
    assert 3 <= kept < 24
    assert "Traceback" not in told
    if end == signal.SIGINT:
        assert process.returncode == 130
        assert "the same command goes on from there" in told
        # with two processes a game may have been on its way back when the line was written
        said = int(re.search(r"(\d+) of 24 games are kept", told)[1])
        assert said == kept if jobs == "1" else said <= kept
    else:
        assert f"24 games: {24 - kept} played, {kept} were there already" in run(*command[3:]).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        "adversaries",
        *(pytest.param(more, marks=pytest.mark.slow) for more in ("measure --help", "--version")),
    ],
)
def test_a_verb_whose_reader_is_gone_ends_quietly(arguments):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*COMMAND, *arguments.split()], stdout=write, stderr=subprocess.PIPE, timeout=300
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
