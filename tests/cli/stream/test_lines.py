"""Cutting bytes into lines, and putting lines together into batches."""

from hypothesis import given
from hypothesis import strategies as st

from onlinecal.cli.stream.lines import MOST_BYTES, Gathered, LineCutter, Piece, gather, long_line
from onlinecal.engine.events import LONGEST_LINE, decode

chunks = st.lists(st.binary(max_size=6) | st.sampled_from([b"\n", b"a\n", b"\n\n"]), max_size=12)


def gathered(pieces, most):
    return list(gather(pieces, most))


@given(chunks)
def test_lines_do_not_depend_on_how_the_bytes_were_cut(parts):
    cutter = LineCutter()
    lines = [line for part in parts for line in cutter.cut(part)]
    *whole, last = b"".join(parts).split(b"\n")
    assert lines == whole
    assert cutter.rest() == (last or None)
    assert cutter.rest() is None


def test_of_a_line_that_is_too_long_only_its_length_is_kept():
    cutter = LineCutter()
    sizes = []
    for _ in range(100):
        assert cutter.cut(b"x" * LONGEST_LINE) == []
        sizes.append(len(cutter._begun))
    [long, short] = cutter.cut(b"yy\nzz\n")
    assert max(sizes) == LONGEST_LINE
    assert len(long) == 100 * LONGEST_LINE + 2
    assert short == b"zz"


def test_a_long_line_is_refused_in_the_same_words_in_one_chunk_and_in_many():
    size = LONGEST_LINE + 5
    assert decode(long_line(size)) == decode(b"x" * size)
    assert str(size) in decode(long_line(size)).detail


def test_a_line_of_the_greatest_length_is_kept():
    cutter = LineCutter()
    cutter.cut(b"x" * (LONGEST_LINE - 1))
    assert cutter.cut(b"x\n") == [b"x" * LONGEST_LINE]


@given(st.lists(st.lists(st.sampled_from([b"", b"a", b"bcd"]), max_size=7), max_size=6), st.integers(1, 5))
def test_batches_hold_all_lines_in_order_and_say_where_they_end(pieces, most):
    start, made = 0, []
    for lines in pieces:
        made.append(Piece(lines, "f", start))
        start += sum(map(len, lines)) + len(lines)
    answer = gathered(made, most)
    assert [line for batch in answer for line in batch.lines] == [line for lines in pieces for line in lines]
    assert all(0 < len(batch.lines) <= most for batch in answer)
    position = 0
    for batch in answer:
        position += sum(map(len, batch.lines)) + len(batch.lines)
        assert batch.positions == {"f": position}


def test_lines_are_not_held_back_when_there_are_no_more():
    pieces = iter([Piece([b"a"]), None, None, Piece([b"b"]), Piece([b"c"]), None])
    assert gathered(pieces, 10) == [Gathered([b"a"], {}), Gathered([b"b", b"c"], {})]


def test_one_batch_holds_lines_of_many_files():
    pieces = [Piece([b"a"], "one", 7), Piece([b"bb", b"c"], "two", 0), Piece([b"d"], "three", 0)]
    assert gathered(pieces, 3) == [
        Gathered([b"a", b"bb", b"c"], {"one": 9, "two": 5}),
        Gathered([b"d"], {"three": 2}),
    ]


def test_a_line_without_its_end_is_answered_but_not_noted_as_answered():
    pieces = [Piece([b"a"], "f", 0), Piece([b"half"], "f", 2, complete=False)]
    assert gathered(pieces, 10) == [Gathered([b"a", b"half"], {"f": 2})]


def test_long_lines_make_small_batches():
    line = b"x" * LONGEST_LINE
    batches = gathered([Piece([line] * 16)] * 60, 8192)
    assert max(len(batch.lines) for batch in batches) * LONGEST_LINE < 2 * MOST_BYTES
    assert sum(len(batch.lines) for batch in batches) == 960
