"""What the operator sees of keys: sums against the log, alarms that replay, bounds that hold."""

import json
import logging
from contextlib import closing

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from onlinecal import calibration_distance
from onlinecal.engine import Engine, EngineConfig, KeyConfig, Outcome, Query, read_report
from onlinecal.engine.ledger.check import check_ledger
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.schema import loaded, loaded_outcome
from onlinecal.engine.turns import KeyTurns
from onlinecal.engine.watch import overview as logs
from onlinecal.engine.watch.account import ALARMS, MONEY, PER_ALARM
from onlinecal.engine.watch.key_watch import watched_by
from onlinecal.engine.watch.reliability import Reliability
from onlinecal.measures.scores import LEAST_PROBABILITY
from tests.engine.one_key import OneKey
from tests.engine.scripts import CONFIG, events_of, script

KINDS = ("plain", "lanes", "grid", "weather", "skies")


def batches(events, sizes):
    rng, start = np.random.default_rng(len(sizes)), 0
    while start < len(events):
        size = int(rng.choice(sizes))
        yield events[start : start + size]
        start += size


def watched_in(path, events, sizes, **settings):
    with Engine(path, CONFIG, **settings) as engine:
        for batch in batches(events, sizes):
            engine.handle(batch)
        return {line[0]: line[1].watched for line in engine.keys(0, 100)}, engine.overview()


SETTLED = (
    "SELECT k.name, q.hint, q.probability, c.value FROM closings AS c JOIN queries AS q ON q.number = c.query"
    " JOIN keys AS k ON k.number = q.key WHERE c.value IS NOT NULL"
)


def as_vector(one, labels):
    """A forecast or an outcome as probabilities of the classes."""
    if not isinstance(one, str | dict):
        return [one, 1 - one]
    return [float(one == label) if isinstance(one, str) else one.get(label, 0.0) for label in labels]


def scores_in_the_log(path):
    """What the scores of each key are by its settled rounds."""
    by_key, found = {}, {}
    with closing(Ledger(path, read_only=True)) as ledger:
        for key, *row in ledger.rows(SETTLED):
            told = loaded(row[0]), loaded(row[1]), loaded_outcome(row[2])
            by_key.setdefault(key, []).append(told)
    for key, rows in by_key.items():
        rows = [row for row in rows if row[0] is not None] or rows
        named = {name for row in rows for one in row if isinstance(one, str | dict)
                 for name in ([one] if isinstance(one, str) else one)}  # fmt: skip
        hints, p, y = (
            np.array([as_vector(one, sorted(named)) for one in some if one is not None])
            for some in zip(*rows, strict=True)
        )
        told = {"": p, "_constant": np.broadcast_to(y.mean(axis=0), y.shape)}
        if len(hints):
            told["_hint"] = hints
        found[key] = {"rounds": len(rows)}
        for name, p in told.items():
            found[key][f"brier{name}"] = np.square(p - y).sum(axis=1).mean() / (1 if named else 2)
            found[key][f"log_loss{name}"] = -(y * np.log(np.maximum(p, LEAST_PROBABILITY))).sum(axis=1).mean()
    return found


def test_alarms_of_a_key_are_written_if_there_are_some():
    sums = [0.0] * MONEY
    assert msgspec.to_builtins(watched_by(sums)) == {"bias": 0.0}
    sums[ALARMS + PER_ALARM : ALARMS + 2 * PER_ALARM] = 1.0, 7.0, 0.0
    told = msgspec.to_builtins(watched_by(sums))
    assert (told.get("alarms"), told["hint_alarms"], told["last_hint"]["event"]) == (None, 1, 7)


