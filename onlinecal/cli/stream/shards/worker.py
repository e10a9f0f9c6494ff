"""A worker: an engine with the keys of one shard, between two pipes; `pool` runs it, as a process."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import IO

from onlinecal.cli.stream.answering import answer
from onlinecal.cli.stream.lines import GARBAGE, long_line
from onlinecal.cli.stream.shards.messages import Answered, Begin, Part, receive, send
from onlinecal.cli.stream.shards.routing import tells_unknown
from onlinecal.engine.engine import Engine
from onlinecal.engine.events import Rejected
from onlinecal.engine.watch.key_watch import Raised
from onlinecal.engine.watch.logs import log_to_stderr
from onlinecal.engine.watch.overview import Served


class Told(Served):
    """Keeps out of the logs what is unknown: another shard may know it, and the process that asks tells."""

    def note(self, refused: list[Rejected], seconds: float, raised: list[tuple[str, Raised]]) -> None:
        """A batch is committed."""
        super().note([one for one in refused if one.reason != "unknown"], seconds, raised)


class Shard(Engine):
    """The engine of a shard."""

    def __init__(self, begin: Begin) -> None:
        super().__init__(begin.ledger, begin.config, **begin.kept)
        self._served = Told()
        self._first, self._batch = begin.first, begin.batch

    def answer(self, part: Part, body: bytes) -> tuple[Answered, bytes]:
        """Answer the lines of a part, as many together as may be one transaction."""
        lines = body.split(b"\n") if part.lines else []
        for place, size in part.longer:
            lines[place] = long_line(size)
        if part.inputs:
            self.handle([], inputs=part.inputs)
        answers = list[bytes]()
        for start in range(0, len(lines), self._batch):
            answers += answer(self, lines[start : start + self._batch])[0].split(b"\n")[:-1]
        told = [
            self._first or not (all_ and tells_unknown(one))
            for one, all_ in zip(answers, part.shared, strict=True)
        ]
        own = [one for one, is_told in zip(answers, told, strict=True) if is_told]
        return Answered(bytes(told), *self.in_memory()), b"\n".join(own)


def work(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer parts until the last one; EOFError if the process that sends them has ended."""
    begin, _ = receive(requests, Begin)
    gc.set_threshold(*GARBAGE)
    if begin.log_json:
        log_to_stderr(as_json=True)
    try:
        with Shard(begin) as shard:
            send(answers, Answered(keys=0))
            while True:
                part, body = receive(requests, Part)
                answered, lines = shard.answer(part, body)
                if part.last:
                    break
                send(answers, answered, lines)
        send(answers, answered, lines)
    except (OSError, ValueError) as error:
        send(answers, Answered(error=str(error), is_request=isinstance(error, ValueError)))


def main() -> None:
    """Work between standard input and standard output; whatever else is printed goes to standard error."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # whoever sends it to all processes means the one that will say when to end
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        work(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        # the other process was killed: so is this one, the ledger bears it
        os._exit(1)
