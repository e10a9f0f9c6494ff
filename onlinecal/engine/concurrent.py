"""The engine for asyncio: whoever waits while a batch is committed is in the next batch, if that has room.

A transaction costs about the same for one event as for a hundred, so the more callers wait, the cheaper each
gets. Batches run one after the other in a single thread; the event loop stays free.

A call goes through three methods. `_commit` takes places for its events, and lets it wait. `_next` makes a
batch of the calls that wait, and gives it to the thread. `_finish` gives the places back, hands the answers
out, and has `_next` called again. All three run in the event loop, and so does all else that writes fields of
`AsyncEngine` after `__init__`. The thread gets the engine and the events of a batch, or a question between
two batches (`_in_thread`). Keys that are not in memory are read in one further thread, by a connection of its
own (`ColdReading.read`).

What always holds between two steps of the loop: at most one batch is in the thread. While `_at_work` one is
there, or `_next` or `_finish` is about to be called; else no call waits. The places that are taken are those
of the calls that were let in and have no answers yet. `_callers` counts who must be answered before the
engine closes, and `_quiet` is set exactly while it is 0.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from onlinecal.engine.columns import listed_events, no_event
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.engine import Engine
from onlinecal.engine.events import Answer, Incoming, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.watch.key_watch import Summary
from onlinecal.engine.watch.overview import NamedSummary, Overview, Total
from onlinecal.texts import shown
from onlinecal.validation import check_count

MOST_IN_BATCH = 1_000
MOST_WAITING = 10_000
"""The limits unless others are given. They say who waits for how long, and change no answer."""

Result = TypeVar("Result")


class Call(NamedTuple):
    """Events that wait for their answers."""

    events: list[Incoming | Rejected]
    answers: asyncio.Future[list[Answer]]


class Capacity:
    """A number of places. Who needs more than are free waits in a queue, first come, first served."""

    def __init__(self, places: int) -> None:
        self.free = places
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, size: int) -> None:
        """Take `size` places, as soon as they are free and all who came before have theirs."""
        if not self._queue and size <= self.free:
            self.free -= size
            return
        admitted = asyncio.get_running_loop().create_future()
        self._queue.append((size, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.release(size)
            else:
                # `release` may have passed over it since it was cancelled
                with suppress(ValueError):
                    self._queue.remove((size, admitted))
                self.release(0)
            raise

    def release(self, size: int) -> None:
        """Give places back."""
        self.free += size
        while self._queue and self._queue[0][0] <= self.free:
            taken, admitted = self._queue.popleft()
            if not admitted.done():
                self.free -= taken
                admitted.set_result(None)


class AsyncEngine:
    """Answers events for many callers at once, each when its events are on disk: an `Engine` for asyncio.

    Its methods are coroutines, to be awaited. It belongs to the event loop that it is first used in. A caller
    who awaits one call after the other is served in this order. A caller who is cancelled leaves no trace if
    its events were still waiting; if they were just being committed they stay committed, and sending them
    again brings the same answers.

    Parameters
    ----------
    engine
        The path of a ledger's file, which is made if there is none, or None for a ledger in memory only: an
        `Engine` is then opened at once, and `aclose` closes it. Or an `Engine`, which `aclose` leaves open.
    config
        An `EngineConfig`, what forecasters the keys get. None: what the ledger was made with, or the default.
        Beside an `Engine`, which has its own, it must be None.
    most_in_batch
        How many events are written in one transaction at most. A call with more is written in several.
    most_waiting
        How many events may wait for their answers, at least `most_in_batch`. A call beyond that waits until
        there is room.

    Raises
    ------
    LedgerError
        If the ledger cannot be opened, is damaged, or another writer uses it. Later from every method, if the
        ledger cannot be read or written, and from every call but `aclose` once `aclose` has begun. If a
        transaction fails, all callers who have events in it get the error; the next one starts again from
        what the ledger holds.
    ValueError
        If the ledger was made with another configuration; if `config` is given with an `Engine`; for a number
        that is not whole or below 1; and for `most_waiting` below `most_in_batch`.

    Examples
    --------
    >>> import asyncio
    >>> async def main():
    ...     async with AsyncEngine() as engine:
    ...         forecast = await engine.query("monday", "rain/oslo", hint=0.8)
    ...         return round(forecast.probability, 2), await engine.outcome("monday", 1)
    >>> asyncio.run(main())
    (0.8, Settled(id='monday'))
    """

    def __init__(
        self,
        engine: Engine | str | Path | None = None,
        config: EngineConfig | None = None,
        *,
        most_in_batch: int = MOST_IN_BATCH,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.most_in_batch = check_count(most_in_batch, "most_in_batch")
        most_waiting = check_count(most_waiting, "most_waiting")
        if most_waiting < self.most_in_batch:
            raise ValueError(
                f"most_waiting must be at least most_in_batch, {most_in_batch}, got {most_waiting}: raise "
                "it, or give a smaller most_in_batch"
            )
        self._owned = not isinstance(engine, Engine)
        if not self._owned and config is not None:
            raise ValueError(
                f"config must be left out where engine is an Engine, which has its own, got {shown(config)}"
            )
        self.engine = engine if isinstance(engine, Engine) else Engine(engine, config)
        self._capacity = Capacity(most_waiting)
        self._waiting: deque[Call] = deque()
        self._thread = ThreadPoolExecutor(1, "onlinecal-engine")
        self._callers = 0
        self._at_work = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._closing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def query(
        self,
        id: str | int,
        key: str | int,
        hint: float | dict[str, float] | None = None,
        time: float | str | None = None,
    ) -> Answer:
        """Ask for one forecast, which is on disk when the awaited call returns.

        `id` is a new name for the forecast, and `key` names the stream that it belongs to: texts of 1 to 200
        characters, or whole numbers. `hint` is a model's probability of outcome 1, or for several classes a
        dict with the probability of each; None: there is none. `time` is in seconds, or a text such as
        "2026-01-31T09:30:00Z"; None: it does not matter.

        Returns a `Forecast`, or a `Rejected` that says why there is none. The same query, sent again, gets
        the same forecast; with another key, hint or time this `id` is rejected. Raises LedgerError if it
        cannot be written, or after `aclose`; then nothing is kept of it.
        """
        return (await self.handle([Query(id, key, hint, time)]))[0]

    async def outcome(
        self, id: str | int, value: bool | int | float | str, time: float | str | None = None
    ) -> Answer:
        """Settle the forecast that was asked for with this `id`; it is on disk when the awaited call returns.

        `value` is 0 or 1, a number between, or where there are several classes the label of one or a dict
        with the probability of each. `time` says when it became known: seconds, or a text such as
        "2026-01-31T09:30:00Z"; None: it does not matter.

        Returns a `Settled`; a `Parked` if the query has not come yet and the configuration lets outcomes wait
        for it (`park`); or a `Rejected` that says why not. The same outcome, sent again with the same value
        and time, gets the same answer. Raises LedgerError if it cannot be written, or after `aclose`; then
        nothing is kept of it.
        """
        return (await self.handle([Outcome(id, value, time=time)]))[0]

    async def withdraw(self, id: str | int, time: float | str | None = None) -> Answer:
        """Say that the outcome of the forecast asked for with this `id` will never be known.

        The forecast is then open no longer, and counts in no certificate. `time` says when this became known:
        seconds, or a text such as "2026-01-31T09:30:00Z"; None: it does not matter. To be awaited: returns a
        `Withdrawn`, which is on disk by then, or a `Rejected` that says why not. Raises LedgerError if it
        cannot be written, or after `aclose`.
        """
        return (await self.handle([Withdraw(id, time=time)]))[0]

    async def handle(self, events: Iterable[Incoming | Rejected]) -> list[Answer]:
        """Answer `events`, any number of `Query`, `Outcome` and `Withdraw`, when all of them are on disk.

        To be awaited: returns a list with one answer for each event, in their order, and an empty list for
        none. An event with a value that cannot be is answered with a `Rejected`. A `Rejected` among the
        events, as `decode_lines` makes it of a bad line, is passed on as the answer.

        Raises LedgerError after `aclose`, and if the events cannot be written; if there are more than
        `most_in_batch`, some of them may be on disk then. To send all of them again is safe. Raises
        ValueError, before anything is written, if `events` is no list of events.
        """
        events = listed_events(events)
        for event in events:
            if type(event) not in (Query, Outcome, Withdraw, Rejected):
                raise no_event(event)
        with self._calling():
            answers: list[Answer] = []
            for start in range(0, len(events), self.most_in_batch):
                answers += await self._commit(events[start : start + self.most_in_batch])
            return answers

    async def total(self) -> Total:
        """A `Total`, to be awaited: sums over all keys, of rounds, open forecasts, certificates and so on.

        The first call, and the first one after a transaction that failed, reads every key of the ledger,
        while events are answered as before. Raises LedgerError if the ledger cannot be read, or after
        `aclose`.
        """
        with self._calling():
            await self._read_all_keys()
            return await self._in_thread(self.engine.total)

    async def summary(self, key: str | int) -> Summary | None:
        """A `Summary` of the key with this name, to be awaited: rounds, open forecasts, certificate, alarms.

        `key` is the name that queries gave, a text or a whole number. None if no query of the key was
        accepted. Raises ValueError for what is neither a text nor a whole number; LedgerError if the ledger
        cannot be read, or after `aclose`.
        """
        return await self._ask(lambda: self.engine.summary(key))

    async def keys(self, offset: int = 0, limit: int = 100) -> list[NamedSummary]:
        """A part of the list of all keys, to be awaited: pairs (name, `Summary`).

        All keys are listed in the order of their first queries. The first `offset` keys are left out, and
        then there are at most `limit`; the list is empty where there are no more. Raises ValueError unless
        limit is a whole number of at least 1 and offset one of at least 0; LedgerError if the ledger cannot
        be read, or after `aclose`.
        """
        return await self._ask(lambda: self.engine.keys(offset, limit))

    async def largest(self, limit: int = 10) -> list[NamedSummary]:
        """The keys whose certificates per settled round are largest, to be awaited: pairs (name, `Summary`).

        There are at most `limit`, the largest first, keys without a settled round last. Of keys that left the
        memory long ago, a thousand or more, the largest, are considered. The first call reads every key of
        the ledger, while events are answered as before. Raises ValueError unless limit is a whole number of
        at least 1; LedgerError if the ledger cannot be read, or after `aclose`.
        """
        with self._calling():
            await self._read_all_keys()
            return await self._in_thread(lambda: self.engine.largest(limit))

    async def overview(self, limit: int = 10) -> Overview:
        """An `Overview`, to be awaited: all keys together, and the keys to look at first.

        At most `limit` keys are named for a large certificate, and at most `limit` for their alarms. The
        first call reads every key of the ledger, while events are answered as before. Raises ValueError
        unless limit is a whole number of at least 1; LedgerError if the ledger cannot be read, or after
        `aclose`.
        """
        with self._calling():
            await self._read_all_keys()
            return await self._in_thread(lambda: self.engine.overview(limit))

    async def aclose(self) -> None:
        """Refuse new calls, wait until all earlier ones are answered, and end the thread. To be awaited.

        An `Engine` that this object has opened is closed, which writes its keys' states; LedgerError is
        raised if they cannot be written. An `Engine` that was given stays open. Calls after this raise
        LedgerError, but for `aclose`, which may be called again.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Let a caller in, unless the engine closes: then LedgerError."""
        if self._closing is not None:
            raise LedgerError("the engine is closed: open it anew")
        with self._counted():
            yield

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a caller who must be answered before the engine closes."""
        self._callers += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._callers -= 1
            if not self._callers:
                self._quiet.set()

    async def _read_all_keys(self) -> None:
        """Have all keys counted; those that are not in memory are read while batches go on."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_cold_keys())
        await asyncio.shield(self._reading)

    async def _read_cold_keys(self) -> None:
        with self._counted():
            reading = await self._in_thread(self.engine._begin_totals)
            if reading is not None:
                await asyncio.to_thread(reading.read)
                await self._in_thread(lambda: self.engine._finish_totals(reading))

    async def _ask(self, question: Callable[[], Result]) -> Result:
        """Let a caller in, and ask the engine."""
        with self._calling():
            return await self._in_thread(question)

    async def _in_thread(self, question: Callable[[], Result]) -> Result:
        """Ask the engine in its thread, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question)

    async def _close(self) -> None:
        while self._callers:
            await self._quiet.wait()
        # the thread may still have a batch whose callers were cancelled: this comes after it
        last = self.engine.close if self._owned else int
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, last)
        finally:
            self._thread.shutdown(wait=False)

    async def _commit(self, events: list[Incoming | Rejected]) -> list[Answer]:
        await self._capacity.acquire(len(events))
        loop = asyncio.get_running_loop()
        call = Call(events, loop.create_future())
        self._waiting.append(call)
        if not self._at_work:
            self._at_work = True
            loop.call_soon(self._next)
        return await call.answers

    def _next(self) -> None:
        """Send the next batch to the thread."""
        calls: list[Call] = []
        size = 0
        while self._waiting and size + len(self._waiting[0].events) <= self.most_in_batch:
            call = self._waiting.popleft()
            if call.answers.cancelled():
                self._capacity.release(len(call.events))
            else:
                calls.append(call)
                size += len(call.events)
        if calls:
            work = asyncio.get_running_loop().run_in_executor(self._thread, answers_of, self.engine, calls)
            work.add_done_callback(lambda done: self._finish(calls, done))
        else:
            self._at_work = False

    def _finish(self, calls: list[Call], done: asyncio.Future[list[list[Answer] | Exception]]) -> None:
        """Hand out the answers to a batch, and go on with the next."""
        for call, answers in zip(calls, done.result(), strict=True):
            self._capacity.release(len(call.events))
            if call.answers.done():
                continue
            if isinstance(answers, Exception):
                call.answers.set_exception(answers)
            else:
                call.answers.set_result(answers)
        # callers who wake up now and call again get into the next batch
        asyncio.get_running_loop().call_soon(self._next)


def answers_of(engine: Engine, calls: list[Call]) -> list[list[Answer] | Exception]:
    """The answers to calls that are committed together, or for each call an error."""
    try:
        answers = iter(engine.handle(event for call in calls for event in call.events))
        return [list(islice(answers, len(call.events))) for call in calls]
    except LedgerError as error:
        return [LedgerError(*error.args) for _ in calls]
    except Exception as error:
        # an error that no check foresaw goes only to the call that causes it
        return [error] if len(calls) == 1 else [answers_of(engine, [call])[0] for call in calls]