def test_sums_are_those_of_the_log_however_events_are_cut_into_batches(tmp_path):
    events = events_of(script(0, 500, keys=5, kinds=KINDS))
    found, overview = watched_in(tmp_path / "one", events, [1_000])
    again, of_few = watched_in(tmp_path / "many", events, [1, 40, 90], hot_keys=2, states_behind=200)
    assert again == found
    assert (of_few.oldest, of_few.scores.rounds) == (overview.oldest, overview.scores.rounds)
    for key, scores in scores_in_the_log(tmp_path / "one").items():
        for name, score in scores.items():
            assert getattr(found[key].scores, name) == pytest.approx(score, rel=1e-9), (key, name)
    for name in ("one", "many"):
        assert check_ledger(tmp_path / name).problems == []
        report = read_report(tmp_path / name)
        assert report.scores.brier == pytest.approx(overview.scores.brier, rel=1e-9)
        assert report.scores.log_loss_constant == pytest.approx(overview.scores.log_loss_constant, rel=1e-9)
        assert (report.forecasts, report.hints) == (overview.forecasts, overview.hints)
        assert (report.oldest.number, report.total.open) == (overview.oldest, overview.total.open)
        assert (report.alarms, report.hint_alarms) == (overview.alarms, overview.hint_alarms)
    assert min(overview.refused["invalid"], overview.refused["duplicate"]) > 10


def test_the_oldest_open_forecast_is_known_while_keys_come_and_go():
    with Engine(hot_keys=1) as engine:
        asked = [f"q{number}" for number in range(1, 6)]
        for id in asked:
            engine.query(id, f"key {id}")
            assert engine.overview().oldest == 1
        for number, id in enumerate(asked[:-1], 2):
            engine.outcome(id, True)
            assert engine.overview().oldest == number
        engine.outcome(asked[-1], False)
        assert engine.overview().oldest is None


def play(engine, key, rounds, wrong, start=0, late=0, seed=0):
    """Rounds whose hints are the probabilities of their outcomes, or too high."""
    rng, waiting, events = np.random.default_rng(seed), [], []
    for t in range(start, start + rounds):
        p = float(rng.random())
        events.append(Query(f"{key}/{t}", key, p))
        waiting.append((f"{key}/{t}", int(rng.random() < (p**2 if wrong else p))))
        while len(waiting) > late:
            events.append(Outcome(*waiting.pop(0)))
    engine.handle(events)


def test_an_alarm_says_when_and_how_and_survives_a_restart(tmp_path, caplog, monkeypatch):
    # tests before this one may have used up what is logged a minute
    monkeypatch.setattr(logging.getLogger("onlinecal.engine"), "filters", [])
    path = tmp_path / "ledger"
    with Engine(path) as engine:
        play(engine, "good", 300, wrong=False)
        play(engine, "bad", 150, wrong=False, late=5)
        with caplog.at_level(logging.INFO, "onlinecal"):
            play(engine, "bad", 250, wrong=True, start=150, late=5)
        good, bad = (engine.summary(key).watched for key in ("good", "bad"))
        overview = engine.overview()
    assert (good.alarms, good.hint_alarms) == (0, 0)
    assert bad.hint_alarms >= 1
    assert (bad.last_hint.direction, bad.last_hint.low, bad.last_hint.high) == ("too high", 0.0, 1.0)
    assert overview.hint_alarms == bad.hint_alarms
    assert [key for key, _ in overview.alarmed] == ["bad"]
    about = [record.about for record in caplog.records if record.about["kind"] == "alarm"]
    assert len(about) == bad.hint_alarms + bad.alarms
    last = [one for one in about if one["of"] == "hints"][-1]
    assert (last["key"], last["event"]) == ("bad", bad.last_hint.event)
    with Engine(path) as engine:
        assert engine.summary("bad").watched == bad
        anew = engine.overview()
    assert anew == replace(overview, hot_keys=0, batches=0, seconds=0.0, outcomes=0)
    assert check_ledger(path).problems == []


def test_turns_leave_no_alarms_behind_that_nobody_asks_for():
    turns, data = KeyTurns(EngineConfig(), 10), None
    for i in range(60):
        data, _ = turns("k", data, [Query(f"q{i}", "k", 0.9), Outcome(f"q{i}", 0)])
        assert turns._book.arrays.raised == []
    with Engine() as engine:
        assert engine.handle([e for i in range(60) for e in (Query(f"q{i}", "k", 0.9), Outcome(f"q{i}", 0))])
        assert engine.overview().hint_alarms > 0


