"""Outcomes that come before their queries wait, and count as if each had come right behind its query."""

import json
import logging
import random
import sqlite3
from contextlib import closing

import msgspec
import pytest
from msgspec.structs import replace

from onlinecal.engine import (
    AsyncEngine,
    Engine,
    EngineConfig,
    Forecast,
    KeyConfig,
    LedgerError,
    Match,
    Outcome,
    Parked,
    ParkingCounts,
    Query,
    Settled,
    Withdraw,
    archive_ledger,
    check_ledger,
    decode_lines,
    export_ledger,
    parking,
    read_config,
    read_report,
    repair_ledger,
)
from onlinecal.engine.ledger.check import examine
from onlinecal.engine.turns import KeyTurns
from tests.engine.fault_tools import changed, raises_for
from tests.engine.scripts import (
    CONFIG,
    assert_sound,
    batches,
    events_of,
    kind_of,
    lines_of,
    report_of,
    script_with_parked,
    states_of,
    tables_of,
)

THREE = EngineConfig(park=3)


def waiting(engine):
    """The ids of the outcomes that wait, the oldest first; the ledger has the same."""
    there = engine._ledger.rows("SELECT id FROM parked ORDER BY number")
    assert [row[0] for row in there] == list(engine._book.parking.waiting)
    assert engine.overview().parking.waiting == len(there)
    return [row[0] for row in there]


def others(count, name="other"):
    """So many accepted events."""
    return [Query(f"{name} {i}", "k") for i in range(count)]


def test_an_outcome_that_has_waited_too_long_for_its_query_is_parked_anew(tmp_path):
    early, query = Outcome("early", 1), Query("early", "k")
    with Engine(tmp_path / "together", THREE) as together, Engine(tmp_path / "alone", THREE) as alone:
        events = [early, *others(4), early]
        assert together.handle(events) == [answer for event in events for answer in alone.handle([event])]
        assert waiting(together) == waiting(alone) == ["early"]
        assert together.overview().parking.dropped["waited"] == 1
        assert together.handle([query]) == alone.handle([query])
        assert waiting(together) == waiting(alone) == []


def fed(path, lines, seed, config, restarts=0.0):
    """The answers to lines in batches of random sizes; the engine is closed or cut off now and then."""
    rng, answers = random.Random(seed), []
    few = {"hot_keys": rng.choice([1, 3, 100]), "states_behind": rng.choice([0, 20, 1000])}
    engine = Engine(path, config, **few)
    for data in batches(rng, lines, rng.choice([3, 40, 200])):
        answers += engine.handle(decode_lines(data))
        if rng.random() < restarts:
            (engine if rng.random() < 0.5 else engine._ledger).close()
            engine = Engine(path, **few)
    engine.close()
    return answers


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 309), marks=pytest.mark.slow)])
def test_parked_outcomes_count_as_right_behind_their_queries(folder, seeds):
    n_parked = 0
    for seed in seeds:
        (early, early_places), (behind, behind_places) = script_with_parked(seed, 120, keys=18)
        one, other = folder / f"{seed}.db", folder / f"{seed}-behind.db"
        answers = fed(one, lines_of(early), seed, CONFIG, restarts=0.1)
        wanted = fed(other, lines_of(behind), seed + 1, CONFIG)
        assert {kind_of(answers[place]) for place in early_places} == {"Parked"}
        n_parked += len(early_places)
        rest = [answer for place, answer in enumerate(answers) if place not in early_places]
        assert rest == [answer for place, answer in enumerate(wanted) if place not in behind_places]
        early_tables, tables = tables_of(one), tables_of(other)
        assert len(early_tables.pop("parked")) == 5
        assert tables.pop("parked") == []
        assert early_tables == tables
        assert replace(report_of(one), parking=ParkingCounts()) == report_of(other)
        with Engine(one) as early_engine, Engine(other) as engine:
            assert states_of(early_engine) == states_of(engine)
        counts = read_report(one).parking
        assert counts.parked == len(early_places)
        assert counts.settled + counts.dropped["expired"] == len(early_places) - 5
        assert_sound(one)
    assert n_parked > 10 * len(seeds)


