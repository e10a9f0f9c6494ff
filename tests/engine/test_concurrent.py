"""The engine for asyncio: one transaction for all who wait, each caller's order, failures, a full queue."""

import asyncio
import threading

import pytest

from onlinecal.engine import AsyncEngine, Engine, LedgerError, Outcome, Query, Rejected, Settled, read_report

CHECKED_COLUMNS = ("rounds", "open", "expired", "certificate", "guarantee")


def assert_summed(total, lines):
    """The sums are those of the summaries."""
    for name in CHECKED_COLUMNS:
        expected = sum(getattr(summary, name) for _, summary in lines)
        assert getattr(total, name) == pytest.approx(expected, rel=1e-12)
    assert total.keys == len(lines)


class Slow:
    """An engine whose batches are counted and can be held up, or fail."""

    def __init__(self, engine):
        self.engine, self.handle_really = engine, engine.handle
        self.sizes, self.threads, self.fail = [], set(), None
        self.gate = threading.Event()
        self.gate.set()
        engine.handle = self.handle

    def handle(self, events):
        events = list(events)
        self.sizes.append(len(events))
        self.threads.add(threading.current_thread())
        assert self.gate.wait(10)
        if self.fail:
            raise self.fail
        return self.handle_really(events)


@pytest.fixture
def slow():
    with Engine() as engine:
        yield Slow(engine)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def test_all_who_wait_while_a_batch_is_committed_are_the_next_batch(slow):
    async def main():
        async with AsyncEngine(slow.engine) as engine:
            slow.gate.clear()
            first = asyncio.create_task(engine.query("first", "a"))
            await until(lambda: slow.sizes)
            others = [asyncio.create_task(engine.query(f"q{i}", f"key {i % 3}")) for i in range(50)]
            await asyncio.sleep(0)
            slow.gate.set()
            answers = await asyncio.gather(first, *others)
            assert [answer.id for answer in answers] == ["first", *(f"q{i}" for i in range(50))]

    asyncio.run(main())
    assert slow.sizes == [1, 50]
    assert len(slow.threads) == 1
    assert threading.main_thread() not in slow.threads


def test_a_batch_holds_no_more_events_than_it_may(slow):
    async def main():
        async with AsyncEngine(slow.engine, most_in_batch=8) as engine:
            answers = await engine.handle([Query(f"q{i}", "a") for i in range(30)])
            assert [answer.id for answer in answers] == [f"q{i}" for i in range(30)]
            await asyncio.gather(*(engine.outcome(f"q{i}", i % 2) for i in range(30)))

    asyncio.run(main())
    assert max(slow.sizes) == 8
    assert sum(slow.sizes) == 60


def test_a_full_queue_makes_callers_wait_in_the_order_in_which_they_came(slow):
    async def main():
        async with AsyncEngine(slow.engine, most_in_batch=2, most_waiting=4) as engine:
            slow.gate.clear()
            tasks = [asyncio.create_task(engine.query(f"q{i}", "a")) for i in range(12)]
            await until(lambda: slow.sizes)
            assert engine._capacity.free == 0
            assert len(engine._waiting) == 2
            slow.gate.set()
            assert all(answer.id == f"q{i}" for i, answer in enumerate(await asyncio.gather(*tasks)))
            assert engine._capacity.free == 4

    asyncio.run(main())
    assert slow.sizes == [2] * 6
    numbers = [slow.engine._ledger.recall([f"q{i}"])[f"q{i}"].number for i in range(12)]
    assert numbers == sorted(numbers)


def test_many_callers_get_what_one_caller_would(tmp_path):
    """Each key's forecasts depend on that key's own events alone, in the order of its caller."""

    def script(key):
        for i in range(40):
            yield Query(f"{key}/{i}", key, hint=(i % 7) / 7)
            if i >= 3:
                yield Outcome(f"{key}/{i - 3}", int(i % 3 == 0))

    async def caller(engine, key):
        return [(await engine.handle([event]))[0] for event in script(key)]

    async def main():
        async with AsyncEngine(tmp_path / "ledger.db") as engine:
            return await asyncio.gather(*(caller(engine, f"key {i}") for i in range(8)))

    together = asyncio.run(main())
    with Engine() as alone:
        assert together == [alone.handle(script(f"key {i}")) for i in range(8)]


def test_a_failed_commit_reaches_every_caller_of_the_batch_and_no_other(slow):
    async def main():
        async with AsyncEngine(slow.engine) as engine:
            slow.fail = LedgerError("the disk is full")
            results = await asyncio.gather(
                *(engine.query(f"q{i}", "a") for i in range(5)), return_exceptions=True
            )
            assert [str(result) for result in results] == ["the disk is full"] * 5
            assert all(type(result) is LedgerError for result in results)
            assert len({id(result) for result in results}) == 5
            slow.fail = None
            assert (await engine.query("q0", "a")).id == "q0"

    asyncio.run(main())
    assert slow.sizes == [5, 1]


def test_an_event_that_breaks_the_engine_hurts_its_own_caller_only(slow):
    class Odd(Exception):
        pass

    really = slow.handle_really

    def handle(events):
        if any(event.id == "odd" for event in events):
            raise Odd
        return really(events)

    slow.handle_really = handle

    async def main():
        async with AsyncEngine(slow.engine) as engine:
            ids = ["q1", "odd", "q2"]
            results = await asyncio.gather(*(engine.query(id, "a") for id in ids), return_exceptions=True)
            assert [type(result).__name__ for result in results] == ["Forecast", "Odd", "Forecast"]

    asyncio.run(main())


