"""The engine for asyncio: one transaction for all who wait, each caller's order, failures, a full queue."""

import asyncio
import threading

import pytest

from onlinecal.engine import AsyncEngine, Engine, LedgerError, Outcome, Query, Rejected, Settled, read_report
from onlinecal.engine.concurrent import Capacity


class Slow:
    """An engine whose batches are counted and can be held up."""

    def __init__(self, engine):
        self.engine, self.handle_really = engine, engine.handle
        self.sizes, self.threads = [], set()
        self.gate = threading.Event()
        self.gate.set()
        engine.handle = self.handle

    def handle(self, events):
        events = list(events)
        self.sizes.append(len(events))
        self.threads.add(threading.current_thread())
        assert self.gate.wait(10)
        return self.handle_really(events)


@pytest.fixture
def slow():
    with Engine() as engine:
        yield Slow(engine)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


async def test_all_who_wait_while_a_batch_is_committed_are_the_next_batch(slow):
    async with AsyncEngine(slow.engine) as engine:
        slow.gate.clear()
        first = asyncio.create_task(engine.query("first", "a"))
        await until(lambda: slow.sizes)
        others = [asyncio.create_task(engine.query(f"q{i}", f"key {i % 3}")) for i in range(50)]
        await asyncio.sleep(0)
        slow.gate.set()
        answers = await asyncio.gather(first, *others)
    assert [answer.id for answer in answers] == ["first", *(f"q{i}" for i in range(50))]
    assert slow.sizes == [1, 50]
    assert len(slow.threads) == 1
    assert threading.main_thread() not in slow.threads


async def test_a_full_queue_makes_callers_wait_in_the_order_in_which_they_came(slow):
    async with AsyncEngine(slow.engine, most_in_batch=2, most_waiting=4) as engine:
        slow.gate.clear()
        pairs = [[Query(f"q{i}", "a"), Query(f"r{i}", "a")][: 2 - i % 2] for i in range(12)]
        tasks = [asyncio.create_task(engine.handle(pair)) for pair in pairs]
        await until(lambda: slow.sizes)
        assert engine._capacity.free == 1
        slow.gate.set()
        answers = await asyncio.gather(*tasks)
        assert engine._capacity.free == 4
        # a call of more is several batches
        assert len(await engine.handle([Query(f"more {i}", "a") for i in range(3)])) == 3
    wanted = [event.id for pair in pairs for event in pair]
    assert [answer.id for some in answers for answer in some] == wanted
    assert (max(slow.sizes), sum(slow.sizes)) == (2, 18 + 3)
    known = slow.engine._ledger.recall(wanted)
    numbers = [known[id].number for id in wanted]
    assert numbers == sorted(numbers)


async def test_many_callers_get_what_one_caller_would(tmp_path):
    """Each key's forecasts depend on that key's own events alone, in the order of its caller."""

    def script(key):
        for i in range(40):
            yield Query(f"{key}/{i}", key, hint=(i % 7) / 7)
            if i >= 3:
                yield Outcome(f"{key}/{i - 3}", int(i % 3 == 0))

    async def caller(engine, key):
        return [(await engine.handle([event]))[0] for event in script(key)]

    path = tmp_path / "ledger.db"
    async with AsyncEngine(path) as engine:
        together = await asyncio.gather(*(caller(engine, f"key {i}") for i in range(8)))
        assert (await engine.withdraw("key 0/39")).id == "key 0/39"
    with Engine() as alone:
        assert together == [alone.handle(script(f"key {i}")) for i in range(8)]
    # the ledger that was opened here is closed and complete
    with Engine(path) as engine:
        assert engine._ledger.about("tail") == read_report(path).events == 8 * 77 + 1


async def test_a_failed_commit_reaches_every_caller_of_the_batch_and_no_other(slow, monkeypatch):
    def full(*changes, **more_changes):
        raise LedgerError("the disk is full")

    async with AsyncEngine(slow.engine) as engine:
        await engine.query("q", "a")
        await engine.outcome("q", 1)
        before = await engine.total()
        with monkeypatch.context() as patched:
            patched.setattr(slow.engine._ledger, "commit", full)
            calls = (engine.query(f"q{i}", "a") for i in range(5))
            results = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(result) for result in results] == ["the disk is full"] * 5
        assert {type(result) for result in results} == {LedgerError}
        assert len({id(result) for result in results}) == 5
        assert await engine.total() == before
        assert (await engine.query("q0", "a")).id == "q0"
    assert slow.sizes == [1, 1, 5, 1]


async def test_an_event_that_breaks_the_engine_hurts_its_own_caller_only(slow):
    class Odd(Exception):
        pass

    really = slow.handle_really

    def handle(events):
        if any(event.id == "odd" for event in events):
            raise Odd
        return really(events)

    slow.handle_really = handle
    async with AsyncEngine(slow.engine) as engine:
        calls = (engine.query(id, "a") for id in ("q1", "odd", "q2"))
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result).__name__ for result in results] == ["Forecast", "Odd", "Forecast"]


