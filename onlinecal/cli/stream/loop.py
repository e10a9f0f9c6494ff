"""The loop of the verb `stream`: take what is there, answer it durably, write the answers."""

from __future__ import annotations

import gc
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self

from onlinecal.cli.errors import DONE, INTERRUPTED, UNREAD, unread
from onlinecal.cli.stream.answering import answer
from onlinecal.cli.stream.follow import Files, check_inputs
from onlinecal.cli.stream.inputs import Stop, read_stream
from onlinecal.cli.stream.lines import GARBAGE, Gathered, Piece, gather, key_of
from onlinecal.cli.stream.progress import InMemory, Progress
from onlinecal.cli.stream.shards.folder import in_shards, named
from onlinecal.compiling import counting
from onlinecal.engine.engine import HOT_KEYS, PACKED_BYTES, Engine
from onlinecal.engine.ledger.records import Noted
from onlinecal.engine.settings import read_config

if TYPE_CHECKING:
    from onlinecal.cli.stream.shards.pool import Deliver


class Answering(InMemory, Protocol):
    """Answers batches of lines, in one process or in several."""

    def noted(self, path: str | bytes) -> Noted | None:
        """How far an input had been answered."""

    def answer(self, gathered: Gathered, deliver: Deliver) -> bool:
        """Answer a batch durably, then deliver; whether answers were taken so far."""

    def wait(self) -> None:
        """Until everything is answered and delivered."""

    def check(self) -> None:
        """Raise LedgerError if nothing can be answered any more."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Alone(Engine):
    """One engine in this process."""

    def answer(self, gathered: Gathered, deliver: Deliver) -> bool:
        """Answer a batch."""
        return deliver(*answer(self, gathered.lines, gathered.inputs))

    def wait(self) -> None:
        """Nothing is left to be answered."""

    def check(self) -> None:
        """Whatever goes wrong is told by `answer`."""


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
    workers: int | None,
    quiet: bool,
    log_json: bool,
) -> int:
    """Answer the inputs, or standard input if there are none, on standard output; the exit code.

    Ends with the inputs, when nobody reads the answers any more, or by a signal. Raises OSError at the end if
    there were inputs that could not be read.
    """
    paths = list(inputs)
    settings = None if config is None else read_config(config)
    check_inputs(paths)
    shards = in_shards(ledger, workers)
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

        def answering() -> Answering:
            if shards is None:
                return Alone(ledger, settings, **kept)
            from onlinecal.cli.stream.shards.pool import Pool

            return Pool(ledger, shards, settings, kept, most, log_json, failed=stop.end)

        with counting() as compiled, answering() as engine:
            progress, is_read = Progress(engine, quiet), True

            def deliver(answers: bytes, kinds: Counter[type]) -> bool:
                nonlocal is_read
                progress.count(kinds)
                is_read = write(answers)
                if not is_read:
                    progress.note("nobody reads the answers any more")
                return is_read

            def idle() -> None:
                engine.check()
                progress.tick()

            pieces: Iterator[Piece | None]
            files = Files(paths, lambda path: engine.noted(key_of(path)) if resume else None)
            if not paths:
                pieces = read_stream(sys.stdin.fileno(), stop, idle)
            else:
                pieces = files.for_ever(stop, idle) if follow else files.once(stop)
            with progress:
                for gathered in gather(pieces, most * (shards or 1)):
                    if not engine.answer(gathered, deliver) or stop:
                        break
                engine.wait()
        if compiled.notice:
            progress.note(compiled.notice)
        progress.summarise([ledger] if shards is None else named(ledger, shards))
    if files.unread and not follow:
        raise OSError(f"not read, or not to the end: {', '.join(files.unread)}")
    if not is_read:
        return UNREAD
    return INTERRUPTED if stop.signal == signal.SIGINT else DONE


def write(data: bytes) -> bool:
    """Write on standard output; whether anybody reads it. OSError if it cannot be written."""
    try:
        write_all(sys.stdout.buffer, data)
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


def write_all(stream: BinaryIO, data: bytes) -> None:
    """Write all of the data: where Python keeps no buffer, a signal may end a write in the middle."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
