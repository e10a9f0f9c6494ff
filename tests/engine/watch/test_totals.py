"""Sums over all keys: exact, kept up as keys come and go, and begun without holding the engine up."""

import asyncio
import random
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinecal.engine import AsyncEngine, Engine, Outcome, Query
from onlinecal.engine import engine as engines
from onlinecal.engine.watch import totals
from onlinecal.engine.watch.account import N_FIGURES
from onlinecal.engine.watch.totals import ExactSums, Totals, figures_in, figures_of
from tests.engine.scripts import CONFIG, KINDS, events_of, script


@given(
    st.lists(st.one_of(st.floats(0, 2.0**40), st.integers(0, 1 << 52).map(float)), min_size=1, max_size=20),
    st.integers(0, 20),
)
def test_sums_are_exact_and_what_was_added_can_be_taken_off_again(values, gone):
    rows = np.zeros((len(values), N_FIGURES))
    rows[:, 0] = rows[:, 3] = values
    sums = ExactSums()
    sums.add(rows)
    sums.add(rows[:gone], -1)
    units = [int(Fraction(value) * 2**60) for value in values[gone:]]
    assert sums.sum(3) == sum(units) / 2**60
    assert sums.whole(0) == sum(units) >> 60


def test_the_figures_of_many_keys_are_those_of_their_summaries_to_the_last_bit():
    with Engine(config=CONFIG) as engine:
        engine.handle(events_of(script(3, 600, keys=12, kinds=KINDS)))
        for i, value in enumerate((0, 1, 0.3, 1)):
            engine.handle([Query(f"u{i}", "without hints"), Outcome(f"u{i}", value)])
        keys = list(engine._book.keys.values())
        wanted = np.array([figures_in(key.summary()) for key in keys])
        assert len(keys) > 10
        assert (wanted.max(axis=0) > 0).all()
        assert figures_of(keys).tolist() == wanted.tolist()
        assert figures_of(keys[::-1]).tolist() == wanted[::-1].tolist()


def seen(engine):
    overview = engine.overview(100)
    names = sorted(name for name, _ in overview.largest)
    return overview.total, overview.scores, overview.oldest, overview.alarms, names, overview.alarmed


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_are_read_beside_the_engine_are_those_of_an_engine_that_stood_still(tmp_path, seed):
    rng, events = random.Random(seed), events_of(script(seed, 400, keys=12, kinds=KINDS))
    with Engine(tmp_path / "ledger", CONFIG, hot_keys=3) as engine:

        def go_on(to):
            nonlocal events
            while len(events) > to:
                size = rng.choice([1, 7, 40])
                engine.handle(events[:size])
                events = events[size:]
                if rng.random() < 0.1:
                    engine._totals()

        go_on(len(events) // 2)
        engine._book.totals = None
        reading = engine._begin_totals()
        # keys come and go, of those that are read as well, and the sums so far may be asked for
        while len(events) > 100:
            engine.handle(events[:20])
            events = events[20:]
        reading.read()
        if seed % 2:
            engine.handle(events[:20])
        engine._finish_totals(reading)
        assert engine._book.totals is reading.totals
        assert engine._begin_totals() is None
        go_on(50)
        found = seen(engine)
        engine._book.totals = None
        assert found == seen(engine)
        go_on(0)
        found = seen(engine)
    with Engine(tmp_path / "ledger") as engine:
        assert seen(engine) == found


def test_what_was_read_for_an_engine_that_started_again_is_forgotten(tmp_path):
    with Engine(tmp_path / "ledger", hot_keys=1) as engine:
        engine.handle([Query(f"q{i}", f"key {i}") for i in range(5)])
        reading = engine._begin_totals()
        engine._is_sound = False
        engine.query("q", "key")
        engine._finish_totals(reading)
        assert engine._book.totals is not reading.totals
        assert (engine.total().keys, engine.total().open) == (6, 6)


async def test_events_are_answered_while_the_keys_are_read_for_the_first_time(tmp_path, monkeypatch):
    go_on, threads = threading.Event(), []
    read = engines.ColdReading.read

    def slowly(self):
        threads.append(threading.current_thread().name)
        assert go_on.wait(20)
        return read(self)

    path = tmp_path / "ledger"
    with Engine(path) as engine:
        engine.handle([Query(f"q{i}", f"key {i}") for i in range(50)])
    monkeypatch.setattr(engines.ColdReading, "read", slowly)
    async with AsyncEngine(path) as engine, asyncio.timeout(20):
        asked = [asyncio.create_task(one) for one in (engine.overview(), engine.total(), engine.largest())]
        while not threads:
            await asyncio.sleep(0.01)
        for i in range(60):
            await engine.query(f"r{i}", f"key {i}")
            await engine.outcome(f"r{i}", 1)
        assert not any(one.done() for one in asked)
        go_on.set()
        overview, total, largest = await asyncio.gather(*asked)
        assert overview.total == total
        assert (total.events, total.keys, total.rounds, total.open) == (170, 60, 60, 50)
        assert overview.oldest == 1
        assert len(largest) == 10
    # it was read once, and not in the engine's thread
    assert len({one for one in threads if one.startswith("onlinecal")}) < len(set(threads))


async def test_a_reader_that_fails_is_an_error_for_who_asked_and_the_next_one_reads_again(
    tmp_path, monkeypatch
):
    with Engine(tmp_path / "ledger") as engine:
        engine.query("q", "key")
    async with AsyncEngine(tmp_path / "ledger") as engine:
        with monkeypatch.context() as patch:
            patch.setattr(engines.ColdReading, "_lines", lambda self: iter([("key", None)]))
            with pytest.raises(AttributeError):
                await engine.total()
        assert (await engine.total()).open == 1


def test_a_key_of_which_every_event_was_refused_is_in_no_list(monkeypatch):
    monkeypatch.setattr(totals, "REMEMBERED", 2)
    with Engine() as engine:
        engine.handle([Query("q", "key", 0.5)])
        for i in range(20):
            engine.handle([Query(f"r{i}", f"refused {i}", 1.5), Query("q", f"other {i}", 0.5)])
        assert [name for name, _ in engine.largest(100)] == ["key"]
        assert engine.total().keys == 1


def test_the_number_of_remembered_keys_is_bounded_and_the_largest_are_among_them(monkeypatch):
    monkeypatch.setattr(totals, "REMEMBERED", 5)
    with Engine(hot_keys=1) as engine:
        engine.total()
        for i in range(100):
            engine.query(f"q{i}", f"key {i}", i / 100)
            engine.outcome(f"q{i}", 1)
        found = engine.largest(3)
        assert len(engine._book.totals._cold) <= 2 * 5 + 5
        assert isinstance(engine._book.totals, Totals)
        per_round = [one.certificate / one.rounds for _, one in engine.keys(0, 100)]
        assert [one.certificate for _, one in found] == sorted(per_round)[:-4:-1]
