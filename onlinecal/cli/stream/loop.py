"""The loop of the verb `stream`: take what is there, answer it durably, write the answers."""

from __future__ import annotations

import gc
import signal
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from onlinecal.cli.stream.inputs import Stop, check_inputs, read_files, read_stream
from onlinecal.cli.stream.lines import GARBAGE, Gathered, LongLine, gather, key_of
from onlinecal.cli.stream.progress import Progress
from onlinecal.cli.verbs import DONE, INTERRUPTED, UNREAD, unread
from onlinecal.compiling import counting
from onlinecal.engine.engine import Engine
from onlinecal.engine.events import decode_all, encode_lines
from onlinecal.engine.settings import read_config


def run(
    ledger: Path,
    inputs: Iterable[Path],
    config: Path | None,
    *,
    resume: bool,
    most: int,
    hot_keys: int,
    quiet: bool,
) -> int:
    """Answer the inputs, or standard input if there are none, on standard output; the exit code.

    Ends with the inputs, when nobody reads the answers any more, or by a signal. Raises OSError for an input
    that cannot be read, when what comes before it was answered.
    """
    paths = list(inputs)
    settings = None if config is None else read_config(config)
    check_inputs(paths)
    if (not paths and sys.stdin is None) or sys.stdout is None:
        raise ValueError(
            "standard input and output must be open: events come from one, answers go to the other"
        )
    gc.set_threshold(*GARBAGE)
    with Stop() as stop:
        with counting() as compiled, Engine(ledger, settings, hot_keys=hot_keys) as engine:
            progress, is_read = Progress(engine, quiet), True
            if paths:
                pieces = read_files(paths, lambda path: engine.noted(key_of(path)) if resume else None, stop)
            else:
                pieces = read_stream(sys.stdin.fileno(), stop)
            for gathered in gather(pieces, most):
                answers, kinds = answer(engine, gathered)
                progress.count(kinds)
                is_read = write(answers)
                if not is_read or stop:
                    break
        unread_note = "" if is_read else "nobody reads the answers any more"
        progress.summarise(ledger, [compiled.notice or "", unread_note])
    if not is_read:
        return UNREAD
    return INTERRUPTED if stop.signal == signal.SIGINT else DONE


def answer(engine: Engine, gathered: Gathered) -> tuple[bytes, Counter[type]]:
    """The answers to a batch, a line each, and how many there are of each type."""
    lines, marks = gathered.lines, gathered.marks
    inputs = [(key_of(path), end, marks.get(path)) for path, end in gathered.positions.items()]
    if LongLine in map(type, lines):
        answers = engine.handle(decode_all(lines), inputs=inputs)
        return encode_lines(answers), Counter(map(type, answers))
    return engine.answer_lines(b"\n".join([*lines, b""]), inputs)


def write(data: bytes) -> bool:
    """Write on standard output; whether anybody reads it. OSError if it cannot be written."""
    rest = memoryview(data)
    try:
        while rest:
            # where Python keeps no buffer, a signal may end a write in the middle
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        unread()
        return False
    except OSError as error:
        unread()
        raise OSError(
            f"the answers cannot be written: {error.strerror}. Their events are in the ledger: make room, "
            "and start without --resume"
        ) from error
    return True
