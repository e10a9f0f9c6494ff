"""What --help says fits the terminal, whatever the width at which docstrings are written."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise

import pytest
import typer

from onlinecal.simulations.cli.console import app


def verbs(group, name="onlinecal"):
    yield name, group
    for part, verb in getattr(group, "commands", {}).items():
        yield from verbs(verb, f"{name} {part}")


VERBS = dict(verbs(typer.main.get_command(app)))


def prose(name: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The paragraphs above the options, a list of lines each."""
    VERBS[name].main(["--help"], prog_name=name, standalone_mode=False)
    above = re.split(r"^╭", capsys.readouterr().out, flags=re.M)[0]
    lines = [line[1:].rstrip() for line in above.splitlines()]
    return [part.split("\n") for part in "\n".join(lines).strip("\n").split("\n\n")]


@pytest.mark.parametrize("name", VERBS)
def test_a_line_of_help_breaks_only_where_the_next_word_does_not_fit(name, monkeypatch, capsys):
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        for lines in prose(name, capsys):
            assert max(map(len, lines)) <= width - 2
            for line, following in pairwise(lines):
                assert len(line) + 1 + len(following.split()[0]) > width - 2, (line, following)


@pytest.mark.parametrize("name", VERBS)
def test_examples_are_shown_and_options_say_in_a_word_what_they_take(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    VERBS[name].main(["--help"], prog_name=name, standalone_mode=False)
    shown = capsys.readouterr().out
    is_group = hasattr(VERBS[name], "commands")
    assert is_group or "warmup" in name or re.search(rf"^ {name}\b", shown, flags=re.M)
    assert not re.search(r"^ Usage:.*[{}]", shown, flags=re.M)
    for line in shown.splitlines():
        assert not re.search(r"--.*(BOOL|list\[|<bool|<int|<str|range\b)", line, flags=re.I), line


def test_no_help_waits_for_compilers_tables_or_plots():
    heavy = ("numba", "numpy", "river", "matplotlib", "polars", "scipy", "sklearn", "joblib")
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from onlinecal.simulations.cli.console import app\n"
        f"for name in {list(VERBS)}:\n"
        "    assert CliRunner().invoke(app, [*name.split()[1:], '--help']).exit_code == 0\n"
        f"print([name for name in {heavy} if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
