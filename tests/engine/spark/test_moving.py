"""A ledger's keys go on in Spark as if they had never left their machine."""

import pytest

from onlinecal.engine import Engine, LedgerError
from onlinecal.engine.ledger.report import read_report
from tests.engine.key_events import CONFIG, everything
from tests.engine.spark.stream_run import read, run, said, told, write_events

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

KEYS = [kind.format(i) for i in range(10) for kind in ("k{}", "plain/{}", "u/{}", "w/{}", "w/lp{}")]


def test_a_stream_that_begins_with_the_states_of_a_ledger_goes_on_as_the_engine_does(spark, tmp_path):
    from onlinecal.engine.spark import ledger_states

    path, events = tmp_path / "ledger.db", everything(6_000, KEYS, seed=3)
    with Engine(path, CONFIG) as engine:
        engine.handle(events[:3_000])
        # of what was closed before the move Spark knows nothing
        there, waiting = {event.id for event in events[:3_000]}, set(engine._book.open)
    rest = [event for event in events[3_000:] if event.id not in there or event.id in waiting]
    assert sum(event.id in waiting for event in rest) > 50
    states = ledger_states(spark, path)
    write_events(rest, tmp_path / "in", 2)
    run(spark, tmp_path, initial=states)
    with Engine(path) as engine:
        wanted = [said(answer) for answer in engine.handle(rest)]
    assert [told(row) for row in read(spark, tmp_path)] == wanted


def test_a_ledger_whose_states_are_behind_is_refused_until_they_are_written(tmp_path):
    from onlinecal.engine.spark.stream import states_in

    path = tmp_path / "ledger.db"
    engine = Engine(path, CONFIG)
    engine.handle(everything(200, KEYS))
    with pytest.raises(ValueError, match=r"ledger\.db: its states are behind its log; stop the engine"):
        list(states_in(path))
    engine.close()
    assert {key for key, _ in states_in(path)} == {line.name for line in read_report(path).keys}


def test_a_ledger_that_is_not_there_is_refused(tmp_path):
    from onlinecal.engine.spark.stream import states_in

    with pytest.raises(LedgerError, match="there is no such ledger"):
        list(states_in(tmp_path / "ledger.db"))


def test_no_key_is_left_behind_without_a_word(tmp_path):
    import sqlite3
    from contextlib import closing

    from onlinecal.engine.spark.stream import states_in

    path = tmp_path / "ledger.db"
    with Engine(path, CONFIG) as engine:
        engine.handle(everything(200, KEYS))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE keys SET name = 'k' || char(0) WHERE number = 2")
    with pytest.raises(LedgerError, match=r"'k\\x00' cannot be the name of a key"):
        list(states_in(path))