def test_what_is_no_event_is_refused_before_it_meets_others():
    async def main():
        async with AsyncEngine() as engine:
            with pytest.raises(ValueError, match=r"events must be .* got \{'id': 'q'\}"):
                await engine.handle([{"id": "q"}])
            assert await engine.handle([]) == []
            assert (await engine.handle([Rejected(None, "malformed", "no event")]))[0].reason == "malformed"

    asyncio.run(main())


def test_a_cancelled_caller_leaves_the_batch_as_it_is(slow):
    async def main():
        async with AsyncEngine(slow.engine) as engine:
            slow.gate.clear()
            tasks = [asyncio.create_task(engine.query(f"q{i}", "a")) for i in range(3)]
            await until(lambda: slow.sizes)
            late = [asyncio.create_task(engine.query(f"late{i}", "a")) for i in range(3)]
            await asyncio.sleep(0)
            tasks[1].cancel()
            late[1].cancel()
            slow.gate.set()
            results = await asyncio.gather(*tasks, *late, return_exceptions=True)
            kinds = [type(result).__name__ for result in results]
            assert kinds == ["Forecast", "CancelledError", "Forecast"] * 2
            assert (await engine.outcome("late1", 1)).reason == "unknown"
            assert await engine.outcome("q1", 1) == Settled("q1")

    asyncio.run(main())


def test_a_caller_cancelled_before_there_was_room_takes_none(slow):
    async def main():
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

    asyncio.run(main())
    assert slow.sizes == [2, 1]


def test_closing_answers_all_who_called_and_refuses_those_who_come_later(slow):
    async def main():
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

    asyncio.run(main())
    assert slow.engine.query("mine", "a").id == "mine"


def test_a_ledger_that_was_opened_here_is_closed_and_complete(tmp_path):
    path = tmp_path / "ledger.db"

    async def main():
        async with AsyncEngine(path) as engine:
            await asyncio.gather(*(engine.query(f"q{i}", "a") for i in range(10)))
            assert (await engine.withdraw("q9")).id == "q9"
            assert (await engine.outcome("q0", 1)).id == "q0"

    asyncio.run(main())
    assert read_report(path).events == 12
    with Engine(path) as engine:
        assert engine._ledger.about("tail") == 12


@pytest.mark.parametrize("hot_keys", [3, 1_000])
def test_the_sums_are_those_of_all_keys_hot_or_cold(tmp_path, hot_keys):
    path = tmp_path / "ledger.db"

    def largest_of(lines):
        return sorted((s.certificate / s.rounds if s.rounds else -1 for _, s in lines), reverse=True)

    async def main():
        with Engine(path, hot_keys=hot_keys) as made_before:
            for i in range(40):
                made_before.handle([Query(f"old {i}", f"key {i % 20}", (i % 9) / 9)])
        with Engine(path, hot_keys=hot_keys) as held:
            async with AsyncEngine(held) as engine:
                for turn in range(30):
                    await engine.handle(
                        [Query(f"{turn} {i}", f"key {(turn + i) % 31}", 0.3) for i in range(7)]
                    )
                    await engine.handle([Outcome(f"{turn} {i}", i % 2) for i in range(0, 7, 2)])
                    total, lines = await engine.total(), await engine.keys(0, 100)
                    assert_summed(total, lines)
                    assert largest_of(await engine.largest(5)) == largest_of(lines)[:5]
                assert await engine.keys(10, 5) == lines[10:15]
                assert [await engine.summary(name) for name, _ in lines] == [one for _, one in lines]
                assert await engine.summary("never met") is None
                return total, lines

    total, lines = asyncio.run(main())
    report = read_report(path)
    assert [(line.name, line.summary) for line in report.keys] == lines
    assert total.events == report.events


def test_the_sums_survive_a_batch_that_failed(slow):
    async def main():
        async with AsyncEngine(slow.engine) as engine:
            await engine.query("q", "a")
            await engine.outcome("q", 1)
            before = await engine.total()
            commit, slow.engine._ledger.commit = slow.engine._ledger.commit, None
            with pytest.raises(TypeError):
                await engine.query("lost", "b")
            slow.engine._ledger.commit = commit
            assert await engine.total() == before

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrong", [{"most_in_batch": 0}, {"most_waiting": 0}, {"most_in_batch": 10, "most_waiting": 5}]
)
def test_wrong_limits_are_refused(wrong):
    with pytest.raises(ValueError, match="most_"):
        AsyncEngine(None, **wrong)


def test_the_sums_stay_right_when_small_cold_keys_are_no_longer_remembered(monkeypatch):
    monkeypatch.setattr("onlinecal.engine.keys.totals.REMEMBERED", 3)
    with Engine(hot_keys=2) as engine:
        engine.total()
        for turn in range(4):
            for i in range(25):
                engine.handle([Query(f"{turn} {i}", f"key {i}", i / 25), Outcome(f"{turn} {i}", i % 2)])
            lines = engine.keys(0, 100)
            assert_summed(engine.total(), lines)
            assert (len(lines), engine.total().open) == (25, 0)
            found = engine.largest(100)
            assert len(found) < 2 + 2 * 3
            assert all(dict(lines)[name] == summary for name, summary in found)
