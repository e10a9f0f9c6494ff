"""The rules by which events are judged, one table, played in every form that judges them.

Few events are judged one by one. Of many, compiled code accepts those that are plain, and leaves the others
to the judge. A key's turn knows its forecasts from its own bytes. All of them must answer the same.
"""

import random

import pytest
from msgspec.structs import replace

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Match, Outcome, Query, Withdraw
from onlinecal.engine.columns import FEW_EVENTS
from onlinecal.engine.judge import Batch
from onlinecal.engine.keys import key, playing
from onlinecal.engine.turns import KeyTurns
from tests.engine.scripts import (
    CONFIG,
    KINDS,
    assert_same_ledgers,
    batches,
    kind_of,
    lines_of,
    script,
    states_of,
)

BRIEF = EngineConfig(
    matches=(Match("brief", KeyConfig(expire_after=10.0)), Match("sky", KeyConfig(kind="simplex")))
)

ASKED = (Query("a", "k", 0.25, 5.0),)
SETTLED = (*ASKED, Outcome("a", 1, time=6.0))
WITHDRAWN = (*ASKED, Withdraw("a"))
BRIEFLY = (Query("a", "brief", 0.25, 5.0),)
OVER = (*BRIEFLY, Query("b", "brief", None, 20.0))

RULES = [
    # queries
    ("an id that is new is forecast", (), Query("a", "k", 0.25), "Forecast"),
    ("without a hint, too", (), Query("a", "k"), "Forecast"),
    ("a key may go back in time", ASKED, Query("b", "k", 0.25, 1.0), "Forecast"),
    ("a key of its own kind may begin", (), Query("a", "sky", {"sun": 0.5, "rain": 0.5}), "Forecast"),
    ("the same query is answered as before", ASKED, ASKED[0], "Forecast"),
    ("also when its forecast is settled", SETTLED, ASKED[0], "Forecast"),
    ("also when it is withdrawn", WITHDRAWN, ASKED[0], "Forecast"),
    ("also when it has expired", OVER, BRIEFLY[0], "Forecast"),
    ("an id is asked for once: with one hint", ASKED, Query("a", "k", 0.5, 5.0), "duplicate"),
    ("with one time", ASKED, Query("a", "k", 0.25, 6.0), "duplicate"),
    ("with one key", ASKED, Query("a", "other", 0.25, 5.0), "duplicate"),
    ("whether or not it is settled", SETTLED, Query("a", "k"), "duplicate"),
    ("a hint is one that the key can have", (), Query("a", "k", 1.5), "invalid"),
    ("of its kind", (), Query("a", "k", {"sun": 1.0}), "invalid"),
    ("of either kind", (), Query("a", "sky", 0.5), "invalid"),
    ("what cannot be is invalid even where the id is known", ASKED, Query("a", "k", 1.5, 5.0), "invalid"),
    ("a time is not too far ahead", BRIEFLY, Query("b", "brief", None, 1e12), "invalid"),
    # outcomes and withdrawals
    ("an open forecast is settled", ASKED, Outcome("a", 1), "Settled"),
    ("with a share", ASKED, Outcome("a", 0.5), "Settled"),
    ("with its key", ASKED, Outcome("a", 0, "k"), "Settled"),
    ("before its query's time", ASKED, Outcome("a", 0, time=1.0), "Settled"),
    ("in time", BRIEFLY, Outcome("a", 0, time=15.0), "Settled"),
    ("or withdrawn", ASKED, Withdraw("a"), "Withdrawn"),
    ("the same outcome is answered as before", SETTLED, SETTLED[1], "Settled"),
    ("and so is a withdrawal", WITHDRAWN, WITHDRAWN[1], "Withdrawn"),
    ("an outcome that equals it is the same", SETTLED, Outcome("a", True, "k", 6.0), "Settled"),
    ("a forecast is closed once: with one value", SETTLED, Outcome("a", 0, time=6.0), "settled"),
    ("with one time", SETTLED, Outcome("a", 1), "settled"),
    ("in one way", SETTLED, Withdraw("a"), "settled"),
    ("in one way, whichever", WITHDRAWN, Outcome("a", 1), "withdrawn"),
    ("a forecast was asked for", (), Outcome("a", 1), "unknown"),
    ("also one that is withdrawn", ASKED, Withdraw("b"), "unknown"),
    ("a key is that of the forecast", ASKED, Outcome("a", 1, "other"), "invalid"),
    ("even where that is no key yet", SETTLED, Outcome("a", 1, "never", 6.0), "invalid"),
    ("an outcome is one that the key can have", ASKED, Outcome("a", 2), "invalid"),
    ("of its kind", ASKED, Outcome("a", "rain"), "invalid"),
    ("what cannot be is invalid even where it is settled", SETTLED, Outcome("a", 2, time=6.0), "invalid"),
    ("an outcome comes in time", BRIEFLY, Outcome("a", 1, time=16.0), "expired"),
    ("by the key's clock", OVER, Outcome("a", 1), "expired"),
    ("and so does a withdrawal", OVER, Withdraw("a", time=6.0), "expired"),
    ("a time is not too far ahead", BRIEFLY, Outcome("a", 1, time=1e12), "invalid"),
]  # fmt: skip


