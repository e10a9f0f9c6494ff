"""The verb `stream doctor`, on ledgers that are well, in use, damaged, older or gone; what a check tells."""

from __future__ import annotations

import hashlib
import json
import os
import re
from types import SimpleNamespace

import pytest

from onlinecal.cli.stream import keeping
from onlinecal.compiling import folder as compiled_folder
from onlinecal.engine import Engine, archive_ledger
from onlinecal.engine.ledger import check as examining
from onlinecal.version import STATE_FORMAT
from tests.commands import run
from tests.engine.fault_tools import LINES, changed


def doctor(ledger, *options):
    """Exit code, and what it says in JSON and for people."""
    told, shown = (run("stream", "doctor", "--ledger", ledger, *options, *more) for more in (["--json"], []))
    assert told.exit_code == shown.exit_code
    found = json.loads(told.stdout)
    for one in found["wrong"]:
        assert one["do"]
        assert one["wrong"] in shown.stdout
    return told.exit_code, found, shown.stdout


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "rain.db"
    with Engine(path) as engine:
        engine.handle_lines(b"\n".join(line for line in LINES if b"plain" in line) + b"\n")
    return path


def test_a_ledger_that_is_well_and_is_left_as_it_was(ledger):
    before = hashlib.sha256(ledger.read_bytes()).digest()
    code, found, shown = doctor(ledger)
    assert (code, found["wrong"]) == (0, [])
    assert "nothing is wrong" in shown
    facts = found["ledger"]
    assert (facts["integrity"], facts["states_behind"]) == ("ok", 0)
    assert (facts["format"], facts["keys"]) == (STATE_FORMAT, 4)
    state = ledger.stat()
    assert (facts["bytes"], facts["wal_bytes"], facts["last_commit"]) == (state.st_size, 0, state.st_mtime)
    assert facts["free_bytes"] > 0
    assert re.search(r"last commit +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", shown)
    assert found["program"]["compiled"]
    assert hashlib.sha256(ledger.read_bytes()).digest() == before


def test_a_ledger_in_use_tells_what_states_lack(ledger, tmp_path):
    archive_ledger(ledger, tmp_path / "old.archive", keep=20)
    with Engine(ledger) as engine:
        engine.handle_lines(b'{"type": "query", "id": "new", "key": "new"}\n')
        code, found, _ = doctor(ledger)
        assert (code, found["ledger"]["states_behind"]) == (0, 1)
        assert found["ledger"]["archives"][0]["there"]


@pytest.mark.parametrize(
    ("sql", "wrong", "do"),
    [
        ("UPDATE archives SET digest = x'00'", "archive is not as it was made", "backup"),
        ("PRAGMA user_version = 99", "format 99", "install the version"),
        ("PRAGMA application_id = 1", "not a ledger", "right file"),
        ("DROP TABLE about", "the definitions of its tables", "repair"),
        ("UPDATE about SET value = -2000000 WHERE name = 'tail'", "behind the log", "SIGTERM"),
        ("UPDATE about SET value = 'x' WHERE name = 'config'", "cannot be what was written", "repair"),
        ("UPDATE about SET sum = 0 WHERE name = 'tail'", "is not as it was written", "repair"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(ledger, tmp_path, sql, wrong, do):
    archive_ledger(ledger, tmp_path / "old.archive", keep=20)
    changed(ledger, sql, with_sums="sum" not in sql and "DROP" not in sql)
    code, found, _ = doctor(ledger)
    assert code == 1
    assert any(wrong in one["wrong"] and do in one["do"] for one in found["wrong"]), found["wrong"]


def test_files_that_are_damaged_or_no_ledgers(ledger, tmp_path):
    data = bytearray(ledger.read_bytes())
    data[2 * 4096 : 3 * 4096] = bytes(4096)
    for content in (data, data[:5000], b"no database", b""):
        ledger.write_bytes(content)
        code, found, _ = doctor(ledger)
        assert (code, bool(found["wrong"])) == (1, True)
    assert doctor(tmp_path)[0] == doctor(tmp_path / "nowhere")[0] == 1


def test_what_surrounds_a_ledger(ledger, monkeypatch):
    monkeypatch.setattr(examining, "LEAST_FREE", 1 << 60)
    monkeypatch.setattr(examining, "LARGE_WAL", 1)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    monkeypatch.setattr(compiled_folder, "_places", list)
    with Engine(ledger) as engine:
        for n in range(30):
            lines = [json.dumps({"type": "query", "id": f"{n}/{i}", "key": "new"}) for i in range(90)]
            engine.handle_lines("\n".join(lines).encode())
        os.link(ledger, ledger.with_suffix(".other"))
        code, found, _ = doctor(ledger, "--no-integrity")
    said = " ".join(one["wrong"] for one in found["wrong"])
    assert code == 1
    for words in ("of disk are free", "no compiled code", "hard links", "log of commits"):
        assert words in said
    assert "integrity" not in found["ledger"]


def test_a_check_tells_how_far_it_is(ledger, monkeypatch):
    monkeypatch.setattr(keeping, "BETWEEN_LINES", 0.0)
    told = run("stream", "check", "--ledger", ledger).stderr.splitlines()
    assert len(told) == 4  # keys
    assert re.fullmatch(r"checking: (\S+) of \1 events", told[-1])