async def test_what_is_no_event_is_refused_before_it_meets_others_and_wrong_limits_at_once():
    async with AsyncEngine() as engine:
        with pytest.raises(ValueError, match=r"events must be .* got \{'id': 'q'\}"):
            await engine.handle([{"id": "q"}])
        with pytest.raises(ValueError, match="put a single one in a list"):
            await engine.handle(Query("q", "a"))
        assert await engine.handle([]) == []
        assert (await engine.handle([Rejected(None, "malformed", "no event")]))[0].reason == "malformed"
        for wrong in ({"most_in_batch": 0}, {"most_waiting": 0}, {"most_in_batch": 10, "most_waiting": 5}):
            with pytest.raises(ValueError, match="most_"):
                AsyncEngine(engine.engine, **wrong)


async def test_a_cancelled_caller_leaves_the_batch_as_it_is(slow):
    async with AsyncEngine(slow.engine) as engine:
        slow.gate.clear()
        tasks = [asyncio.create_task(engine.query(f"q{i}", "a")) for i in range(3)]
        await until(lambda: slow.sizes)
        tasks += [asyncio.create_task(engine.query(f"late{i}", "a")) for i in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[4].cancel()
        slow.gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        kinds = [type(result).__name__ for result in results]
        assert kinds == ["Forecast", "CancelledError", "Forecast"] * 2
        assert (await engine.outcome("late1", 1)).reason == "unknown"
        assert await engine.outcome("q1", 1) == Settled("q1")


async def test_a_caller_cancelled_before_there_was_room_takes_none(slow):
    async with AsyncEngine(slow.engine, most_in_batch=2, most_waiting=2) as engine:
        slow.gate.clear()
        held = asyncio.create_task(engine.handle([Query("a", "k"), Query("b", "k")]))
        await until(lambda: slow.sizes)
        large = asyncio.create_task(engine.handle([Query("c", "k"), Query("d", "k")]))
        small = asyncio.create_task(engine.query("e", "k"))
        await asyncio.sleep(0)
        large.cancel()
        await asyncio.sleep(0)
        slow.gate.set()
        assert len(await held) == 2
        assert (await small).id == "e"
        assert engine._capacity.free == 2
    assert slow.sizes == [2, 1]


async def test_a_caller_cancelled_just_before_there_is_room_is_cancelled_and_nothing_else():
    capacity = Capacity(1)
    await capacity.acquire(1)
    waiting = asyncio.create_task(capacity.acquire(1))
    await asyncio.sleep(0)
    waiting.cancel()
    capacity.release(1)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert capacity.free == 1


async def test_closing_answers_who_asked_for_sums_before(slow):
    engine = AsyncEngine(slow.engine)
    await engine.query("q", "a")
    slow.gate.clear()
    batch = asyncio.create_task(engine.query("r", "a"))
    await until(lambda: len(slow.sizes) == 2)
    asked = [asyncio.create_task(ask) for ask in (engine.total(), engine.largest(), engine.overview())]
    await asyncio.sleep(0)
    closing = asyncio.create_task(engine.aclose())
    await asyncio.sleep(0)
    slow.gate.set()
    total, [(name, _)], overview = await asyncio.gather(*asked)
    assert (total.events, name, overview.total) == (2, "a", total)
    await asyncio.gather(batch, closing)
    with pytest.raises(LedgerError, match="closed"):
        await engine.total()


async def test_closing_answers_all_who_called_and_refuses_those_who_come_later(slow):
    engine = AsyncEngine(slow.engine, most_in_batch=4, most_waiting=4)
    slow.gate.clear()
    tasks = [asyncio.create_task(engine.query(f"q{i}", "a")) for i in range(20)]
    await until(lambda: slow.sizes)
    closing = [asyncio.create_task(engine.aclose()) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(LedgerError, match="closed"):
        await engine.query("late", "a")
    slow.gate.set()
    await asyncio.gather(*closing)
    assert [task.result().id for task in tasks] == [f"q{i}" for i in range(20)]
    assert slow.engine.query("mine", "a").id == "mine"


async def test_sums_and_summaries_are_those_of_the_engine():
    with Engine(hot_keys=3) as alone:
        async with AsyncEngine(alone) as engine:
            await engine.handle([Query(f"q{i}", f"key {i % 9}", i / 30) for i in range(30)])
            await engine.handle([Outcome(f"q{i}", i % 2) for i in range(20)])
            lines = await engine.keys(2, 5)
            assert [name for name, _ in lines] == [f"key {i}" for i in range(2, 7)]
            assert [await engine.summary(name) for name, _ in lines] == [one for _, one in lines]
            assert await engine.summary("never met") is None
            assert await engine.total() == alone.total()
            largest = await engine.largest(9)
            assert dict(largest) == dict(await engine.keys(0, 9))
            assert (await engine.overview()).largest == largest