@pytest.mark.parametrize("seed", range(4))
def test_a_turn_of_a_key_parks_as_the_engine_does_however_it_is_cut(seed):
    (events, _), _ = script_with_parked(seed, 150, keys=8)
    events = events_of(events)
    turns, rng = KeyTurns(CONFIG, 1000), random.Random(seed)
    for name in sorted({event.key for event in events}):
        own = [event for event in events if event.key == name]
        with Engine(config=CONFIG) as engine:
            wanted = engine.handle(own)
        together, answers = turns(name, None, own)
        assert answers == wanted
        data, told = None, []
        while own:
            size = rng.choice([1, 2, 10])
            data, more = turns(name, data, own[:size])
            told, own = told + more, own[size:]
        assert (told, data) == (wanted, together)


def test_a_turn_keeps_what_is_parked_before_the_first_query_and_drops_what_waits_too_long():
    turns = KeyTurns(THREE, 100)
    data, answers = turns("k", None, [Outcome("a", 1), Outcome("b", 0), Outcome("c", 0)])
    assert answers == [Parked("a"), Parked("b"), Parked("c")]
    assert kind_of(turns("k", data, [Outcome("d", 0)])[1][0]) == "full"
    data, _ = turns("k", data, others(3))
    assert turns("k", data, [Query("a", "k"), Outcome("a", 1), Outcome("b", 0)])[1][1:] == [
        Settled("a"),
        Parked("b"),
    ]
    data, _ = turns("k", data, others(1, "more"))
    assert kind_of(turns("k", data, [Query("a", "k"), Outcome("a", 0)])[1][1]) == "Settled"
    assert turns("k", None, [Query("x", "y")])[0] is None


@pytest.mark.parametrize("together", [True, False])
def test_an_outcome_waits_for_so_many_accepted_events_and_no_longer(folder, together):
    # what is parked, refused or asked again is no accepted event
    noise = [Outcome("a", 1), Outcome("a", 0), Query("bad", "k", 7.0), Outcome("bad", 7)]
    for count, came in ((0, "Settled"), (3, "Settled"), (4, "Parked")):
        with Engine(config=THREE) as engine:
            events = [Outcome("a", 1), *noise, *others(count), *others(count), *noise[2:], Query("a", "k")]
            for part in [events] if together else [[event] for event in events]:
                engine.handle(part)
            forgotten = came == "Parked"
            assert (engine.total().rounds, engine.total().open) == (not forgotten, count + forgotten)
            assert engine.overview().parking.dropped["waited"] == forgotten
            assert waiting(engine) == []
    with Engine(config=THREE) as engine:
        engine.handle([Outcome("a", 1), *others(4), Outcome("a", 0), Query("a", "k")])
        # another outcome was parked for it meanwhile
        assert engine.handle([Outcome("a", 0)]) == [Settled("a")]


def test_as_many_outcomes_wait_as_may_wait_for_events(folder):
    with Engine(config=THREE) as engine:
        answers = engine.handle([Outcome(id, 1) for id in "abcd"])
        assert answers[:3] == [Parked(id) for id in "abc"]
        assert (answers[3].reason, answers[3].detail) == (
            "full",
            "outcome of 'd' came before its query, and cannot be parked: 3 outcomes are parked, as many as "
            "park allows: send it again after its query",
        )
        engine.handle([Query("b", "k"), Outcome("d", 0)])
        assert waiting(engine) == ["a", "c", "d"]
        engine.handle(others(2))
        assert waiting(engine) == ["d"]
        assert engine.overview().parking == ParkingCounts(1, 1, {"waited": 2, "invalid": 0, "expired": 0})


def test_long_soft_labels_are_parked_as_long_as_there_is_room(monkeypatch):
    monkeypatch.setattr(parking, "MOST_PARKED_LENGTH", 100)
    config = EngineConfig(KeyConfig(kind="simplex"), park=1000)
    soft = {f"label {number}": 0.25 for number in range(4)}
    with Engine(config=config) as engine:
        answers = engine.handle([Outcome("a", soft), Outcome("b", soft), Outcome("c", "sun")])
        assert [kind_of(answer) for answer in answers] == ["Parked", "full", "Parked"]
        assert "have 61 characters, and may have 100" in answers[1].detail
        # the room is free again
        answers = engine.handle([Query("a", "k"), Outcome("b", soft)])
        assert kind_of(answers[1]) == "Parked"