def test_alarms_can_be_switched_off():
    events = [event for t in range(60) for event in (Query(f"q{t}", "k", 0.9), Outcome(f"q{t}", 0))]
    watched = {}
    for alarm in (None, 1e-60, False):
        with Engine(None, EngineConfig(KeyConfig(alarm=alarm))) as engine:
            engine.handle(events)
            watched[alarm] = engine.summary("k").watched
    assert [one.hint_alarms > 0 for one in watched.values()] == [True, False, False]
    assert watched[False].scores == watched[None].scores


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_the_distance_to_calibration(seed):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(60), 2)
    y = (rng.random(60) < [p, p**3, 1.0 - p][seed]).astype(float)
    state, reliability = OneKey(KeyConfig(steering=False)), Reliability()
    issued = []
    for t in range(60):
        issued.append(state.ask(f"q{t}", t + 1, float(p[t]), None))
        state.close(issued[-1], int(y[t]), None)
    state.run()
    forecasts = np.array([one.probability for one in issued])
    reliability.add_events(forecasts, p, y)
    summary = state.summary()
    for whose, given, bias in ((0, forecasts, summary.watched.bias), (1, p, summary.watched.hint_bias)):
        exact = calibration_distance(given, y)
        low, high = reliability.side(whose).distance
        assert bias == pytest.approx(low, rel=1e-9)
        assert low <= exact.lower + 1e-9
        assert high >= exact.upper - 1e-9


@pytest.fixture
def as_before():
    """The three loggers, which get back what they had."""
    loggers = [logging.getLogger(name) for name in ("onlinecal", "uvicorn", "asyncio")]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    yield loggers
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def test_logs_are_lines_of_json_and_words_that_repeat_are_counted(capsys, as_before):
    logs.log_to_stderr(as_json=True)
    with Engine() as engine:
        for t in range(40):
            engine.handle([Outcome(f"nobody {t}\n", 1)])
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == logs.MOST_ALIKE
    told = {(line["kind"], line["reason"], line["level"]) for line in lines}
    assert told == {("refusal", "unknown", "info")}
    assert lines[3]["id"] == "nobody 3\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_what_the_server_logs_is_json_too_or_else_left_to_the_server(capsys, as_before, as_json):
    theirs = []
    for one in as_before:
        own = logging.Handler()
        own.emit = theirs.append
        one.handlers, one.propagate = [own], one.name != "onlinecal"
        one.setLevel(logging.WARNING)
    logs.log_to_stderr(as_json)
    for one in as_before:
        one.info("quiet")
        try:
            raise OSError("the cause")
        except OSError:
            one.warning("a %s\x1b", "word", exc_info=as_json)
    lines = capsys.readouterr().err.splitlines()
    if as_json:
        read = [json.loads(line) for line in lines]
        found = [(line["logger"], line["level"], line["message"]) for line in read]
        warned = [(one.name, "warning", "a word\x1b") for one in as_before]
        assert found == [("onlinecal", "info", "quiet"), *warned]
        assert "exception" not in read[0]
        assert all("OSError: the cause" in line["exception"] for line in read[1:])
        assert theirs == []
    else:
        assert lines == ["onlinecal: a word\\x1b"]
        assert [record.name for record in theirs] == ["uvicorn", "asyncio"]
    assert [one.propagate for one in as_before] == [False, not as_json, not as_json]


@pytest.mark.parametrize("classes", [False, True])
def test_the_report_says_since_when_forecasts_are_wrong(tmp_path, classes):
    rng, path = np.random.default_rng(3), tmp_path / "ledger.db"
    config = EngineConfig(KeyConfig(kind="simplex", classes=("no", "yes")) if classes else KeyConfig())
    with Engine(path, config) as engine:
        for t in range(600):
            p = float(rng.choice([0.1, 0.3, 0.7, 0.9]))
            happens = bool(rng.random() < (p if t < 300 else 1.0 - p))
            hint, outcome = (
                ({"no": 1.0 - p, "yes": p}, ["no", "yes"][happens]) if classes else (p, int(happens))
            )
            engine.handle([Query(f"a{t}", "a", hint), Query(f"b{t}", "b", hint), Outcome(f"a{t}", outcome)])
    [line] = [one for one in read_report(path).keys if one.name == "a"]
    with closing(Ledger(path, read_only=True)) as ledger:
        [(change,)] = ledger.rows("SELECT number FROM queries WHERE id = 'a300'")
        [(later,)] = ledger.rows("SELECT number FROM queries WHERE id = 'a360'")
    assert line.summary.watched.hint_alarms > 0
    assert abs(line.change_point - change) < later - change
    assert [one.change_point for one in read_report(path).keys if one.name != "a"] == [None]
