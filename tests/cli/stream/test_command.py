"""`onlinecal stream` as a shell sees it: lines in, as many lines out, in order, after they are durable."""

import json
import os
import re
import subprocess
import tracemalloc

import pytest

from onlinecal.cli.stream import loop
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
    started_as_asked,
    stream,
)


def test_every_line_of_standard_input_is_answered_as_the_engine_answers_it(ledger):
    lines = late(300)
    # the last line has no newline
    answer = piped(lines[:-1], "--ledger", ledger)
    assert (answer.returncode, answer.stdout) == (0, expected(lines))
    assert is_sound(ledger)
    # whoever is first to run it is also told of compiling
    told = answer.stderr.decode().splitlines()
    [summary] = [line for line in told if not line.startswith("onlinecal: compiling")]
    for words in ("events: 580 in", "300 forecast, 280 settled;", "280 rounds, 20 open, certificate"):
        assert words in summary


@started_as_asked
def test_a_trickle_is_answered_at_once_and_half_a_line_waits_for_the_other_half(ledger, started):
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


def test_outcomes_that_come_first_are_parked_if_they_may_be(ledger, file):
    first = [outcome(0), outcome(1), outcome(2)]
    file.write_bytes(lines_of(first))
    told = stream("--ledger", ledger, "--input", file)
    assert told.stdout_bytes.count(b'"unknown"') == 3
    told = stream("--ledger", ledger, "--input", file, "--park", 2)
    assert [json.loads(line)["type"] for line in told.stdout_bytes.splitlines()] == ["parked"] * 2 + [
        "rejected"
    ]
    assert "2 parked, 1 rejected; parked outcomes: 2 waiting, 0 dropped; all keys" in told.stderr
    # the ledger keeps the setting
    file.write_bytes(lines_of([query(0), *first]))
    told = stream("--ledger", ledger, "--input", file)
    kinds = [json.loads(line)["type"] for line in told.stdout_bytes.splitlines()]
    assert kinds == ["forecast", "settled", "parked", "parked"]
    file.write_bytes(lines_of([query(3), query(4), query(5), outcome(6)]))
    told = stream("--ledger", ledger, "--input", file, "--park", 0)
    assert told.stdout_bytes.count(b'"unknown"') == 1
    assert "parked outcomes: 0 waiting, 2 dropped" in told.stderr
    assert is_sound(ledger)
    text = stream("report", "--ledger", ledger).stdout
    assert re.search("parked outcomes dropped +2 waited", text)


def test_every_wrong_line_is_answered_and_the_rest_goes_on(ledger, file):
    wrong = [b"", b"{", b'{"type": "quer"}', b"x" * 100_000, b"\xff\xfe", b"[" * 10_000, b"null"]
    lines = b"\n".join([lines_of([query(0)]).strip(), *wrong, lines_of([query(1)])])
    file.write_bytes(lines[:-10])
    answer = stream("--ledger", ledger, "--input", file)
    answers = [json.loads(line) for line in answer.stdout_bytes.splitlines()]
    assert [one["type"] for one in answers] == ["forecast", *["rejected"] * (len(wrong) + 1)]
    assert "100000 bytes" in answers[4]["detail"]
    assert "8 rejected" in answer.stderr
    file.write_bytes(lines)
    again = stream("--ledger", ledger, "--input", file).stdout_bytes
    assert [*answer.stdout_bytes.splitlines()[:-1], again.splitlines()[-1]] == expected(lines).splitlines()


def test_a_line_without_end_does_not_fill_the_memory(ledger, file):
    file.write_bytes(b"x\n")
    stream("--ledger", ledger, "--input", file)
    os.truncate(file, 100_000_000)
    tracemalloc.start()
    try:
        answer = stream("--ledger", ledger, "--input", file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert b"99999998 bytes" in answer.stdout_bytes.splitlines()[1]
    assert peak < 20_000_000


def test_files_and_folders_are_read_in_order(ledger, tmp_path):
    lines, folder = late(300).splitlines(keepends=True), tmp_path / "events"
    folder.mkdir()
    for name, part in (("b", lines[100:200]), ("a", lines[:100]), ("../last", [b"".join(lines[200:])[:-1]])):
        (folder / f"{name}.jsonl").write_bytes(b"".join(part))
    (folder / ".c.jsonl").write_text("being written")
    (folder / "notes.txt").write_text("no events")
    inputs = ["--input", folder, "--input", tmp_path / "last.jsonl"]
    answer = stream("--ledger", ledger, *inputs, "--batch", 7, "--quiet")
    assert (answer.exit_code, answer.stdout_bytes, answer.stderr) == (0, expected(b"".join(lines)), "")
    # without --resume everything is answered again as before
    assert stream("--ledger", ledger, *inputs).stdout_bytes == answer.stdout_bytes
    assert read_report(ledger).events == 580


def test_the_configuration_is_taken_from_a_file_and_kept(ledger, file, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('[[keys]]\nmatch = "sport/*"\nkind = "simplex"\nclasses = ["home", "draw", "away"]\n')
    file.write_bytes(lines_of([{"type": "query", "id": "m1", "key": "sport/derby"}]))
    first = stream("--ledger", ledger, "--config", config, "--input", file)
    again = stream("--ledger", ledger, "--input", file)
    assert set(json.loads(first.stdout_bytes)["probability"]) == {"home", "draw", "away"}
    assert first.stdout_bytes == again.stdout_bytes


def test_a_log_gets_a_line_every_while_and_a_summary(ledger, file, monkeypatch):
    monkeypatch.setattr(loop, "BETWEEN_LINES", 0.0)
    file.write_bytes(late(20, delay=4) + b"no event\n")
    *lines, summary = stream("--ledger", ledger, "--input", file, "--batch", 10).stderr.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"events: {n}" for n in (10, 20, 30, 37)]
    assert "1 rejected, 3 keys hot, 4 forecasts open" in lines[-1]
    assert summary.startswith("events: 37 in ")
    assert "20 forecast, 16 settled, 1 rejected; all keys: 16 rounds, 4 open, certificate" in summary


def test_the_page_shows_what_is_answered(ledger, file):
    page = (ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
    shown = r"\$ cat events.jsonl\n(.*?)\n\$ onlinecal stream [^\n]*\n(.*?)```"
    lines, answers = re.search(shown, page, re.S).groups()
    file.write_text(lines)
    assert stream("--ledger", ledger, "--input", file).stdout == answers


@pytest.mark.parametrize("closed", ["<&-", pytest.param(">&-", marks=pytest.mark.slow)])
def test_standard_input_and_output_must_be_open(ledger, closed):
    command = " ".join([*COMMAND, "--ledger", str(ledger), closed])
    answer = subprocess.run(["sh", "-c", command], capture_output=True, timeout=300)
    assert answer.returncode == 2
    assert b"must be open" in answer.stderr