PARKING = replace(BRIEF, park=1000)
EARLY = (Outcome("a", 1, time=6.0),)
FIRST = (*EARLY, Query("a", "k", 0.25, 5.0))
LABEL = (Outcome("a", "rain"), Query("a", "k", 0.25))
MISNAMED = (Outcome("a", 1, "other"), Query("a", "k", 0.25))
TOO_LATE = (Outcome("a", 1, time=16.0), Query("a", "brief", 0.25, 5.0))

PARKING_RULES = [
    *(rule for rule in RULES if rule[3] != "unknown"),
    ("an outcome that comes first is parked", (), EARLY[0], "Parked"),
    ("whatever some key can have", (), Outcome("a", "rain"), "Parked"),
    ("of the key that it names", (), Outcome("a", 0.5, "k"), "Parked"),
    ("sent again, too", EARLY, EARLY[0], "Parked"),
    ("and one that equals it", EARLY, Outcome("a", True, "k", 6.0), "Parked"),
    ("one is parked for an id: of one value", EARLY, Outcome("a", 0, time=6.0), "parked"),
    ("of one time", EARLY, Outcome("a", 1), "parked"),
    ("of one key", (Outcome("a", 1, "k"),), Outcome("a", 1, "other"), "parked"),
    ("it is not withdrawn", EARLY, Withdraw("a", time=6.0), "parked"),
    ("nor is what is not there", EARLY, Withdraw("b"), "unknown"),
    ("an outcome is one that some key can have", (), Outcome("a", 7), "invalid"),
    ("or the key that it names", (), Outcome("a", "rain", "k"), "invalid"),
    ("also where one is parked", EARLY, Outcome("a", 7), "invalid"),
    ("its query is forecast", EARLY, FIRST[1], "Forecast"),
    ("and once more", FIRST, FIRST[1], "Forecast"),
    ("and with one hint", FIRST, Query("a", "k", 0.5, 5.0), "duplicate"),
    ("a query that is refused leaves it", (*EARLY, Query("a", "k", 7)), EARLY[0], "Parked"),
    ("and then it is settled", (*EARLY, Query("a", "k", 7), FIRST[1]), EARLY[0], "Settled"),
    ("after its query it is settled", FIRST, EARLY[0], "Settled"),
    ("once", FIRST, Outcome("a", 0, time=6.0), "settled"),
    ("and not withdrawn", FIRST, Withdraw("a"), "settled"),
    ("one that the key cannot have is dropped", LABEL, LABEL[0], "invalid"),
    ("and the forecast stays open", LABEL, Outcome("a", 1), "Settled"),
    ("also if another key is named", MISNAMED, MISNAMED[0], "invalid"),
    ("then, too", MISNAMED, Outcome("a", 0), "Settled"),
    ("and if it is too late", TOO_LATE, TOO_LATE[0], "expired"),
    ("and then as well", TOO_LATE, Outcome("a", 0, time=6.0), "Settled"),
]  # fmt: skip


def others(name="other"):
    """Plain events of another key, enough for a batch that is not judged one by one."""
    asked = [Query(f"{name} {i}", name, 0.5) for i in range(FEW_EVENTS)]
    return [*asked, *(Outcome(f"{name} {i}", i % 2) for i in range(0, FEW_EVENTS, 2))]


def alone(engine, events):
    """Each event in a batch of its own."""
    engine.handle(others())
    return [answer for event in events for answer in engine.handle([event])]


def few(engine, events):
    """All in one batch of few events."""
    engine.handle(others())
    return engine.handle(events)


