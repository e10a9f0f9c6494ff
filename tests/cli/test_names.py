"""Names with control characters: shown, never obeyed by the terminal."""

from __future__ import annotations

import json

import pytest

from onlinecal.cli.output import answer, printable, table
from onlinecal.engine import Engine, Outcome, Query
from tests.engine.fault_tools import changed, command
from tests.engine.scripts import quick_folder

EVIL = "rain\x1b[2J\x9b31m\u202eoslo\x07\r\n\u2028\x85\u200f\x7f\U000e0001[bold]"
SPELT = r"rain\x1b[2J\x9b31m\u202eoslo\x07\r\n\u2028\x85\u200f\x7f\U000e0001[bold]"


@pytest.fixture
def folder():
    with quick_folder() as folder:
        with Engine(folder / "ledger.db") as engine:
            engine.handle([Query(EVIL, EVIL), Query("b", EVIL), Outcome("b", 1)])
        yield folder


def said(folder, *arguments):
    """The exit code and all that was said, in which nothing is obeyed."""
    code, out, told = command(folder, "stream", *arguments)
    assert all(sign.isprintable() or sign == "\n" for sign in out.decode() + told)
    return code, out.decode() + told


def test_control_characters_are_written_out():
    assert printable("plain é \U0001f600 [x]\\") == "plain é \U0001f600 [x]\\"
    assert printable("a\x1b[31m\x9b\u202e\n\U000e0001\ud800") == r"a\x1b[31m\x9b\u202e\n\U000e0001\ud800"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


def test_verbs_show_names_as_they_are_spelt(folder):
    ledger = folder / "ledger.db"
    code, text = said(folder, "report", "--ledger", ledger, "--sort", "name")
    assert (code, text.count(SPELT)) == (0, 3)
    code, text = said(folder, "report", "--ledger", ledger, "--json")
    assert (code, json.loads(text)["keys"][0]["name"]) == (0, EVIL)
    changed(ledger, "UPDATE queries SET probability = 0.123 WHERE number = 1", with_sums=True)
    for more in ([], ["--json"]):
        for verb in (["check"], ["repair", "--into", folder / f"saved{len(more)}.db"]):
            code, text = said(folder, *verb, "--ledger", ledger, *more)
            assert (code, "rain" in text) == (1, True)


@pytest.mark.parametrize("verb", ["report", "check"])
def test_refusals_and_titles_show_paths_as_they_are_spelt(folder, verb):
    odd = folder / "x\x1b[2J\u202e[red].db"
    for expected in (2, 0):
        code, text = said(folder, verb, "--ledger", odd)
        assert code == expected
        assert r"x\x1b[2J\u202e[red].db" in text
        if expected:
            (folder / "ledger.db").rename(odd)


def test_square_brackets_in_tables_are_shown(capsys):
    spec = "two-phase:first=[linear-drift:start=0.2],second=[bold]"
    answer(False, {}, [table(f"of {spec}", ["adversary", "p[a]"], [[spec, "[red]1"]])])
    shown = capsys.readouterr().out
    assert shown.count(spec) == 2
    assert "p[a]" in shown
    assert "[red]1" in shown
