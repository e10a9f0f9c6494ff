"""Which lines `onlinecal stream` reads of files that are rotated, rewritten, compressed, or are no files."""

import gzip
import json
import os
import random
from functools import partial

import pytest

from onlinecal.cli.stream import follow as stream_follow
from onlinecal.cli.stream.files import WINDOW
from onlinecal.cli.stream.follow import Files
from tests.cli.stream.events import append, expected, late, lines_of, piped, query, stream


def numbered(*numbers):
    """Lines of the same length for numbers of two digits."""
    return b"".join(b"line %02d of this file\n" % number for number in numbers)


class Script:
    """In place of the signals: between two looks at the files one step is taken, after the last it stops."""

    def __init__(self, steps):
        self.steps, self.ended = list(steps), False

    def __bool__(self):
        return self.ended

    def wait(self, descriptor, seconds):
        if self.steps:
            self.steps.pop(0)()
        else:
            self.ended = True


def followed(path, *steps, files=None):
    """The lines that are read of a file or folder while things happen to it."""
    files = files or Files([path], lambda name: None)
    pieces = files.for_ever(Script([*steps, lambda: None]), lambda: None)
    return b"".join(line + b"\n" for piece in pieces if piece is not None for line in piece.lines)


def renamed_away(file):
    append(file, numbered(12, 13, 14))
    file.rename(file.with_suffix(".1"))
    file.write_bytes(numbered(15, 16))


def renamed_before_there_is_another(file):
    append(file, numbered(12, 13, 14))
    file.rename(file.with_suffix(".1"))


def copied_and_truncated(file):
    file.write_bytes(numbered(12, 13, 14, 15, 16))


def rewritten_in_equal_length(file):
    file.write_bytes(numbered(12, 13))


def replaced(file):
    other = file.with_suffix(".new")
    other.write_bytes(numbered(12, 13, 14, 15))
    other.replace(file)


def removed(file):
    append(file, numbered(12))
    file.unlink()


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (renamed_away, range(10, 17)),
        (renamed_before_there_is_another, range(10, 15)),
        (copied_and_truncated, range(10, 17)),
        (rewritten_in_equal_length, range(10, 14)),
        (replaced, range(10, 16)),
        (removed, range(10, 13)),
    ],
)
@pytest.mark.parametrize("long", [False, True])
def test_a_followed_file_may_become_another_and_no_line_is_lost(file, change, read, long, capfd):
    beginning = b"x" * 3 * WINDOW + b"\n" if long else b""
    file.write_bytes(beginning + numbered(10, 11))
    assert followed(file, lambda: change(file)) == beginning + numbered(*read)
    assert capfd.readouterr().err


@pytest.mark.parametrize("seed", range(4))
def test_every_line_of_random_writers_is_read_once(tmp_path, seed):
    """Between two looks: perhaps a truncation, some lines, perhaps a rotation, some lines."""
    rng = random.Random(seed)
    written = []

    def add(path, most):
        for _ in range(rng.randrange(most)):
            written.append(b"line %05d" % len(written))
            append(path, written[-1] + b"\n")

    def step(path, number):
        # nobody can know of a file that comes and goes between two looks
        seen = path.exists()
        if rng.random() < 0.2 and seen:
            os.truncate(path, 0)
        add(path, 200 if rng.random() < 0.1 else 4)
        if rng.random() < 0.3 and seen:
            path.rename(path.with_suffix(f".{number}"))
            if rng.random() < 0.5:
                path.touch()
            add(path, 4)

    paths = [tmp_path / f"{name}.jsonl" for name in "ab"]
    steps = [partial(step, rng.choice(paths), number) for number in range(300)]
    assert sorted(followed(tmp_path, *steps).splitlines()) == written


def test_what_a_writer_adds_to_a_file_that_was_renamed_is_read(file):
    file.write_bytes(numbered(10))
    old = file.with_suffix(".1")
    steps = [
        lambda: file.rename(old),
        # the new one is still empty
        lambda: (file.touch(), append(old, numbered(11))),
        lambda: (append(old, numbered(12)), append(file, numbered(13))),
    ]
    lines = followed(file, *steps)
    assert sorted(lines.splitlines()) == numbered(10, 11, 12, 13).splitlines()


def test_the_last_line_of_a_file_that_was_renamed_needs_no_newline(file, monkeypatch):
    monkeypatch.setattr(stream_follow, "LINGER", 0.0)
    file.write_bytes(numbered(10) + b"last")
    assert followed(file, lambda: replaced(file)) == numbered(10, 12, 13, 14, 15) + b"last\n"


@pytest.mark.parametrize("new", ["a.jsonl", "z.jsonl"])
def test_a_file_that_is_renamed_in_its_folder_is_not_read_twice(tmp_path, new):
    file, other = tmp_path / "m.jsonl", tmp_path / new
    file.write_bytes(numbered(10, 11))

    def rotate():
        append(file, numbered(12))
        file.rename(other)
        file.write_bytes(numbered(13))

    lines = followed(tmp_path, rotate, lambda: append(other, numbered(14)))
    assert sorted(lines.splitlines()) == numbered(10, 11, 12, 13, 14).splitlines()


def test_a_file_with_two_names_is_read_under_both(tmp_path):
    names = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    names[0].write_bytes(numbered(10))
    names[1].hardlink_to(names[0])
    steps = [lambda: append(names[0], numbered(11)), names[0].unlink, names[1].unlink]
    assert followed(tmp_path, *steps) == numbered(10, 10, 11, 11)


