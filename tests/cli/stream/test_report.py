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
from tests.cli.stream.events import expected, is_sound, late, lines_of, query, started, stream


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
    assert found["oldest"]["id"] == "q260"
    assert found["pictures"] == []


def test_what_went_out_stands_beside_what_came_in(tmp_path):
    path, rng = tmp_path / "ledger.db", np.random.default_rng(0)
    with Engine(path) as engine:
        for number in range(100):
            u = float(rng.random())
            engine.query(str(number), "ab"[number % 2], u if number % 2 else None)
            engine.outcome(str(number), int(rng.random() < u))
        wanted = {key: msgspec.to_builtins(engine.summary(key).watched.scores) for key in "ab"}
    found = json.loads(told("report", "--ledger", path, "--json"))
    assert {key["name"]: key["scores"] for key in found["keys"]} == wanted
    # where some keys have hints, all keys together are those
    assert found["scores"] == pytest.approx(wanted["b"])
    shown = told("report", "--ledger", path)
    assert f"{wanted['b']['brier_hint']:.4f} → {wanted['b']['brier']:.4f}" in shown
    assert "Brier score, hints → forecasts" in shown


def test_forecasts_that_are_worse_than_their_hints_are_remarked_on(tmp_path):
    path, rng = tmp_path / "ledger.db", np.random.default_rng(1)
    with Engine(path, EngineConfig(KeyConfig(rule="sign", report="lower"))) as engine:
        for number in range(200):
            p = float(rng.random())
            engine.query(str(number), "a", p)
            engine.outcome(str(number), int(rng.random() < p))
    answer = stream("report", "--ledger", path, "--json")
    assert "the forecasts: worse than the hints, Brier score" in answer.stderr
    assert len(json.loads(answer.stdout)["warnings"]) == len(answer.stderr.splitlines())


def test_keys_come_in_the_order_asked_for(tmp_path):
    path = tmp_path / "ledger.db"
    with Engine(path) as engine:
        engine.handle_lines(late(200, delay=7, keys=13))
    every = read_report(path).keys
    for order in ("certificate", "open", "rounds", "name"):
        keys = json.loads(told("report", "--ledger", path, "--json", "--sort", order, "--keys", 4))["keys"]
        if order == "name":
            assert [key["name"] for key in keys] == sorted(key.name for key in every)[:4]
        else:
            largest = sorted((getattr(key.summary, order) for key in every), reverse=True)[:4]
            assert [key["summary"][order] for key in keys] == largest


def test_the_table_names_totals_and_keys_as_they_are_written(tmp_path):
    path = tmp_path / "ledger.db"
    with Engine(path) as engine:
        engine.handle_lines(lines_of([query(0, key="[bold]a[/bold]", id="[q]")]))
    shown = told("report", "--ledger", path)
    assert "[q] of [bold]a[/bold], 0 events ago" in shown
    assert "all keys, certificate first" in shown


