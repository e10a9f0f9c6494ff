"""`onlinecal stream report`, `check` and `repair`: what they say is what the engine says."""

import json
import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, read_report
from onlinecal.plots import ledger as pictures
from tests.cli.stream.events import expected, late, lines_of, query, stream
from tests.engine.fault_tools import changed


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.db"
    with Engine(path) as engine:
        engine.handle_lines(late(300, delay=40))
    return path


def told(*arguments):
    answer = stream(*arguments)
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout


def test_json_has_the_numbers_of_the_engine(ledger):
    found = json.loads(told("report", "--ledger", ledger, "--json"))
    with Engine() as engine:
        engine.handle_lines(late(300, delay=40))
        assert found["total"]["certificate"] == pytest.approx(engine.total().certificate)
        for key in found["keys"]:
            assert key["summary"] == msgspec.to_builtins(engine.summary(key["name"]))
    assert (found["events"], found["queries"], found["closings"]) == (560, 300, 260)
    assert (found["n_keys"], found["total"]["rounds"], found["total"]["open"]) == (3, 260, 40)
    assert (found["oldest"]["id"], found["pictures"]) == ("q260", [])


def test_what_went_out_stands_beside_what_came_in(tmp_path):
    path, rng = tmp_path / "ledger.db", np.random.default_rng(0)
    # a rule that makes hints worse, which is remarked on
    worse = EngineConfig(KeyConfig(rule="sign", report="lower"))
    with Engine(path, worse) as engine:
        for number in range(400):
            u = float(rng.random())
            engine.query(str(number), "ab"[number % 2], u if number % 2 else None)
            engine.outcome(str(number), int(rng.random() < u))
        wanted = {key: msgspec.to_builtins(engine.summary(key).watched.scores) for key in "ab"}
    answer = stream("report", "--ledger", path, "--json")
    found = json.loads(answer.stdout)
    assert {key["name"]: key["scores"] for key in found["keys"]} == wanted
    # where some keys have hints, all keys together are those
    assert found["scores"] == pytest.approx(wanted["b"])
    assert "the forecasts: worse than the hints, Brier score" in answer.stderr
    assert len(found["warnings"]) == len(answer.stderr.splitlines())
    shown = told("report", "--ledger", path)
    assert f"{wanted['b']['brier_hint']:.4f} → {wanted['b']['brier']:.4f}" in shown
    assert "Brier score, hints → forecasts" in shown


@pytest.mark.parametrize("order", ["certificate", "open", "rounds", "name"])
def test_keys_come_in_the_order_asked_for(tmp_path, order):
    path = tmp_path / "ledger.db"
    with Engine(path) as engine:
        engine.handle_lines(late(200, delay=7, keys=13))
    found = json.loads(told("report", "--ledger", path, "--json", "--sort", order, "--keys", 4))["keys"]
    every = [one.name if order == "name" else getattr(one.summary, order) for one in read_report(path).keys]
    keys = [{"name": one["name"], **one["summary"]}[order] for one in found]
    assert keys == sorted(every, reverse=order != "name")[:4]


def test_the_table_names_totals_and_keys_as_they_are_written_also_where_there_are_none(tmp_path):
    path = tmp_path / "ledger.db"
    with Engine(path) as engine:
        assert "forecasts asked for" in told("report", "--ledger", path, "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()
        engine.handle_lines(lines_of([query(0, key="[bold]a[/bold]", id="[q]")]))
    shown = told("report", "--ledger", path)
    assert "[q] of [bold]a[/bold], 0 events ago" in shown
    assert "all keys, certificate first" in shown


def test_check_passes_a_sound_ledger_and_names_a_changed_forecast(ledger):
    assert "560 events of 3 keys replayed, all as written" in told("check", "--ledger", ledger)
    assert json.loads(told("check", "--ledger", ledger, "--json"))["problems"] == []
    changed(ledger, "UPDATE queries SET probability = 0.987 WHERE id = 'q100'", with_sums=True)
    shown, record = (stream("check", "--ledger", ledger, *more) for more in ((), ("--json",)))
    assert shown.exit_code == record.exit_code == 1
    assert "'q100' was answered with 0.987" in shown.stdout
    assert "differences: 1" in shown.stdout
    assert len(json.loads(record.stdout)["problems"]) == 1


def test_repair_saves_a_ledger_and_says_what_is_lost_though_nothing_refers_to_it(ledger, tmp_path):
    saved = tmp_path / "saved.db"
    assert "560 events of 3 keys saved, nothing lost" in told("repair", "--ledger", ledger, "--into", saved)
    with Engine(saved) as engine:
        assert engine.handle_lines(late(300, delay=40)) == expected(late(300, delay=40))
    for first, words in ((560, "lost: event 560 is missing"), (540, "lost: events 540 to 560 are missing")):
        with sqlite3.connect(ledger) as connection:
            for table in ("closings", "queries"):
                connection.execute(f"DELETE FROM {table} WHERE number >= {first}")
        answer = stream("repair", "--ledger", ledger, "--into", tmp_path / f"{first}.db")
        assert answer.exit_code == 1
        assert words in answer.stdout
        assert "nothing lost" not in answer.stdout


def test_pictures_stand_beside_their_numbers(ledger, tmp_path):
    out = tmp_path / "out"
    paths = json.loads(told("report", "--ledger", ledger, "--out", out, "--json"))["pictures"]
    assert [Path(path).stem for path in paths] == ["stream_certificates", "stream_reliability"]
    for path in map(Path, paths):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.with_suffix(".svg").exists()
    by_name = {key.name: key.summary for key in read_report(ledger).keys}
    for row in pl.read_csv(out / "stream_certificates.csv").iter_rows(named=True):
        mine = by_name[row["key"]]
        assert (row["rounds"], row["certificate"]) == (mine.rounds, mine.certificate)


def inside(figure):
    """What a picture shows: its words, and how many dots."""
    figure.canvas.draw()
    [axis] = figure.axes
    dots = sum(len(one.get_offsets()) for one in axis.collections if hasattr(one, "get_sizes"))
    return [text.get_text() for text in [*figure.texts, *axis.texts]], dots


def keys_of(count):
    """So many keys."""
    place = np.arange(count)
    rounds = 1 + place**2 % 997
    certificates = {"certificate": place % 5 * rounds**0.5 / 5, "guarantee": 2 * rounds**0.5}
    return pl.DataFrame({"key": [f"a${one}_b" for one in place], "rounds": rounds, **certificates})


@pytest.mark.parametrize("count", [1, 12, 13, 3000])
def test_every_key_is_a_dot_and_few_are_named(count):
    table = keys_of(count)
    words, dots = inside(pictures.draw_certificates(table))
    marks, together = (count if count <= 12 else pictures.MOST_MARKED), int(count > 1)
    # a dash over every dot
    assert dots == 2 * count + marks + together
    assert sum(r"a\$" in word for word in words) == marks
    assert ("all keys" in words) == together
    if count == 1:
        nothing = inside(pictures.draw_certificates(table.with_columns(certificate=pl.lit(0.0))))
        assert "at most 0.0000 per round" in nothing[0][0]
