"""`onlinecal stream --resume`: the lines that were not read before, whatever became of the file."""

import contextlib
import json
import os
import signal
import sqlite3
import stat
import subprocess

import pytest

from tests.cli.stream.events import COMMAND, append, expected, is_sound, lines_of, query, started, stream
from tests.engine.scripts import to_version_5


def resumed(ledger, path):
    answer = stream("--ledger", ledger, "--input", path, "--resume", "--quiet")
    assert answer.exit_code == 0
    return [json.loads(line)["id"] for line in answer.stdout_bytes.splitlines()]


def queries(*numbers):
    return lines_of([query(number, keys=1) for number in numbers])


def ids(*numbers):
    return [f"q{number}" for number in numbers]


def test_resume_reads_all_of_a_file_with_lines_of_equal_length(ledger, file):
    file.write_bytes(queries(10, 11, 12))
    resumed(ledger, file)
    file.write_bytes(queries(20, 21, 22, 23))
    assert resumed(ledger, file) == ids(20, 21, 22, 23)
    assert resumed(ledger, file) == []


@pytest.mark.parametrize("before", [1, 100])
def test_resume_reads_the_rest_of_a_file_that_was_renamed_first(ledger, file, before):
    file.write_bytes(queries(*range(100, 100 + before)))
    resumed(ledger, file)
    append(file, queries(20, 21, 22))
    file.rename(file.with_suffix(".jsonl.1"))
    file.write_bytes(queries(30, 31))
    assert resumed(ledger, file) == ids(20, 21, 22, 30, 31)
    assert resumed(ledger, file) == []


def test_resume_goes_on_with_a_ledger_of_version_1(ledger, file):
    file.write_bytes(queries(10, 11))
    resumed(ledger, file)
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        to_version_5(connection)
        connection.executescript(
            "DROP TABLE archives; DROP TABLE archived; DROP TABLE checkpoints;"
            "DROP TABLE reliability;"
            "ALTER TABLE inputs DROP COLUMN mark; PRAGMA user_version = 1;"
        )
    append(file, queries(12))
    assert resumed(ledger, file) == ids(12)
    assert is_sound(ledger)
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        connection.executescript("UPDATE inputs SET mark = NULL, position = 0")
        connection.commit()
    file.write_bytes(queries(20, 21, 22, 23))
    assert resumed(ledger, file) == ids(20, 21, 22, 23)


def test_resume_goes_on_in_a_copy_of_the_file(ledger, file):
    file.write_bytes(queries(*range(100, 200)))
    resumed(ledger, file)
    copy = file.with_suffix(".copy")
    copy.write_bytes(file.read_bytes() + queries(10))
    copy.replace(file)
    assert resumed(ledger, file) == ids(10)


def test_rotating_under_the_command_loses_nothing(ledger, file):
    lines = [queries(number) for number in range(10, 16)]
    file.write_bytes(lines[0])
    with started("--ledger", ledger, "--input", file, "--follow", "--resume") as process:
        answers = [process.stdout.readline()]
        append(file, lines[1] + lines[2])
        file.rename(file.with_suffix(".1"))
        file.write_bytes(lines[3] + lines[4])
        answers += [process.stdout.readline() for _ in range(4)]
        file.write_bytes(lines[5])
        answers.append(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert b"".join(answers) == expected(b"".join(lines))
    assert resumed(ledger, file) == []


def test_paths_need_not_be_text(ledger, tmp_path):
    folder = os.fsencode(tmp_path / "events") + b"\xff"
    os.mkdir(folder)
    path = folder + b"/a\xfe.jsonl"
    for lines in (queries(10), queries(10, 11)):
        with open(path, "wb") as file:
            file.write(lines)
        command = [*COMMAND, "--ledger", str(ledger), "--resume", "--input", folder]
        answer = subprocess.run(
            command, capture_output=True, timeout=300, env={**os.environ, "LC_ALL": "C.UTF-8"}
        )
        assert answer.returncode == 0, answer.stderr
        [told] = answer.stdout.splitlines()
    assert json.loads(told)["id"] == "q11"
    assert stat.S_ISREG(os.stat(path).st_mode)
