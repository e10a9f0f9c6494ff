"""A batch of lines, answered by an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onlinecal.cli.stream.lines import LongLine
from onlinecal.engine.engine import Engine, Input
from onlinecal.engine.events import decode_all, encode_lines


def answer(engine: Engine, lines: list[bytes], inputs: Iterable[Input] = ()) -> tuple[bytes, Counter[type]]:
    """The answers, a line each, and how many there are of each type; `inputs` as `Engine.handle` takes."""
    if LongLine in map(type, lines):
        answers = engine.handle(decode_all(lines), inputs=inputs)
        return encode_lines(answers), Counter(map(type, answers))
    return engine.answer_lines(b"\n".join([*lines, b""]), inputs)
