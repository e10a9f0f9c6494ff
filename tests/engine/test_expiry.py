"""Forecasts that expire: what it costs when many are open, and clocks that are wrong."""

import random

import pytest

from onlinecal.cli.stream.report import silences
from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    Outcome,
    Query,
    Settled,
    Withdraw,
    read_report,
    repair_ledger,
)
from onlinecal.engine.config import MAX_JUMP
from onlinecal.engine.keys.book import Book
from onlinecal.engine.turns import KeyTurns
from tests.engine.one_key import OneKey
from tests.engine.scripts import assert_sound, kind_of

NOW = 1.76e9
"""Seconds since 1970."""

WEEK = 604_800.0


def brief(patience=WEEK, **more):
    return EngineConfig(KeyConfig(expire_after=patience, **more))


@pytest.mark.parametrize("n_open", [100, 5_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_an_expired_forecast_costs_no_look_at_all_the_others(n_open, monkeypatch):
    """Each of these events lets one of so many open forecasts expire."""
    looks, events, waits = [], 200, Book.waits
    monkeypatch.setattr(Book, "waits", lambda self, *one: looks.append(one) or waits(self, *one))
    state = OneKey(KeyConfig(expire_after=n_open - 1.5))
    for i in range(n_open + events):
        if i == n_open:
            looks.clear()
        assert not state.key.is_full_at(float(i), state.book.waits)
        state.book.ask(state.key, f"q{i}", i + 1, None, float(i))
    state.run()
    assert (state.key.expired, state.key.waiting) == (events + 1, n_open - 1)
    assert len(looks) < 5 * events


def test_a_key_is_full_until_enough_of_its_forecasts_would_have_expired(monkeypatch):
    config = brief(10.0, kind="simplex", classes=("a", "b"))
    monkeypatch.setattr("onlinecal.forecasters.simplex.run.SimplexRun.most_open", 70)
    with Engine(config=config) as engine:
        assert {
            kind_of(one) for one in engine.handle([Query(f"q{i}", "k", None, i / 10) for i in range(70)])
        } == {"Forecast"}
        asked = [Query("x", "k", None, time) for time in (7.0, 10.0, 10.05)]
        assert [kind_of(one) for one in engine.handle(asked)] == ["full", "full", "Forecast"]
        assert (engine.summary("k").open, engine.summary("k").expired) == (70, 1)
        engine.handle([Withdraw("q5")])
        assert kind_of(engine.query("y", "k", None, 10.05)) == "Forecast"
        assert kind_of(engine.query("z", "k", None, 10.05)) == "full"


@pytest.mark.parametrize("factor", [1e3, 1e9], ids=["milliseconds", "nanoseconds"])
@pytest.mark.parametrize("first", [True, False])
def test_one_time_in_another_unit_is_refused_and_moves_no_clock(folder, factor, first):
    with Engine(folder / "ledger.db", brief()) as engine:
        if not first:
            engine.handle([Query("before", "k", None, NOW), Query("timeless", "k")])
        wrong = engine.query("wrong", "k", None, NOW * factor)
        assert kind_of(wrong) == "invalid"
        assert "milliseconds" in wrong.detail
        assert "max_jump" in wrong.detail
        assert engine.total().keys == (not first)
        assert kind_of(engine.query("a", "k", None, NOW + 1)) == "Forecast"
        late = (NOW + 2) * factor
        refused = engine.handle([Outcome("a", 1, None, late), Withdraw("a", None, late)])
        assert list(map(kind_of, refused)) == ["invalid", "invalid"]
        assert engine.outcome("a", 1, NOW + WEEK) == Settled("a")
        assert kind_of(engine.query("wrong", "k", None, NOW)) == "Forecast"
        assert engine.summary("k").expired == 0
    assert_sound(folder / "ledger.db")


def test_the_bound_holds_for_expiring_keys_and_can_be_changed_as_nothing_else_can(folder):
    path = folder / "ledger.db"

    def asked(engine, *queries):
        return [kind_of(engine.query(f"q{time}", key, None, time)) for key, time in queries]

    with Engine(path, brief(10.0, max_jump=100.0)) as engine:
        # there is no clock to jump from before the first time
        found = asked(engine, ("k", NOW), ("k", NOW + 100.5), ("k", NOW + 100), ("k", NOW - 1e9))
        assert found == ["Forecast", "invalid", "Forecast", "Forecast"]
        assert asked(engine, ("j", -2 * MAX_JUMP), ("j", NOW * 1e3)) == ["invalid", "invalid"]
    with pytest.raises(ValueError, match="config must be the one that the ledger was made with"):
        Engine(path, brief(11.0, max_jump=1e300))
    Engine(path, brief(10.0, max_jump=1e300)).close()
    with Engine(path) as engine, Engine() as unbounded:
        later = ("k", NOW + 100.5), ("k", NOW * 1e9), ("j", NOW * 1e3)
        assert asked(engine, *later) == asked(unbounded, *later) == ["Forecast"] * 3
    # what was accepted is replayed and repaired as it was, whatever the bound is now
    engine = Engine(path, brief(10.0, max_jump=1.0))
    engine._ledger.write_about("tail", 0)
    engine._ledger.connection.execute("DELETE FROM states")
    engine._ledger.close()
    with Engine(path) as engine:
        assert (engine.summary("k").open, engine.summary("k").expired) == (1, 4)
    assert_sound(path)
    assert repair_ledger(path, folder / "saved.db").lost == []
    kept, _ = KeyTurns(brief(max_jump=100.0), 10)("k", None, [Query("a", "k", None, NOW)])
    _, [answer] = KeyTurns(brief(), 10)("k", kept, [Query("b", "k", None, NOW + 200)])
    assert kind_of(answer) == "Forecast"


def test_times_are_compared_as_they_are_kept():
    with Engine() as engine:
        for i, time in enumerate((2**53 + 1, 2**60 + 1, 10**30, -(2**53) - 1, 7)):
            events = [Query(f"q{i}", "k", None, time), Outcome(f"q{i}", 1, None, time)]
            events += [Query(f"q{i}", "k", None, float(time)), Outcome(f"q{i}", 1, None, float(time))]
            answers = engine.handle(events)
            assert list(map(kind_of, answers)) == ["Forecast", "Settled"] * 2
            assert answers[2:] == answers[:2]
            assert [engine.handle([event])[0] for event in events] == answers
            # a refusal says the same, whether the query was in this batch or long ago
            other = Query(f"q{i}", "k", None, 8)
            new = [Query(f"n{i}", "k", None, time), Query(f"n{i}", "k", None, 8)]
            wanted = engine.handle([other])[0].detail.replace(f"'q{i}'", f"'n{i}'")
            assert engine.handle(new)[1].detail == wanted


def clicks(expire_as, path=None, rounds=3_000, rate=0.1):
    """A key of clicks: those that happen are reported after 5 seconds, those that do not never."""
    rng, due, forecasts = random.Random(0), [], []
    config = EngineConfig(KeyConfig(expire_after=20.0, expire_as=expire_as, hints=False))
    with Engine(path, config) as engine:
        for now in range(rounds):
            while due and due[0][0] <= now:
                time, id = due.pop(0)
                assert isinstance(engine.outcome(id, 1, time), Settled)
            forecasts.append(engine.query(f"q{now}", "ad", None, float(now)).probability)
            if rng.random() < rate:
                due.append((now + 5.0, f"q{now}"))
        assert kind_of(engine.outcome("q0", 1, float(rounds))) == "expired"
        return forecasts, engine.summary("ad")


def test_silence_that_counts_as_no_leads_to_the_rate_and_else_to_certainty_which_the_report_says(folder):
    late, summary = clicks(0, folder / "no.db")
    assert sum(late[2_000:]) / 1_000 == pytest.approx(0.1, abs=0.05)
    assert summary.rounds == 3_000 - summary.open
    assert summary.certificate <= summary.guarantee
    given_up, _ = clicks(None, folder / "given up.db", 1_000)
    assert min(given_up[300:]) > 0.9
    assert silences(read_report(folder / "no.db")) == []
    [remark] = silences(read_report(folder / "given up.db"))
    assert "key 'ad' needs expire_after and expire_as" in remark


def test_how_many_forecasts_are_over_is_known_before_they_are_closed(tmp_path):
    asked = [0.0, 0.0, 1.0, 2.0, 2.5, 4.0]
    with Engine(tmp_path / "e", brief(5.0)) as engine:
        engine.handle([Query(f"q{i}", "k", None, at) for i, at in enumerate(asked)])
        key = engine._book.keys["k"]
        for time in (5.0, 5.5, 6.5, 7.25, 8.0, 9.5):
            over = sum(time > at + 5.0 for at in asked)
            found = [key._are_over(many, time, lambda entry, number: True) for many in range(1, 8)]
            assert found == [many <= over for many in range(1, 8)]
