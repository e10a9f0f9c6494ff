"""`onlinecal stream` as a shell sees it: lines in, as many lines out, in order, after they are durable."""

import json
import os
import re
import subprocess
import tracemalloc

import pytest

from onlinecal.engine import read_report
from tests import ROOT
from tests.cli.stream.events import (
    COMMAND,
    expected,
    is_sound,
    late,
    lines_of,
    outcome,
    piped,
    query,
    started,
    stream,
)


def test_every_line_of_standard_input_is_answered_as_the_engine_answers_it(ledger):
    lines = late(300)
    # the last line has no newline
    answer = piped(lines[:-1], "--ledger", ledger)
    assert answer.returncode == 0
    assert answer.stdout == expected(lines)
    assert is_sound(ledger)
    # whoever is first to run it is also told of compiling
    told = answer.stderr.decode().splitlines()
    [summary] = [line for line in told if not line.startswith("onlinecal: compiling")]
    assert "events: 580 in" in summary
    assert "300 forecast, 280 settled;" in summary
    assert "280 rounds, 20 open, certificate" in summary


def test_a_trickle_is_answered_at_once_and_half_a_line_waits_for_the_other_half(ledger):
    with started("--ledger", ledger) as process:
        for number in range(3):
            for event in (query(number), outcome(number)):
                process.stdin.write(lines_of([event]))
                assert json.loads(process.stdout.readline())["id"] == f"q{number}"
        # the answer is written when the event is in the ledger
        assert read_report(ledger).events == 6
        line = lines_of([query(3)])
        process.stdin.write(lines_of([query(4)]) + line[:20])
        assert json.loads(process.stdout.readline())["id"] == "q4"
        process.stdin.write(line[20:])
        assert json.loads(process.stdout.readline())["id"] == "q3"
        process.stdin.close()
        assert process.wait(60) == 0


def test_every_wrong_line_is_answered_and_the_rest_goes_on(ledger, file):
    wrong = [b"", b"{", b'{"type": "quer"}', b"x" * 100_000, b"\xff\xfe", b"[" * 10_000, b"null"]
    lines = b"\n".join([lines_of([query(0)]).strip(), *wrong, lines_of([query(1)])])
    file.write_bytes(lines)
    answer = stream("--ledger", ledger, "--input", file)
    assert answer.exit_code == 0
    assert answer.stdout_bytes == expected(lines)
    answers = [json.loads(line) for line in answer.stdout_bytes.splitlines()]
    assert [one["type"] for one in answers] == ["forecast", *["rejected"] * len(wrong), "forecast"]
    assert "100000 bytes" in answers[4]["detail"]
    assert "7 rejected" in answer.stderr


