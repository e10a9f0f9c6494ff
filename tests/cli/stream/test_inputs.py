"""What `onlinecal stream` reads: lines and batches, files once, with --resume on from where it was."""

import gzip
import json
import os
import random
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinecal.cli.stream.inputs import (
    MARKED_BYTES,
    MOST_BATCH_BYTES,
    Gathered,
    LineCutter,
    LongLine,
    Piece,
    gather,
)
from onlinecal.engine.events import LONGEST_LINE, decode
from tests.cli.stream.events import COMMAND, append, expected, late, lines_of, outcome, query, stream


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


def test_what_is_no_file_is_passed_over(tmp_path, ledger):
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.jsonl").mkdir()
    os.mkfifo(folder / "b.jsonl")
    (folder / "c.jsonl").symlink_to("nowhere")
    (folder / "d.jsonl").write_bytes(queries(0))
    answer = stream("--ledger", ledger, "--input", folder, "--quiet")
    assert (answer.exit_code, answer.stdout_bytes, answer.stderr) == (0, expected(queries(0)), "")


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
    assert first.stderr.startswith(f"onlinecal: {packed} cannot be read: ")
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
    assert (file.stat().st_size > 2 * MARKED_BYTES) == (before > 1)
    resumed(ledger, file)
    file.write_bytes(queries(*range(200, 200 + before)))
    said = f"onlinecal: {file} is not the file that was answered before: it is read from its beginning\n"
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


def in_a_process(*arguments):
    given = {**os.environ, "LC_ALL": "C.UTF-8"}
    answer = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=300, env=given)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def in_this_process(*arguments):
    answer = stream(*map(os.fsdecode, arguments))
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout_bytes


@pytest.mark.parametrize("run", [in_this_process, pytest.param(in_a_process, marks=pytest.mark.slow)])
def test_paths_need_not_be_text(ledger, tmp_path, run):
    folder = os.fsencode(tmp_path / "events") + b"\xff"
    os.mkdir(folder)
    for lines in (queries(10), queries(10, 11)):
        with open(folder + b"/a\xfe.jsonl", "wb") as file:
            file.write(lines)
        [told] = run("--ledger", ledger, "--resume", "--input", folder).splitlines()
    assert json.loads(told)["id"] == "q11"


def test_what_cannot_be_unpacked_is_refused(ledger, tmp_path):
    damaged = bytearray(gzip.compress(late(3000)))
    damaged[-6] ^= 1
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(damaged)
    answer = stream("--ledger", ledger, "--input", file, "--quiet")
    assert (answer.exit_code, answer.stdout_bytes) == (2, expected(late(3000)))
    assert f"{file} cannot be read: " in answer.stderr


chunks = st.lists(st.binary(max_size=6) | st.sampled_from([b"\n", b"a\n", b"\n\n"]), max_size=12)


@given(chunks)
def test_lines_do_not_depend_on_how_the_bytes_were_cut(parts):
    cutter = LineCutter()
    lines = [line for part in parts for line in cutter.cut(part)]
    *whole, last = b"".join(parts).split(b"\n")
    assert lines == whole
    assert cutter.rest() == (last or None)
    assert cutter.rest() is None


def test_of_a_line_that_is_too_long_only_its_length_is_kept_and_it_is_refused_in_the_same_words():
    cutter = LineCutter()
    sizes = []
    for _ in range(100):
        assert cutter.cut(b"x" * LONGEST_LINE) == []
        sizes.append(len(cutter._begun))
    [long, short] = cutter.cut(b"yy\nzz\n")
    assert max(sizes) == LONGEST_LINE
    assert len(long) == 100 * LONGEST_LINE + 2
    assert short == b"zz"
    size = LONGEST_LINE + 5
    line = LongLine()
    line.size = size
    assert decode(line) == decode(b"x" * size)
    assert str(size) in decode(line).detail
    # one of the greatest length is kept
    cutter.cut(b"x" * (LONGEST_LINE - 1))
    assert cutter.cut(b"x\n") == [b"x" * LONGEST_LINE]


def line_by_line(pieces, most):
    """What `gather` makes, a line at a time."""
    batches, lines, positions = [], [], {}
    for piece in pieces:
        place = 0 if piece is None else piece.start
        for line in () if piece is None else piece.lines:
            lines, place = [*lines, line], place + len(line) + 1
            if piece.path is not None and piece.complete:
                positions = {**positions, piece.path: place}
            if len(lines) == most:
                batches.append(marked(lines, positions))
                lines, positions = [], {}
        if piece is None and lines:
            batches.append(marked(lines, positions))
            lines, positions = [], {}
    return [*batches, marked(lines, positions)] if lines else batches


def marked(lines, positions):
    return Gathered(lines, {path: (place, bytes(place)) for path, place in positions.items()})


lines = st.lists(st.sampled_from([b"", b"a", b"bcd"]), max_size=7)
paths = st.sampled_from(["one", "two", None])
pieces = st.none() | st.builds(Piece, lines, paths, st.integers(0, 99), st.booleans(), st.just(bytes))


@given(st.lists(pieces, max_size=8), st.integers(1, 5))
def test_batches_hold_all_lines_in_order_and_say_where_they_end(pieces, most):
    """No line waits where there are no more (None), and what has no end yet is not noted as answered."""
    assert list(gather(iter(pieces), most)) == line_by_line(pieces, most)


def test_long_lines_make_small_batches():
    batches = [len(one.lines) for one in gather([Piece([b"x" * LONGEST_LINE] * 16)] * 60, 8192)]
    assert max(batches) * LONGEST_LINE < 2 * MOST_BATCH_BYTES
    assert sum(batches) == 960


@pytest.mark.parametrize("pack, end", [(bytes, ""), (gzip.compress, ".gz")], ids=["plain", "gzip"])
def test_of_a_file_that_grows_no_line_is_answered_before_its_end_or_twice(ledger, tmp_path, pack, end):
    """An outcome that comes before its query is refused once, and stays refused."""
    said = "onlinecal: {} ends inside a line, which is left until its newline has come\n"
    lines = lines_of([outcome(1), outcome(2)]) + late(30, delay=5)
    file, done, answers, rng = tmp_path / f"a.jsonl{end}", 0, b"", random.Random(1)
    while done < len(lines):
        size = rng.randrange(1, 400)
        append(file, pack(lines[done : done + size]))
        done = min(done + size, len(lines))
        told = stream("--ledger", ledger, "--input", file, "--resume", "--quiet")
        answers += told.stdout_bytes
        assert answers.count(b"\n") == lines[:done].count(b"\n")
        is_whole = lines[done - 1 : done] == b"\n"
        assert told.stderr == ("" if is_whole else said.format(file))
    assert answers == expected(lines)


def test_a_file_has_one_position_whatever_it_is_called(ledger, tmp_path, monkeypatch):
    file, link, folder = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "sub"
    file.write_bytes(queries(1, 2))
    link.symlink_to(file)
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert resumed(ledger, "../a.jsonl", link, tmp_path)[0] == ids(1, 2)
    append(file, queries(3))
    assert resumed(ledger, link)[0] == ids(3)
    assert resumed(ledger, tmp_path, folder / ".." / "a.jsonl")[0] == []