def test_few_files_are_kept_open_and_all_are_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_follow, "MOST_OPEN", 2)
    names = [tmp_path / f"{number}.jsonl" for number in range(10, 20)]
    for number, name in enumerate(names, 10):
        name.write_bytes(numbered(number))
    files = Files([tmp_path], lambda name: None)
    opened = []

    def step():
        opened.append(sum(file.is_open for file in files._files.values()))
        for number, name in enumerate(names, 10 * len(opened) + 10):
            append(name, numbered(number))

    def rotate():
        step()
        names[0].rename(tmp_path / "0.away")
        names[0].write_bytes(numbered(99))

    lines = followed(tmp_path, step, rotate, files=files)
    assert sorted(lines.splitlines()) == numbered(*range(10, 40), 99).splitlines()
    assert opened == [2, 2]


def test_what_is_no_file_is_passed_over_with_a_word(tmp_path, ledger):
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.jsonl").mkdir()
    os.mkfifo(folder / "b.jsonl")
    (folder / "c.jsonl").symlink_to("nowhere")
    (folder / "d.jsonl").write_bytes(lines_of([query(0)]))
    answer = stream("--ledger", ledger, "--input", folder, "--quiet")
    assert (answer.exit_code, answer.stdout_bytes) == (0, expected(lines_of([query(0)])))
    words = ["a.jsonl is no file", "b.jsonl is no file", "c.jsonl is a link to nothing"]
    assert all(word in line for word, line in zip(words, answer.stderr.splitlines(), strict=True))
    assert followed(folder, lambda: (folder / "e.jsonl").write_bytes(b"more\n")).endswith(b"more\n")


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(tmp_path, ledger, monkeypatch):
    for name, number in (("a", 0), ("b", 1), ("c", 2)):
        (tmp_path / f"{name}.jsonl").write_bytes(lines_of([query(number)]))
    opened = os.open

    def refuse(path, *rest):
        if str(path).endswith("b.jsonl"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    answer = stream("--ledger", ledger, "--input", tmp_path, "--quiet")
    assert answer.exit_code == 2
    assert answer.stdout_bytes == expected(lines_of([query(0), query(2)]))
    first, last = answer.stderr.splitlines()
    assert "b.jsonl cannot be read: Permission denied" in first
    assert last.startswith("onlinecal: not read, or not to the end: ")
    assert last.endswith("b.jsonl")


def test_files_of_gzip_are_read_and_read_on(ledger, tmp_path):
    packed, lines = tmp_path / "events.jsonl.gz", late(300)
    members = [gzip.compress(lines[:5000]), gzip.compress(lines[5000:])]
    packed.write_bytes(b"".join(members))
    answers = [stream("--ledger", ledger, "--input", tmp_path, "--resume", "--batch", 50) for _ in range(2)]
    assert [answer.exit_code for answer in answers] == [0, 0]
    assert [answer.stdout_bytes for answer in answers] == [expected(lines), b""]


def test_a_file_of_gzip_that_was_cut_off_is_an_error_that_names_it(ledger, tmp_path):
    packed, lines = tmp_path / "a.jsonl.gz", late(3000)
    packed.write_bytes(gzip.compress(lines)[:-20])
    (tmp_path / "b.jsonl").write_bytes(lines_of([query(3000)]))
    answer = stream("--ledger", ledger, "--input", tmp_path, "--quiet")
    assert answer.exit_code == 2
    told, last = answer.stderr.splitlines()
    assert "a.jsonl.gz ends in the middle of its compressed data" in told
    assert "a.jsonl.gz" in last
    answers = answer.stdout_bytes.splitlines()
    assert json.loads(answers[-1])["id"] == "q3000"
    assert b"\n".join(answers[:-1]) == expected(lines)[: len(b"\n".join(answers[:-1]))]


def test_a_followed_file_of_gzip_is_read_as_far_as_it_is_written(tmp_path, capfd):
    packed = tmp_path / "a.jsonl.gz"
    first, second = (gzip.compress(os.urandom(5000).hex().encode() + b"\n" + numbered(n)) for n in (10, 11))
    steps = [
        lambda: packed.write_bytes(first[:3000]),
        lambda: None,
        lambda: append(packed, first[3000:]),
        lambda: append(packed, second),
    ]
    lines = followed(tmp_path, *steps)
    assert lines == gzip.decompress(first + second)
    assert capfd.readouterr().err.count("ends in the middle of its compressed data") == 1


@pytest.mark.parametrize(
    ("kind", "magic"),
    [
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("xz", b"\xfd7zXZ\x00"),
        ("bzip2", b"BZh91AY&SY"),
        ("zip", b"PK\x03\x04"),
    ],
)
def test_files_that_are_compressed_otherwise_are_refused(ledger, file, kind, magic):
    file.write_bytes(magic + b"\n" * 1000)
    answer = stream("--ledger", ledger, "--input", file, "--quiet")
    assert (answer.exit_code, answer.stdout_bytes) == (2, b"")
    assert f"events.jsonl is compressed with {kind}: unpack it first" in answer.stderr


def test_compressed_standard_input_is_refused(ledger):
    answer = piped(gzip.compress(late(10)), "--ledger", ledger)
    assert (answer.returncode, answer.stdout) == (2, b"")
    assert b"standard input is compressed with gzip: unpack it first" in answer.stderr