def test_a_ledger_without_events_has_a_report(tmp_path):
    path = tmp_path / "ledger.db"
    Engine(path).close()
    assert "forecasts asked for" in told("report", "--ledger", path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_ledger_is_reported_while_it_is_written(tmp_path):
    path = tmp_path / "ledger.db"
    lines = late(2000).splitlines(keepends=True)
    with started("--ledger", path) as process:
        for part in range(0, 1000, 200):
            process.stdin.write(b"".join(lines[part : part + 200]))
            for _ in range(200):
                process.stdout.readline()
            found = json.loads(told("report", "--ledger", path, "--json"))
            assert found["events"] == part + 200
            assert found["total"]["open"] == found["queries"] - found["closings"]
            assert "all as written" in told("check", "--ledger", path)
        process.stdin.close()


def test_check_passes_a_sound_ledger_and_names_a_changed_forecast(ledger):
    assert "560 events of 3 keys replayed, all as written" in told("check", "--ledger", ledger)
    assert json.loads(told("check", "--ledger", ledger, "--json"))["problems"] == []
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE queries SET probability = 0.987 WHERE id = 'q100'")
    shown, record = (stream("check", "--ledger", ledger, *more) for more in ((), ("--json",)))
    assert (shown.exit_code, record.exit_code) == (1, 1)
    assert "'q100' was answered with 0.987" in shown.stdout
    assert "differences: 1" in shown.stdout
    assert len(json.loads(record.stdout)["problems"]) == 1


def test_repair_saves_a_ledger_into_a_new_one(ledger, tmp_path):
    saved = tmp_path / "saved.db"
    assert "560 events of 3 keys saved, nothing lost" in told("repair", "--ledger", ledger, "--into", saved)
    assert is_sound(saved)
    with Engine(saved) as engine:
        assert engine.handle_lines(late(300, delay=40)) == expected(late(300, delay=40))
    answer = stream("repair", "--ledger", ledger, "--into", saved)
    assert answer.exit_code == 2
    assert "there is a file already" in answer.stderr


@pytest.mark.parametrize(
    "gone, words",
    [
        ("id = 'q100'", "lost: event"),
        ("number = 560", "lost: event 560 is missing"),
        ("number BETWEEN 540 AND 560", "lost: events 540 to 560 are missing"),
    ],
)
def test_repair_says_what_is_lost_though_nothing_refers_to_it(ledger, tmp_path, gone, words):
    with sqlite3.connect(ledger) as connection:
        for table in ("closings", "queries") if "number" in gone else ("queries",):
            connection.execute(f"DELETE FROM {table} WHERE {gone}")
    answer = stream("repair", "--ledger", ledger, "--into", tmp_path / "saved.db")
    assert answer.exit_code == 1
    assert words in answer.stdout
    assert "nothing lost" not in answer.stdout


def test_pictures_stand_beside_their_numbers(ledger, tmp_path):
    out = tmp_path / "out"
    pictures = json.loads(told("report", "--ledger", ledger, "--out", out, "--json"))["pictures"]
    names = ["stream_certificates.png", "stream_waiting.png", "stream_reliability.png"]
    assert [Path(path).name for path in pictures] == names
    for path in map(Path, pictures):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.with_suffix(".svg").exists()
    numbers = pl.read_csv(out / "stream_certificates.csv")
    by_name = {key.name: key.summary for key in read_report(ledger).keys}
    for row in numbers.iter_rows(named=True):
        assert row["rounds"] == by_name[row["key"]].rounds
        assert row["certificate"] == by_name[row["key"]].certificate


def inside(figure):
    """What a picture shows: its words, and how many dots."""
    figure.canvas.draw()
    [axis] = figure.axes
    dots = sum(len(one.get_offsets()) for one in axis.collections if hasattr(one, "get_sizes"))
    return [text.get_text() for text in [*figure.texts, *axis.texts]], dots


def keys_of(count, open_every=3):
    return pl.DataFrame(
        {
            "key": [f"a${place}_b" for place in range(count)],
            "rounds": [1 + place**2 % 997 for place in range(count)],
            "open": [place if place % open_every == 0 else 0 for place in range(count)],
            "expired": [0] * count,
            "certificate": [(place % 5) * (1 + place**2 % 997) ** 0.5 / 5 for place in range(count)],
            "guarantee": [2 * (1 + place**2 % 997) ** 0.5 for place in range(count)],
            "waited": [place * 7 if place % open_every == 0 else None for place in range(count)],
            "events": [10 * count] * count,
        }
    )


@pytest.mark.parametrize("count", [1, 2, 12, 13, 3000])
def test_every_key_is_a_dot_of_the_certificates_and_few_are_named(count):
    table = keys_of(count)
    words, dots = inside(pictures.draw_certificates(table))
    waiting = table.filter(pl.col("open") > 0).height
    marks = min(pictures.CERTIFICATE_MARKS, waiting) if count > 12 else 0
    together = int(count > 1)
    # a dash over every dot
    assert dots == 2 * count + marks + together
    assert sum(r"a\$" in word for word in words) == (count if count <= 12 else marks)
    assert ("all keys" in words) == together
    assert "at most" in words[0]


def test_certificates_of_nothing_can_be_drawn():
    table = keys_of(3).with_columns(certificate=pl.lit(0.0))
    assert "at most 0.0000 per round" in inside(pictures.draw_certificates(table))[0][0]


@pytest.mark.parametrize("count", [4, 3000])
def test_the_keys_that_wait_longest_and_for_most_are_named(count):
    table = keys_of(count).filter(pl.col("open") > 0)
    words, dots = inside(pictures.draw_waiting(table))
    assert words[0].startswith("one key waits for" if table.height == 1 else f"{table.height:,} keys")
    assert any(rf"a\${table['key'][-1][2:]}" in word for word in words)
    assert dots == table.height + (0 if table.height <= 12 else pictures.WAITING_MARKS)
