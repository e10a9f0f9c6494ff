"""Outcomes whose time lies before that of their query: they are taken, since clocks differ, and counted."""

import random

import pytest

from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    Match,
    Outcome,
    Query,
    Settled,
    Withdraw,
    archive_ledger,
    check_ledger,
    repair_ledger,
)
from onlinecal.engine.ledger.check import examine

CONFIG = EngineConfig(
    matches=(
        Match("brief/*", KeyConfig(expire_after=50.0)),
        Match("classes/*", KeyConfig(kind="simplex", classes=("0", "1"))),
    )
)
KEYS = "plain/a", "plain/b", "brief/a", "classes/a"


def story(seed, rounds):
    """Events, and how many of the outcomes have a time before that of their query."""
    rng, events, early = random.Random(seed), [], 0
    for number in range(rounds):
        key, asked, came = (
            rng.choice(KEYS),
            float(number),
            rng.choice([number - 3.0, float(number), None, number + 5.0]),
        )
        value = rng.choice("01") if key.startswith("classes") else rng.choice([0, 1])
        events.append(Query(f"q{number}", key, None, asked))
        withdrawn = rng.random() < 0.2
        events.append(
            Withdraw(f"q{number}", None, came) if withdrawn else Outcome(f"q{number}", value, None, came)
        )
        early += came is not None and came < asked and not withdrawn
    return events, early


def counted(path):
    """How many the engine counts, and the doctor; the check agrees."""
    assert check_ledger(path).problems == []
    with Engine(path, CONFIG) as engine:
        return engine.overview().early, examine(path)[0]["early_outcomes"]


@pytest.mark.parametrize("together", [1, 7, 100])
def test_early_outcomes_are_settled_and_counted_once_and_for_all(folder, together):
    path, archive = folder / "ledger.db", folder / "old.archive"
    events, early = story(together, 150)
    with Engine(path, CONFIG, hot_keys=2, states_behind=40) as engine:
        answers = []
        for start in range(0, len(events), together):
            answers += engine.handle(events[start : start + together])
        # what comes again was counted before
        engine.handle(events)
        assert engine.overview().early == early > 20
    assert sum(isinstance(one, Settled) for one in answers) == sum(isinstance(one, Outcome) for one in events)
    assert counted(path) == (early, early)
    repair_ledger(path, folder / "repaired.db")
    assert counted(folder / "repaired.db") == (early, early)
    archive_ledger(path, archive, keep=100)
    assert 0 < examine(archive)[0]["early_outcomes"] < early
    assert check_ledger(path, archives=[archive]).problems == []
    repair_ledger(path, folder / "again.db")
    assert counted(path) == counted(folder / "again.db") == (early, early)


def test_a_query_without_a_time_has_that_of_its_key():
    with Engine() as engine:
        engine.handle([Query("a", "k", None, 100.0), Query("b", "k"), Query("c", "other")])
        engine.handle([Outcome(id, 1, None, 99.0) for id in "abc"])
        assert engine.overview().early == 2
        metrics = pytest.importorskip("onlinecal.engine.http.metrics", reason="needs the extra serve")
        assert b"\nonlinecal_early_outcomes_total 2.0\n" in metrics.as_text(engine.overview())
