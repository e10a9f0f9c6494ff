"""The loop of the verb `stream`: take what is there, answer it durably, write the answers."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from onlinecal.cli.stream.follow import Files, check_inputs
from onlinecal.cli.stream.inputs import Stop, read_stream
from onlinecal.cli.stream.lines import Gathered, Piece, gather, key_of
from onlinecal.cli.stream.progress import Progress
from onlinecal.compiling import counting
from onlinecal.engine.engine import HOT_KEYS, PACKED_BYTES, Engine
from onlinecal.engine.settings import read_config

GARBAGE = 100_000, 20, 100
"""Thresholds of the garbage collector. A batch makes some 10^5 objects and next to no cycles; looking for
them at every 700, as is usual, took a third of all time with 10,000 keys in memory."""


def run(
    ledger: Path,
    inputs: Iterable[Path],
    config: Path | None,
    *,
    follow: bool,
    resume: bool,
    most: int,
    hot_keys: int | None,
    packed_mib: int | None,
    quiet: bool,
) -> int | None:
    """Answer the inputs, or standard input if there are none, on standard output.

    Ends with the inputs, when nobody reads the answers any more, or by a signal, whose number it returns.
    Raises OSError at the end if there were inputs that could not be read.
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
        kept = {
            "hot_keys": HOT_KEYS if hot_keys is None else hot_keys,
            "packed_bytes": PACKED_BYTES if packed_mib is None else packed_mib << 20,
        }
        with counting() as compiled, Engine(ledger, settings, **kept) as engine:
            progress = Progress(engine, quiet)
            pieces: Iterator[Piece | None]
            files = Files(paths, lambda path: engine.noted(key_of(path)) if resume else None)
            if not paths:
                pieces = read_stream(sys.stdin.fileno(), stop, progress.tick)
            else:
                pieces = files.for_ever(stop, progress.tick) if follow else files.once(stop)
            with progress:
                for gathered in gather(pieces, most):
                    if not answer(engine, gathered, progress) or stop:
                        break
        if compiled.notice:
            progress.note(compiled.notice)
        progress.summarise(ledger)
    if files.unread and not follow:
        raise OSError(f"not read, or not to the end: {', '.join(files.unread)}")
    return stop.signal


def answer(engine: Engine, gathered: Gathered, progress: Progress) -> bool:
    """Answer a batch; whether anybody reads the answers."""
    answers, kinds = engine.answer_lines(b"".join(line + b"\n" for line in gathered.lines), gathered.inputs)
    progress.count(kinds)
    try:
        write_all(sys.stdout.buffer, answers)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # what Python has not got rid of goes nowhere, also at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        progress.note("nobody reads the answers any more")
        return False
    return True


def write_all(stream: BinaryIO, data: bytes) -> None:
    """Write all of the data: where Python keeps no buffer, a signal may end a write in the middle."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
