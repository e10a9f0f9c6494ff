"""The workers of a folder of shards, and one order of answers: that of the lines."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from operator import itemgetter
from pathlib import Path

import msgspec

from onlinecal.cli.stream.lines import Gathered
from onlinecal.cli.stream.shards.folder import Claimed
from onlinecal.cli.stream.shards.messages import Answered, Begin, Part, receive, send
from onlinecal.cli.stream.shards.routing import FIRST, Routed, Shards, merge, route, tells_unknown
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.events import Forecast, Rejected, Settled, Withdrawn
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.records import Noted
from onlinecal.engine.watch.logs import logger, tell_refusals

AHEAD = 2
"""Blocks that are with the workers while the next one is read and divided."""

WORKER = "onlinecal.cli.stream.shards.worker"
"""The module that a worker runs."""

Deliver = Callable[[bytes, Counter[type]], bool]
"""Takes lines of answers, and how many there are of each type; whether anybody reads them."""

Reply = tuple[Answered, bytes]
Position = tuple[str | bytes, int, bytes | None]
"""An input, how far it was answered, and by what it is recognised."""


class Worker:
    """A process with the engine of one shard. LedgerError, or ValueError, where it cannot go on."""

    def __init__(self, begin: Begin) -> None:
        self._ledger = begin.ledger
        # modules come from where this process has them, not from the folder that it happens to be in
        code = f"import sys; sys.path[:] = {sys.path!r}; from {WORKER} import main; main()"
        # a session of its own: an interrupt of the terminal is for the process that reads and writes
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        # one question at a time, so neither side ever waits for the other to read
        self._thread = ThreadPoolExecutor(1)
        self._failed: Exception | None = None
        self.last = Answered()
        self.begun = self._thread.submit(self._exchange, begin, b"")

    def ask(self, part: Part, lines: bytes = b"") -> Future[Reply]:
        """What it says to a part, some time."""
        return self._thread.submit(self._exchange, part, lines)

    def _exchange(self, message: Begin | Part, lines: bytes) -> Reply:
        if self._failed is not None:
            raise self._failed
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            try:
                send(self.process.stdin, message, lines)
                answered, answers = receive(self.process.stdout, Answered)
            except (EOFError, BrokenPipeError) as error:
                raise self._gone() from error
            if answered.error is not None:
                raise (ValueError if answered.is_request else LedgerError)(answered.error)
        except Exception as error:
            self._failed = error
            raise
        self.last = answered
        return answered, answers

    def check(self) -> None:
        """LedgerError if the process has ended."""
        if self.process.poll() is not None:
            self._failed = self._failed or self._gone()
            raise self._failed

    def _gone(self) -> LedgerError:
        code = self.process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return LedgerError(
            f"{self._ledger}: its worker, process {self.process.pid}, {how}. What was answered is kept: "
            "start again with the same input, without --resume"
        )

    def close(self) -> None:
        """Have it write its states and end, after all that it was asked."""
        try:
            if self._failed is None:
                self.ask(Part(last=True)).result()
        finally:
            self._thread.shutdown()
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                with suppress(BrokenPipeError):
                    pipe.close()
            self.process.wait()


class Pool:
    """Answers blocks of lines by workers, in their order; a context that ends with all of them.

    `kept`: how much an engine keeps in memory, by the names of its arguments.
    `failed` is called, from another thread, when no more answers will be delivered. Raises LedgerError where
    a ledger cannot be opened or written, or a worker has ended; ValueError where the ledgers were made with
    another configuration.
    """

    def __init__(
        self,
        folder: Path,
        shards: int,
        config: EngineConfig | None,
        kept: dict[str, int],
        batch: int,
        log_json: bool,
        *,
        failed: Callable[[], None],
    ) -> None:
        self._failed = failed
        self._claimed = Claimed(folder, shards, config)
        self._shards, self._workers = Shards(shards), list[Worker]()
        self._blocks: deque[Future[list[Position]]] = deque()
        self._writer = ThreadPoolExecutor(1)
        self._over = False
        self._done: dict[str | bytes, Position] = {}
        try:
            for number, ledger in enumerate(self._claimed.ledgers):
                begin = Begin(str(ledger), self._claimed.config, kept, batch, log_json, number == FIRST)
                self._workers.append(Worker(begin))
            for worker in self._workers:
                worker.begun.result()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def in_memory(self) -> tuple[int, int]:
        """How many keys are in memory, and how many of their forecasts are open."""
        return sum(one.last.keys for one in self._workers), sum(one.last.open for one in self._workers)

    def check(self) -> None:
        """LedgerError if a worker has ended."""
        for worker in self._workers:
            worker.check()

    def noted(self, path: str | bytes) -> Noted | None:
        """How far an input had been answered by all shards: the first one's ledger has it."""
        with closing(Ledger(self._claimed.ledgers[FIRST], read_only=True)) as ledger:
            return ledger.noted(path)

    def answer(self, gathered: Gathered, deliver: Deliver) -> bool:
        """Have a block answered, and its answers delivered, some time; whether they were taken so far."""
        routed = route(gathered.lines, self._shards, len(self._workers))
        noted = self._taken()
        if noted and (not routed.parts or routed.parts[0][0] != FIRST):
            self._workers[FIRST].ask(Part(inputs=noted))
        elif noted:
            routed.parts[0][2].inputs = noted
        replies = [self._workers[shard].ask(part, lines) for shard, _, part, lines in routed.parts]
        self._blocks.append(self._writer.submit(self._finish, gathered, routed, replies, deliver))
        while len(self._blocks) > AHEAD:
            self._next()
        return not self._over

    def wait(self) -> None:
        """Until all blocks are answered and delivered."""
        while self._blocks:
            self._next()
        self._workers[FIRST].ask(Part(inputs=self._taken())).result()

    def _next(self) -> None:
        """Wait for the oldest block."""
        self._done.update((one[0], one) for one in self._blocks.popleft().result())

    def _taken(self) -> list[Position]:
        """How far inputs have been answered by all shards, for the first one's ledger to note."""
        taken, self._done = list(self._done.values()), {}
        return taken

    def _finish(
        self, gathered: Gathered, routed: Routed, replies: list[Future[Reply]], deliver: Deliver
    ) -> list[Position]:
        """When all shards have answered their parts, deliver; how far inputs are answered by then."""
        if self._over:
            return []
        try:
            lines = merge(routed, [reply.result() for reply in replies])
            kinds = Counter(map(TYPES.__getitem__, map(itemgetter(TYPE_AT), lines)))
            if kinds[Rejected] and logger.isEnabledFor(logging.INFO):
                tell_refusals(unknown_in(lines))
            self._over = not deliver(b"\n".join([*lines, b""]), kinds)
        except BaseException:
            self._over = True
            raise
        finally:
            if self._over:
                self._failed()
        return gathered.inputs

    def close(self) -> None:
        """End all workers; those that can write their states do."""
        self._writer.shutdown()
        problems = []
        for worker in self._workers:
            try:
                worker.close()
            except (OSError, ValueError) as error:
                problems.append(error)
        self._claimed.__exit__()
        if problems and sys.exc_info()[0] is None:
            raise problems[0]


TYPES: dict[int, type] = {ord("f"): Forecast, ord("s"): Settled, ord("w"): Withdrawn, ord("r"): Rejected}
TYPE_AT = len('{"type":"')
"""Where a line tells of what type the answer is."""


def unknown_in(lines: list[bytes]) -> list[Rejected]:
    """Refusals of what no shard knows, among answers."""
    return [msgspec.json.decode(line, type=Rejected) for line in lines if tells_unknown(line)]