def test_what_is_parked_for_each_kind_of_key_counts_as_it_does_behind_its_query(monkeypatch):
    # a message with the same words is logged a few times a minute
    monkeypatch.setattr(logging.getLogger("onlinecal.engine"), "disabled", True)
    config = EngineConfig(
        matches=(
            Match("sky", KeyConfig(kind="simplex")),
            Match("words", KeyConfig(kind="lp")),
            Match("few", KeyConfig(kind="simplex", classes=("sun", "rain"))),
        ),
        park=10,
    )
    values = [1, False, 0.5, 1.0, "sun", "1", "é", {"sun": 1.0, "rain": 0.0}, {"rain": 0.25, "sun": 0.75}]
    for key in ("k", "sky", "words", "few"):
        for value in values:
            with Engine(config=config) as early, Engine(config=config) as behind:
                assert early.handle([Outcome("a", value)]) == [Parked("a")]
                [told] = early.handle([Query("a", key)])
                forecast, answer = behind.handle([Query("a", key), Outcome("a", value)])
                assert told == forecast
                assert early.total() == behind.total()
                assert early.handle([Outcome("a", value)]) == behind.handle([Outcome("a", value)])
                dropped = early.overview().parking.dropped["invalid"]
                assert dropped == (kind_of(answer) == "invalid")


