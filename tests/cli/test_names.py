"""Names with control characters: shown, never obeyed by the terminal."""

from __future__ import annotations

import json

import pytest

from onlinecal.cli.output import printable
from onlinecal.engine import Engine, Outcome, Query
from tests.engine.fault_tools import command
from tests.engine.scripts import quick_folder

EVIL = "rain\x1b[2J\x9b31m\u202eoslo\x07\r\n\u2028\x85\u200f\x7f\U000e0001[bold]"


def is_harmless(text):
    return all(sign.isprintable() or sign == "\n" for sign in text)


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def ledger(folder):
    path = folder / "ledger.db"
    with Engine(path) as engine:
        engine.handle([Query(EVIL, EVIL), Query("b", EVIL), Outcome("b", 1)])
    return path


def test_control_characters_are_written_out():
    assert printable("plain é \U0001f600 [x]\\") == "plain é \U0001f600 [x]\\"
    assert printable("a\x1b[31m\x9b\u202e\n\U000e0001\ud800") == r"a\x1b[31m\x9b\u202e\n\U000e0001\ud800"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize("options", [["--sort", "name"], ["--json"]])
def test_a_report_shows_names_as_they_are_spelt(folder, ledger, options):
    code, out, said = command(folder, "stream", "report", "--ledger", ledger, *options)
    assert (code, said) == (0, "")
    text = out.decode()
    assert is_harmless(text)
    if "--json" in options:
        assert json.loads(text)["keys"][0]["name"] == EVIL
    else:
        assert text.count(r"rain\x1b[2J\x9b31m\u202eoslo\x07\r\n\u2028\x85\u200f\x7f\U000e0001[bold]") == 3


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_check_and_repair_show_names_as_they_are_spelt(folder, ledger, options):
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("UPDATE queries SET probability = 0.123 WHERE number = 1")
    for verb in (["check"], ["repair", "--into", folder / "saved.db"]):
        code, out, said = command(folder, "stream", *verb, "--ledger", ledger, *options)
        assert code == 1, said
        assert is_harmless(out.decode())
        assert is_harmless(said)
        assert "rain" in out.decode()


def test_refusals_and_titles_show_paths_as_they_are_spelt(folder, ledger):
    odd = folder / "x\x1b[2J\u202e[red].db"
    code, _, said = command(folder, "stream", "report", "--ledger", odd)
    assert code == 2
    assert is_harmless(said)
    assert r"x\x1b[2J\u202e[red].db" in said
    ledger.rename(odd)
    code, out, _ = command(folder, "stream", "report", "--ledger", odd)
    assert code == 0
    assert is_harmless(out.decode())
    assert r"x\x1b[2J\u202e[red].db" in out.decode()
    for verb in ("check",):
        code, out, _ = command(folder, "stream", verb, "--ledger", odd)
        assert r"x\x1b[2J\u202e[red].db" in out.decode()
        assert is_harmless(out.decode())