def among_others(engine, events):
    """All in one batch of many events, behind the others."""
    return engine.handle([*others(), *events])[-len(events) :]


def before_others(engine, events):
    """All in one batch of many events, in front of the others."""
    return engine.handle([*events, *others()])[: len(events)]


def each_among_others(engine, events):
    """Each event in a batch of many."""
    engine.handle(others())
    return [engine.handle([*others(f"{i}"), event])[-1] for i, event in enumerate(events)]


def every_rule():
    """Each rule with the configuration that it holds for."""
    yield from ((BRIEF, rule) for rule in RULES)
    yield from ((PARKING, rule) for rule in PARKING_RULES)


FORMS = few, among_others, before_others, each_among_others
ALL_FORMS = alone, *FORMS


def answers_in(form):
    """Each rule, and what its events are answered in a form."""
    found = []
    for config, (rule, before, event, _) in every_rule():
        with Engine(config=config) as engine:
            found.append((rule, form(engine, [*before, event])))
    return found


@pytest.fixture(scope="module")
def answers_alone():
    """What they are answered one by one, of which compiled code judges none."""
    return answers_in(alone)


def never_plain(monkeypatch):
    """Let the judge judge all events."""
    monkeypatch.setattr(Batch, "_mark_plain", lambda self: None)


def test_events_alone_are_answered_by_the_rules(answers_alone):
    told = [(rule, kind_of(answers[-1])) for rule, answers in answers_alone]
    assert told == [(rule, wanted) for _, (rule, _, _, wanted) in every_rule()]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_answers_as_events_alone_are_answered(answers_alone, form):
    assert answers_in(form) == answers_alone


@pytest.mark.parametrize(
    "form",
    # the judge judges few events anyhow, and events behind others as those among them
    [
        form if form in (among_others, before_others) else pytest.param(form, marks=pytest.mark.slow)
        for form in ALL_FORMS
    ],
)
def test_the_judge_answers_so_whatever_the_form(monkeypatch, answers_alone, form):
    never_plain(monkeypatch)
    assert answers_in(form) == answers_alone


def test_a_turn_of_a_key_answers_by_the_rules():
    for config, (rule, before, event, wanted) in every_rule():
        turns, asked = KeyTurns(config, 100), [one.key for one in before if isinstance(one, Query)]
        name = (asked or [event.key or "k"])[0]
        if isinstance(event, Query) and event.key != name:
            continue
        data = None
        for one in before:
            data, _ = turns(name, data, [one])
        for told in (turns(name, data, [event])[1], turns(name, None, [*before, event])[1]):
            assert (rule, kind_of(told[-1])) == (rule, wanted)


@pytest.mark.parametrize("many", [False, True])
def test_a_key_that_is_full_takes_no_query_and_every_outcome(monkeypatch, many):
    monkeypatch.setattr(key, "MOST_OPEN", key.ALWAYS_OPEN)
    monkeypatch.setattr(playing, "MOST_OPEN", key.ALWAYS_OPEN)
    # constants of compiled code are those of its first call
    monkeypatch.setattr(playing.ACCEPTING, "accept", playing.accept)
    asked = [Query(f"q{i}", "k") for i in range(key.ALWAYS_OPEN)]
    rest = [Query("one more", "k"), Outcome("q1", 1), Query("and now", "k"), Query("too many", "k")]
    with Engine() as engine:
        events = [*asked, *rest]
        answers = engine.handle(events) if many else [engine.handle([event])[0] for event in events]
    assert list(map(kind_of, answers[len(asked) :])) == ["full", "Settled", "Forecast", "full"]
    assert {kind_of(one) for one in answers[: len(asked)]} == {"Forecast"}


@pytest.mark.parametrize("seed", range(3))
def test_compiled_batches_and_the_judge_alone_keep_the_same_ledger(tmp_path, monkeypatch, seed):
    lines, told, states = lines_of(script(seed, 300, keys=12, kinds=(*KINDS, "plain", "plain"))), [], []
    for name in ("compiled.db", "judge.db"):
        with Engine(tmp_path / name, CONFIG, states_behind=50) as engine:
            rng = random.Random(seed)
            told.append([engine.handle_lines(data) for data in batches(rng, lines, 90)])
            states.append(states_of(engine))
        never_plain(monkeypatch)
    assert told[0] == told[1]
    assert states[0] == states[1]
    assert_same_ledgers(tmp_path / "compiled.db", tmp_path / "judge.db")