def test_parking_is_a_setting_that_may_be_changed_at_any_time(folder):
    path, file = folder / "ledger.db", folder / "engine.toml"
    with Engine(path) as engine:
        assert kind_of(engine.handle([Outcome("a", 1)])[0]) == "unknown"
    with Engine(path, EngineConfig(park=5)) as engine:
        engine.handle([Outcome(id, 1) for id in "abcde"])
    with Engine(path) as engine:
        assert (engine.config.park, waiting(engine)) == (5, list("abcde"))
    with Engine(path, EngineConfig(park=1)) as engine:
        # those that wait have their place; others have none
        assert kind_of(engine.handle([Outcome("f", 1)])[0]) == "full"
        engine.handle([Query("a", "k")])
        assert engine.total().rounds == 1
        assert waiting(engine) == []
    with Engine(path, EngineConfig(park=5)) as engine:
        engine.handle([Outcome("g", 1)])
    with Engine(path, EngineConfig()) as engine:
        assert engine.handle([Outcome("g", 1)]) == [Parked("g")]
        assert kind_of(engine.handle([Outcome("h", 1)])[0]) == "unknown"
        engine.handle(others(1))
        assert kind_of(engine.handle([Outcome("g", 1)])[0]) == "unknown"
    assert_sound(path)
    file.write_text('park = 7\nlanes = 2\n[[keys]]\nmatch = "b"\nlanes = 3\n')
    assert read_config(file) == EngineConfig(KeyConfig(lanes=2), (Match("b", KeyConfig(lanes=3)),), 7)
    for text, words in (
        ("park = -1", "park must be"),
        ('[[keys]]\nmatch = "b"\npark = 3', "unknown setting"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_config(file)
    for park in (-1, True, 2.5, "many", 1 << 60):
        with pytest.raises(ValueError, match="park must be"):
            EngineConfig(park=park)


def test_dropped_outcomes_are_counted_and_logged_with_the_reason(folder, caplog, monkeypatch):
    # the other tests of this minute have logged the same words, whose rate is limited
    monkeypatch.setattr(logging.getLogger("onlinecal.engine"), "filters", [])
    config = replace(THREE, matches=(Match("brief", KeyConfig(expire_after=10.0)),))
    with caplog.at_level(logging.INFO, "onlinecal.engine"), Engine(folder / "ledger.db", config) as engine:
        engine.handle([Outcome("a", 1), Outcome("b", 1, "other"), Outcome("c", 1, time=30.0)])
        engine.handle([Query("b", "k"), Query("c", "brief", None, 5.0), *others(2)])
    assert [record.about["reason"] for record in caplog.records] == ["invalid", "expired", "waited"]
    assert [record.about["id"] for record in caplog.records] == ["b", "c", "a"]
    assert caplog.records[2].levelname == "WARNING"
    with Engine(folder / "ledger.db") as engine:
        dropped = {"waited": 1, "invalid": 1, "expired": 1}
        assert engine.overview().parking == ParkingCounts(0, 0, dropped)
        metrics = pytest.importorskip("onlinecal.engine.http.metrics", reason="needs the extra serve")
        text = metrics.as_text(engine.overview())
    assert b"\nonlinecal_parked_total 3.0\n" in text
    assert b"\nonlinecal_parked_outcomes 0.0\n" in text
    assert b'\nonlinecal_parked_dropped_total{reason="expired"} 1.0\n' in text
    facts = examine(folder / "ledger.db")[0]
    assert (facts["parked_outcomes"], facts["dropped_outcomes"]) == (0, 3)


def parked_ledger(path):
    """A ledger in which outcomes wait, and one forecast was settled by one."""
    with Engine(path, EngineConfig(park=500), states_behind=10) as engine:
        engine.handle([Outcome(f"a{i}", i % 2, time=float(i)) for i in range(20)])
        engine.handle([Query(f"a{i}", f"k{i % 3}") for i in range(8)])
        engine.handle([*others(30), *(Outcome(f"other {i}", 1) for i in range(20))])
    return path


def test_a_failed_batch_parks_nothing_and_releases_nothing(folder):
    with Engine(parked_ledger(folder / "ledger.db")) as engine:
        before, counts = waiting(engine), engine.overview().parking
        commit = engine._ledger.commit
        engine._ledger.commit = lambda *changes, **more_changes: (_ for _ in ()).throw(LedgerError("no room"))
        with pytest.raises(LedgerError):
            engine.handle([Query("a9", "k"), Outcome("new", 1)])
        engine._ledger.commit = commit
        assert kind_of(engine.handle([Query("more", "k")])[0]) == "Forecast"
        assert (waiting(engine), engine.overview().parking) == (before, counts)
        assert engine.handle([Query("a9", "k"), Outcome("a9", 1)])[1].reason == "settled"


def test_an_archive_takes_nothing_that_is_parked(folder):
    path = parked_ledger(folder / "ledger.db")
    archive_ledger(path, folder / "old.archive", keep=10)
    assert check_ledger(path, archives=[folder / "old.archive"]).problems == []
    assert read_report(folder / "old.archive").parking == ParkingCounts()
    with Engine(path) as engine:
        assert len(waiting(engine)) == 12
        # what is archived is not parked
        assert kind_of(engine.handle([Outcome("a1", 1, time=1.0)])[0]) == "archived"
        engine.handle([Query("a9", "k")])
        assert engine.handle([Outcome("a9", 1, time=9.0)]) == [Settled("a9")]
    repair_ledger(path, folder / "saved.db")
    assert len(tables_of(folder / "saved.db")["parked"]) == 11
    assert check_ledger(folder / "saved.db", archives=[folder / "old.archive"]).problems == []


@pytest.mark.parametrize(
    ("statement", "words"),
    ids=["value", "row", "counts", "key"],
    argvalues=[
        (
            "UPDATE parked SET value = '0' WHERE id = 'a9'",
            "table parked: the row that begins with 10 is not as it was",
        ),
        ("DELETE FROM parked WHERE id = 'a9'", "12 outcomes were parked, but 11 of them are there"),
        (
            "UPDATE about SET value = '{}' WHERE name = 'parked'",
            "about: the row that begins with 'parked' is not",
        ),
        ("UPDATE parked SET key = 'k'", "table parked: the row that begins with 9 is not as it was written"),
    ],
)
def test_damage_to_what_is_parked_is_said(folder, statement, words):
    path = parked_ledger(folder / "ledger.db")
    changed(path, statement)
    assert words in " ".join(check_ledger(path).problems)
    with raises_for(path, words):
        Engine(path)


def test_the_check_knows_what_cannot_be_parked(folder):
    path = parked_ledger(folder / "ledger.db")
    changed(path, "UPDATE parked SET id = 'other 3', since = 999 WHERE id = 'a9'", with_sums=True)
    assert check_ledger(path).problems == [
        "an outcome of 'other 3' is parked, although its query has come",
        "an outcome of 'other 3' was parked after event 999, but the log ends with 66",
    ]


def test_a_repair_saves_what_is_parked(folder):
    path, saved = parked_ledger(folder / "ledger.db"), folder / "saved.db"
    repaired = repair_ledger(path, saved)
    assert (repaired.parked, repaired.lost, repaired.doubtful) == (12, [], [])
    assert tables_of(saved) == tables_of(path)
    assert report_of(saved) == report_of(path)
    assert_sound(saved)
    changed(path, "UPDATE parked SET value = 'x' WHERE id = 'a9'", "DELETE FROM parked WHERE id = 'a10'")
    changed(path, "UPDATE about SET value = 5 WHERE name = 'parked'", "DELETE FROM queries WHERE number = 2")
    repaired = repair_ledger(path, folder / "again.db")
    assert repaired.parked == 10
    assert any("parked outcome of 'a9'" in sentence for sentence in repaired.lost)
    assert repaired.doubtful == ["table parked: the row that begins with 10 is not as it was written"]
    assert_sound(folder / "again.db")
    with Engine(folder / "again.db") as engine:
        # the closing of a query that is lost is not parked
        assert len(waiting(engine)) == 10
        engine.handle([Query("a11", "k"), Outcome("new", 1)])
        assert engine.handle([Outcome("a11", 1, time=11.0), Outcome("a12", 0, time=12.0)]) == [
            Settled("a11"),
            Parked("a12"),
        ]


def test_a_repair_says_how_many_parked_outcomes_are_lost(folder):
    path = parked_ledger(folder / "ledger.db")
    changed(path, "DELETE FROM parked WHERE number < 12")
    repaired = repair_ledger(path, folder / "saved.db")
    assert repaired.lost == ["12 outcomes were parked, 9 can be read"]
    with Engine(folder / "saved.db", EngineConfig(park=500)) as engine:
        # their numbers do not meet those that come
        engine.handle([Outcome(f"new {i}", 1) for i in range(20)])
        assert len(waiting(engine)) == 29
    assert_sound(folder / "saved.db")


def test_an_export_has_the_forecasts_that_were_settled_and_no_outcome_that_waits(folder):
    pl = pytest.importorskip("polars")
    path = parked_ledger(folder / "ledger.db")
    assert export_ledger(path, folder / "table.parquet") == 38
    rows = pl.read_parquet(folder / "table.parquet")
    settled = rows.filter(pl.col("id").str.starts_with("a"))
    assert settled["status"].to_list() == ["settled"] * 8
    assert settled["settled_number"].to_list() == [number + 1 for number in settled["asked_number"]]


def test_the_rows_of_parked_outcomes_have_their_sums_and_leave_no_trace(folder):
    path = parked_ledger(folder / "ledger.db")
    with Engine(path) as engine:
        engine.handle([Query(f"a{i}", "k") for i in range(8, 20)])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM parked").fetchone() == (0,)
        told = json.loads(connection.execute("SELECT value FROM about WHERE name = 'parked'").fetchone()[0])
    assert told == {"waiting": 0, "settled": 20, "dropped": {"waited": 0, "invalid": 0, "expired": 0}}


async def test_callers_at_once_share_what_is_parked():
    async with AsyncEngine(config=EngineConfig(park=50)) as engine:
        assert await engine.outcome("a", 1) == Parked("a")
        assert kind_of(await engine.withdraw("a")) == "parked"
        assert isinstance(await engine.query("a", "k"), Forecast)
        assert await engine.outcome("a", 1) == Settled("a")


@pytest.mark.parametrize(
    ("second", "was", "got"),
    [
        (Outcome("a", 0, "k", 5.0), "value 1 at time 5.0", "value 0 at time 5.0"),
        (Outcome("a", 1, "k"), "value 1 at time 5.0", "value 1 without a time"),
        (
            Outcome("a", 1, "other", 5.0),
            "value 1 at time 5.0 and key 'k'",
            "value 1 at time 5.0 and key 'other'",
        ),
        (Withdraw("a", "k", 6.0), "value 1 at time 5.0", "a withdrawal at time 6.0"),
    ],
    ids=["value", "time", "key", "withdrawal"],
)
def test_another_outcome_of_an_id_is_told_what_waits_and_what_came(second, was, got):
    with Engine(config=THREE) as engine:
        _, refused = engine.handle([Outcome("a", 1, "k", 5.0), second])
    waits = "an outcome of 'a' waits for its query already"
    assert refused.detail == f"{waits}, with {was}, and cannot be changed: got {got}"


def test_answers_are_json_like_the_others():
    with Engine(config=THREE) as engine:
        told = engine.handle_lines(b'{"type":"outcome","id":7,"value":1}\n{"type":"withdraw","id":"7"}\n')
    first, second = map(msgspec.json.decode, told.splitlines())
    assert first == {"type": "parked", "id": "7"}
    detail = (
        "an outcome of '7' waits for its query already, with value 1, and cannot be changed: got a withdrawal"
    )
    assert second == {"type": "rejected", "id": "7", "reason": "parked", "detail": detail}