def test_a_line_without_end_does_not_fill_the_memory(ledger, file):
    file.write_bytes(b"x\n")
    stream("--ledger", ledger, "--input", file)
    os.truncate(file, 200_000_000)
    tracemalloc.start()
    try:
        answer = stream("--ledger", ledger, "--input", file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert b"199999998 bytes" in answer.stdout_bytes.splitlines()[1]
    assert peak < 20_000_000


def test_files_and_folders_are_read_in_order(ledger, tmp_path):
    folder = tmp_path / "events"
    folder.mkdir()
    lines = late(300).splitlines(keepends=True)
    (folder / "b.jsonl").write_bytes(b"".join(lines[100:200]))
    (folder / "a.jsonl").write_bytes(b"".join(lines[:100]))
    (folder / ".c.jsonl").write_text("being written")
    (folder / "notes.txt").write_text("no events")
    last = tmp_path / "last.jsonl"
    last.write_bytes(b"".join(lines[200:])[:-1])
    answer = stream("--ledger", ledger, "--input", folder, "--input", last, "--batch", 7)
    assert answer.exit_code == 0
    assert answer.stdout_bytes == expected(b"".join(lines))


def test_without_resume_everything_is_answered_again_as_before(ledger, file):
    file.write_bytes(late(100))
    once, again = (stream("--ledger", ledger, "--input", file, "--quiet") for _ in range(2))
    assert once.stderr == again.stderr == ""
    assert once.stdout_bytes == again.stdout_bytes == expected(late(100))
    assert read_report(ledger).events == 180


def test_resume_answers_a_line_again_that_had_no_end(ledger, file):
    lines = lines_of([query(0), query(1)])
    file.write_bytes(lines[:-10])
    half = stream("--ledger", ledger, "--input", file, "--resume")
    assert b"malformed" in half.stdout_bytes.splitlines()[1]
    file.write_bytes(lines)
    whole = stream("--ledger", ledger, "--input", file, "--resume")
    assert whole.stdout_bytes == expected(lines).splitlines(keepends=True)[1]


def test_the_configuration_is_taken_from_a_file_and_kept(ledger, file, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('[[keys]]\nmatch = "sport/*"\nkind = "simplex"\nclasses = ["home", "draw", "away"]\n')
    file.write_bytes(lines_of([{"type": "query", "id": "m1", "key": "sport/derby"}]))
    first = stream("--ledger", ledger, "--config", config, "--input", file)
    again = stream("--ledger", ledger, "--input", file)
    assert set(json.loads(first.stdout_bytes)["probability"]) == {"home", "draw", "away"}
    assert first.stdout_bytes == again.stdout_bytes


MOVED = ["--ledger", "l.db", "--into", "old.archive"]


@pytest.mark.parametrize(
    "arguments, told",
    [
        ([], "--ledger is missing"),
        (["--ledger", "l.db", "--resume"], "--resume needs --input"),
        (["--ledger", "l.db", "--input", "nowhere"], "nowhere is not there"),
        (["--ledger", "l.db", "--input", "/dev/null"], "neither a file nor a folder"),
        (["--ledger", "l.db", "--batch", "0"], "--batch"),
        (["--ledger", "l.db", "--config", "nothing.toml"], "nothing.toml"),
        (["--ledger", "no/folder/l.db"], "no/folder/l.db"),
        (["--ledger", "text.db"], "text.db"),
        (["report", "--ledger", "nowhere.db"], "there is no such ledger"),
        (["check", "--ledger", "nowhere.db"], "there is no such ledger"),
        (["repair", "--ledger", "nowhere.db", "--into", "new.db"], "there is no such ledger"),
        (["report"], "--ledger"),
        (["archive", *MOVED], "give one of --keep and --before"),
        (["archive", *MOVED, "--keep", "1", "--before", "2"], "give one of --keep and --before"),
    ],
)
def test_a_wrong_request_is_one_line(arguments, told, tmp_path, monkeypatch):
    (tmp_path / "text.db").write_text("this is not a database, but long enough to be looked at" * 10)
    monkeypatch.chdir(tmp_path)
    answer = stream(*arguments)
    assert answer.exit_code == 2
    assert answer.stdout_bytes == b""
    assert answer.stderr.count("\n") == 1
    assert told in answer.stderr


def test_a_ledger_in_use_is_not_written_by_another(ledger, file):
    file.write_bytes(lines_of([query(1)]))
    with started("--ledger", ledger) as process:
        process.stdin.write(lines_of([query(0)]))
        process.stdout.readline()
        answer = stream("--ledger", ledger, "--input", file)
        process.stdin.close()
    assert answer.exit_code == 2
    assert "another process writes to this ledger" in answer.stderr


def test_the_page_shows_what_is_answered(ledger):
    page = (ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
    lines, answers = re.search(
        r"\$ cat events.jsonl\n(.*?)\n\$ onlinecal stream [^\n]*\n(.*?)```", page, re.S
    ).groups()
    assert piped(lines.encode(), "--ledger", ledger).stdout.decode() == answers


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_standard_input_and_output_must_be_open(ledger, closed):
    command = " ".join([*COMMAND, "--ledger", str(ledger), closed])
    answer = subprocess.run(["sh", "-c", command], capture_output=True, timeout=300)
    assert answer.returncode == 2
    assert b"must be open" in answer.stderr
