"""What `onlinecal stream` reads: files once, plain or of gzip, and with --resume on from where it was."""

import gzip
import json
import os
import subprocess

import pytest

from onlinecal.cli.stream.inputs import WINDOW
from tests.cli.stream.events import COMMAND, append, expected, late, lines_of, piped, query, stream


def queries(*numbers):
    return lines_of([query(number, keys=1) for number in numbers])


def resumed(ledger, *paths):
    """The names of the forecasts that are answered, and what is said."""
    inputs = [word for path in paths for word in ("--input", path)]
    answer = stream("--ledger", ledger, *inputs, "--resume", "--quiet")
    assert answer.exit_code == 0, answer.stderr
    return [json.loads(line)["id"] for line in answer.stdout_bytes.splitlines()], answer.stderr


def ids(*numbers):
    return [f"q{number}" for number in numbers]


def test_what_is_no_file_is_passed_over_with_a_word(tmp_path, ledger):
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.jsonl").mkdir()
    os.mkfifo(folder / "b.jsonl")
    (folder / "c.jsonl").symlink_to("nowhere")
    (folder / "d.jsonl").write_bytes(queries(0))
    answer = stream("--ledger", ledger, "--input", folder, "--quiet")
    assert (answer.exit_code, answer.stdout_bytes) == (0, expected(queries(0)))
    words = [f"{name}.jsonl is no file" for name in "abc"]
    assert all(word in line for word, line in zip(words, answer.stderr.splitlines(), strict=True))


def test_a_file_that_cannot_be_read_ends_it_and_resume_goes_on_when_it_can(tmp_path, ledger):
    lines = late(300)
    each = lines.splitlines(keepends=True)
    parts = [b"".join(each[start:end]) for start, end in ((0, 190), (190, 380), (380, None))]
    plain, packed, last = (tmp_path / name for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl"))
    whole = gzip.compress(parts[1])
    plain.write_bytes(parts[0])
    packed.write_bytes(whole[:-200])
    last.write_bytes(parts[2])
    first = stream("--ledger", ledger, "--input", tmp_path, "--quiet", "--resume")
    assert first.exit_code == 2
    assert first.stderr == f"onlinecal: {packed} ends in the middle of its compressed data\n"
    # what comes before is answered, what comes after waits
    assert len(first.stdout_bytes.splitlines()) >= 190
    assert expected(lines).startswith(first.stdout_bytes)
    packed.write_bytes(whole)
    second = stream("--ledger", ledger, "--input", tmp_path, "--quiet", "--resume")
    assert (second.exit_code, first.stdout_bytes + second.stdout_bytes) == (0, expected(lines))


@pytest.mark.parametrize("pack, end", [(bytes, ""), (gzip.compress, ".gz")], ids=["plain", "gzip"])
def test_resume_goes_on_in_each_file_where_it_was(ledger, tmp_path, pack, end, monkeypatch):
    files, lines = [tmp_path / f"{name}.jsonl{end}" for name in "ab"], late(300)
    cut = lines.index(b"\n", 4000) + 1
    files[0].write_bytes(pack(lines[:cut]))
    monkeypatch.chdir(tmp_path)
    first = stream("--ledger", ledger, "--input", files[0].name, "--resume", "--batch", 50)
    append(files[0], pack(lines[cut:5000]) + pack(lines[5000:]))
    files[1].write_bytes(pack(queries(300)))
    second = stream("--ledger", ledger, "--input", tmp_path, "--resume", "--batch", 50)
    assert first.stdout_bytes + second.stdout_bytes == expected(lines + queries(300))
    assert resumed(ledger, *files)[0] == []
    append(files[0], pack(queries(301, 302)))
    append(files[1], pack(queries(303)))
    assert resumed(ledger, tmp_path) == (ids(301, 302, 303), "")


@pytest.mark.parametrize("before", [1, 100])
def test_another_file_of_that_name_is_read_from_its_beginning(ledger, file, before):
    file.write_bytes(queries(*range(100, 100 + before)))
    assert (file.stat().st_size > 2 * WINDOW) == (before > 1)
    resumed(ledger, file)
    file.write_bytes(queries(*range(200, 200 + before)))
    said = f"onlinecal: {file} is not the file that was answered: it is read from its beginning\n"
    assert resumed(ledger, file) == (ids(*range(200, 200 + before)), said)
    # it is shorter than what was answered
    file.write_bytes(queries(1))
    assert resumed(ledger, file)[0] == ids(1)
    assert resumed(ledger, file) == ([], "")


@pytest.mark.parametrize("place", [0, -1])
def test_a_file_is_known_by_its_beginning_and_by_what_comes_before_the_position(ledger, file, place):
    file.write_bytes(queries(*range(100, 200)))
    resumed(ledger, file)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[place] = lines[place].replace(b"0.", b"0.0", 1)[:-2] + b"\n"
    file.write_bytes(b"".join(lines) + queries(10))
    assert len(resumed(ledger, file)[0]) == 101


def test_paths_need_not_be_text(ledger, tmp_path):
    folder = os.fsencode(tmp_path / "events") + b"\xff"
    os.mkdir(folder)
    command = [*COMMAND, "--ledger", str(ledger), "--resume", "--input", folder]
    for lines in (queries(10), queries(10, 11)):
        with open(folder + b"/a\xfe.jsonl", "wb") as file:
            file.write(lines)
        given = {**os.environ, "LC_ALL": "C.UTF-8"}
        answer = subprocess.run(command, capture_output=True, timeout=300, env=given)
        assert answer.returncode == 0, answer.stderr
        [told] = answer.stdout.splitlines()
    assert json.loads(told)["id"] == "q11"


def test_what_cannot_be_unpacked_is_refused(ledger, tmp_path):
    damaged = bytearray(gzip.compress(late(3000)))
    damaged[-6] ^= 1
    for name, data, words in (
        ("a", b"\x28\xb5\x2f\xfd" + b"\n" * 1000, "is compressed with zstd: unpack it first"),
        ("b", b"PK\x03\x04" + b"\n" * 1000, "is compressed with zip: unpack it first"),
        ("c", damaged, "has damaged compressed data"),
    ):
        file = tmp_path / f"{name}.jsonl.gz"
        file.write_bytes(data)
        answer = stream("--ledger", ledger, "--input", file, "--quiet")
        assert answer.exit_code == 2
        assert f"{file} {words}" in answer.stderr
        assert answer.stdout_bytes == (expected(late(3000)) if data is damaged else b"")
    answer = piped(gzip.compress(late(10)), "--ledger", ledger)
    assert (answer.returncode, answer.stdout) == (2, b"")
    assert b"standard input is compressed with gzip: unpack it first" in answer.stderr
