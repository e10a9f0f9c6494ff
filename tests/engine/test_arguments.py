"""What cannot be an argument is refused in words before anything changes."""

from __future__ import annotations

import pytest

from onlinecal.engine import (
    Engine,
    InputPosition,
    Outcome,
    Query,
    Settled,
    archive_ledger,
    check_ledger,
    decode_lines,
    encode_lines,
    export_ledger,
    read_config,
    read_report,
    repair_ledger,
)

NO_INPUTS = [
    (5, "inputs must be a list of pairs .*, got 5"),
    ([5], "inputs must be a list of pairs .*, got 5"),
    ([("a",)], r"inputs must be a list of pairs .*, got \('a',\)"),
    ([(5, 1)], "path a text or bytes, .*, got"),
    ([("a", 1, "mark")], "mark bytes or None, got .*'mark'"),
    ([("a", "b")], "the position of input 'a' must be a whole number of at least 0, got 'b'"),
    ([("a", -1)], "the position of input 'a' must be a whole number of at least 0, got -1"),
]


@pytest.mark.parametrize("inputs, words", NO_INPUTS)
def test_inputs_that_cannot_be_are_refused_with_the_batch(inputs, words):
    with Engine() as engine:
        with pytest.raises(ValueError, match=words):
            engine.handle([Query("q", "k")], inputs=inputs)
        assert (engine.total().events, engine.inputs()) == (0, [])
        engine.handle([], inputs=[InputPosition("a", 3), (b"\xff", 2.0, b"mark")])
        assert [tuple(place) for place in engine.inputs()] == [("a", 3, None), (b"\xff", 2, b"mark")]


@pytest.mark.parametrize("data", ['{"type": "query"}', None, ["line"]])
def test_lines_that_are_no_bytes_are_refused_with_the_remedy(data):
    with Engine() as engine:
        for take in (decode_lines, engine.handle_lines):
            with pytest.raises(ValueError, match=r"data must be bytes, .*: give text\.encode\(\) of a text"):
                take(data)
    assert decode_lines(bytearray(b'{"type":"withdraw","id":1}\n\n'))[0].id == 1


@pytest.mark.parametrize("answers", [5, None, [5], [Settled("q"), Query("q", "k")], "text"])
def test_what_is_no_answer_is_not_encoded(answers):
    with pytest.raises(ValueError, match=r"answers must be a list of answers, as Engine\.handle returns"):
        encode_lines(answers)
    assert encode_lines(iter([Settled("q")])) == b'{"type":"settled","id":"q"}\n'


def test_what_packs_no_bytes_is_refused_and_nothing_of_the_batch_is_kept():
    with Engine() as engine:
        with pytest.raises(ValueError, match="pack must be a function that makes bytes of a list of answers"):
            engine.handle_and_keep([Query("q", "k")], 5)
        for wrong in ("text", None):
            with pytest.raises(ValueError, match=f"pack must return bytes, got {wrong!r}; nothing"):
                engine.handle_and_keep([Query("q", "k")], lambda answers, wrong=wrong: wrong)
        assert (engine.total().events, engine.kept()) == (0, [])
        assert engine.handle_and_keep([Query("q", "k")], lambda answers: bytearray(b"1")).content == b"1"
        for wrong in ("1", None, 0.5):
            with pytest.raises(ValueError, match=f"number must be a whole number of .* got {wrong!r}"):
                engine.delivered(wrong)
        assert [kept.number for kept in engine.kept()] == [1]


def test_ends_of_inputs_are_whole_numbers_and_refused_before_an_overview_meets_them():
    with Engine() as engine:
        engine.handle([], inputs=[("kafka/events/0", 3)])
        for wrong, words in (
            (5, "ends must be a dict with the end of each path, got 5"),
            (
                {"kafka/events/0": "x"},
                "the end of 'kafka/events/0' must be a whole number of .* got 'x'",
            ),
        ):
            with pytest.raises(ValueError, match=words):
                engine.note_ends(wrong)
        assert [place.lag for place in engine.overview().topics] == [None]


def test_a_key_that_events_name_by_a_number_is_found_by_it():
    with Engine() as engine:
        engine.handle([Query("q", 7), Outcome("q", 1)])
        assert engine.summary(7) == engine.summary("7") is not None
        assert engine.summary(8) is None
        with pytest.raises(ValueError, match=r"key must be text or a whole number, got \[\]"):
            engine.summary([])


WRONG_PATHS = [
    ("ledger", lambda wrong, there: Engine(wrong)),
    ("path", lambda wrong, there: archive_ledger(wrong, there, keep=1)),
    ("into", lambda wrong, there: archive_ledger(there, wrong, keep=1)),
    ("path", lambda wrong, there: check_ledger(wrong)),
    ("each of archives", lambda wrong, there: check_ledger(there, archives=[wrong])),
    ("path", lambda wrong, there: repair_ledger(wrong, there)),
    ("into", lambda wrong, there: repair_ledger(there, wrong)),
    ("path", lambda wrong, there: export_ledger(wrong, there)),
    ("into", lambda wrong, there: export_ledger(there, wrong)),
    ("path", lambda wrong, there: read_report(wrong)),
    ("path", lambda wrong, there: read_config(wrong)),
]


@pytest.mark.parametrize("name, call", WRONG_PATHS)
def test_what_is_no_path_is_refused_by_name(tmp_path, name, call):
    there = tmp_path / "ledger.db"
    Engine(there).close()
    for wrong in (5, b"ledger.db", "a\0b"):
        with pytest.raises(ValueError, match=f"{name} must be the path of a file, got"):
            call(wrong, there)
    assert {one.name for one in tmp_path.iterdir()} <= {"ledger.db", "ledger.db-lock"}


def test_archives_are_a_list_and_an_archive_is_named_once_by_who_cannot_repair_it(tmp_path):
    ledger, archive = tmp_path / "ledger.db", tmp_path / "old.db"
    with Engine(ledger) as engine:
        engine.handle([Query("q", "k"), Outcome("q", 1)])
    archive_ledger(ledger, archive, keep=0)
    for wrong in (str(archive), archive, 5):
        with pytest.raises(ValueError, match=r"archives must be a list of paths, as \['old.db'\], got"):
            check_ledger(ledger, archives=wrong)
    with pytest.raises(OSError, match=r"^[^ ]*old\.db: this is an archive, which is only read"):
        repair_ledger(archive, tmp_path / "new.db")
