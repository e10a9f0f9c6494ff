"""Cutting bytes into lines, and putting lines together into batches."""

from hypothesis import given
from hypothesis import strategies as st

from onlinecal.cli.stream.lines import MOST_BYTES, Gathered, LineCutter, Piece, gather, long_line
from onlinecal.engine.events import LONGEST_LINE, decode

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
    assert decode(long_line(size)) == decode(b"x" * size)
    assert str(size) in decode(long_line(size)).detail
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
    return Gathered(lines, positions, {path: bytes(place) for path, place in positions.items()})


lines = st.lists(st.sampled_from([b"", b"a", b"bcd"]), max_size=7)
paths = st.sampled_from(["one", "two", None])
pieces = st.none() | st.builds(Piece, lines, paths, st.integers(0, 99), st.booleans(), st.just(bytes))


@given(st.lists(pieces, max_size=8), st.integers(1, 5))
def test_batches_hold_all_lines_in_order_and_say_where_they_end(pieces, most):
    """No line waits where there are no more (None), and what has no end yet is not noted as answered."""
    assert list(gather(iter(pieces), most)) == line_by_line(pieces, most)


def test_long_lines_make_small_batches():
    batches = [len(one.lines) for one in gather([Piece([b"x" * LONGEST_LINE] * 16)] * 60, 8192)]
    assert max(batches) * LONGEST_LINE < 2 * MOST_BYTES
    assert sum(batches) == 960
