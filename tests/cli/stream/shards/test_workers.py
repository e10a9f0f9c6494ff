"""`onlinecal stream --workers`: the answers of one engine in the order of the events, whatever happens."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from onlinecal.cli.stream.shards.folder import shards_of
from onlinecal.engine import check_ledger, read_report
from tests.cli.stream.events import append, expected, late, lines_of, outcome, piped, query, started, stream
from tests.engine.scripts import CONFIG_TOML, quick_folder, script
from tests.engine.scripts import lines_of as script_lines

KEYS = 12
"""Enough that three shards have some each."""


@pytest.fixture
def folder():
    with quick_folder() as place:
        yield place


def totals(folder):
    """Rounds of each key, over all shards, each of which is sound."""
    rounds = {}
    for shard in shards_of(folder):
        assert check_ledger(shard).problems == []
        rounds |= {key.name: key.summary for key in read_report(shard).keys}
    return rounds


@pytest.mark.parametrize("workers", [1, 3])
def test_answers_are_those_of_one_engine_in_the_order_of_the_events(folder, workers):
    lines = late(400, keys=KEYS) + b"no event\n\n" + lines_of([outcome(7), outcome(7, value=7), {"id": "x"}])
    answer = piped(lines, "--ledger", folder / "l", "--workers", workers, "--batch", 37)
    assert answer.returncode == 0
    assert answer.stdout == expected(lines)
    assert len(shards_of(folder / "l")) == workers
    rejected = answer.stdout.count(b'"rejected"')
    assert f"400 forecast, 381 settled, {rejected} rejected".encode() in answer.stderr


def test_every_kind_of_key_answers_as_in_one_engine(folder):
    # outcomes without keys, too: all shards are asked for the id, and one has it
    (folder / "keys.toml").write_text(CONFIG_TOML)
    lines = b"\n".join(script_lines(script(3, 1_500))) + b"\n"
    config = ["--config", folder / "keys.toml", "--hot-keys", 4, "--quiet"]
    one = piped(lines, "--ledger", folder / "one.db", *config)
    assert one.returncode == 0
    for batch in (64, 8192):
        several = piped(lines, "--ledger", folder / str(batch), "--workers", 3, "--batch", batch, *config)
        assert (several.returncode, several.stderr) == (0, b"")
        assert several.stdout == one.stdout
        assert piped(lines, "--ledger", folder / str(batch), *config).stdout == one.stdout
    shards, report = totals(folder / "64"), read_report(folder / "one.db")
    assert shards.keys() == {key.name for key in report.keys}
    for key in report.keys:
        found = shards[key.name]
        assert (found.rounds, found.open, found.certificate) == (
            key.summary.rounds, key.summary.open, key.summary.certificate
        )  # fmt: skip


def test_an_answer_does_not_wait_for_more_events(folder):
    with started("--ledger", folder / "l", "--workers", 2) as process:
        for number in range(6):
            process.stdin.write(lines_of([query(number), outcome(number)]))
            process.stdout.readline()
            assert json.loads(process.stdout.readline())["type"] == "settled"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_an_outcome_that_all_shards_are_asked_about_is_answered_and_logged_once(folder):
    lines = late(30, keys=KEYS) + lines_of([outcome(99), {"type": "withdraw", "id": "nobody's"}])
    answer = piped(lines, "--ledger", folder / "l", "--workers", 3, "--log-json")
    assert answer.stdout == expected(lines)
    told = [json.loads(line) for line in answer.stderr.splitlines()]
    assert [one["id"] for one in told] == ["q99", "nobody's"]


def test_another_number_of_workers_is_refused_and_nothing_changes(folder):
    lines = late(60, keys=KEYS)
    place = folder / "l"
    first = piped(lines, "--ledger", place, "--workers", 2).stdout
    other = piped(lines, "--ledger", place, "--workers", 3)
    assert other.returncode == 2
    assert b"has 2 shards: --workers must be 2, or left out, got 3" in other.stderr
    assert b"play the same input into a new folder" in other.stderr
    assert not (place / "2.db").exists()
    assert piped(lines, "--ledger", place).stdout == first


def test_a_ledger_is_no_folder_of_shards(folder):
    piped(late(5), "--ledger", folder / "one.db")
    refused = piped(b"", "--ledger", folder / "one.db", "--workers", 2)
    assert (refused.returncode, b"is one ledger, for one process" in refused.stderr) == (2, True)
    (folder / "full").mkdir()
    (folder / "full" / "letter").touch()
    refused = piped(b"", "--ledger", folder / "full", "--workers", 2)
    assert (refused.returncode, b"is a folder without shards" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    "text", ["", '{"shards": 0, "config": {}}', '{"shards": 2, "config": {}, "hash": "md5"}']
)
def test_a_damaged_manifest_is_refused(folder, text):
    piped(late(5), "--ledger", folder / "l", "--workers", 2)
    (folder / "l" / "shards.json").write_text(text)
    refused = stream("report", "--ledger", folder / "l")
    assert refused.exit_code == 2
    assert "shards.json: cannot be read" in refused.stderr


def test_another_configuration_is_refused_and_a_shard_that_is_missing_gets_the_first(folder):
    (folder / "keys.toml").write_text("lanes = 3\n")
    config = ["--config", folder / "keys.toml"]
    lines = late(60, keys=KEYS)
    answers = piped(lines, "--ledger", folder / "l", "--workers", 2, *config).stdout
    (folder / "other.toml").write_text("lanes = 4\n")
    refused = piped(lines, "--ledger", folder / "l", "--config", folder / "other.toml")
    assert refused.returncode == 2
    assert b"were made with another configuration" in refused.stderr
    # as if the first run had been killed before it made this one
    (folder / "l" / "1.db").unlink()
    assert piped(lines, "--ledger", folder / "l").stdout == answers


def test_a_second_run_on_the_folder_is_refused(folder):
    with started("--ledger", folder / "l", "--workers", 2) as process:
        process.stdin.write(lines_of([query(0)]))
        process.stdout.readline()
        second = piped(b"", "--ledger", folder / "l")
        assert second.returncode == 2
        assert b"another process writes to this ledger" in second.stderr
        process.stdin.close()
        assert process.wait(60) == 0


def test_resume_goes_on_where_all_shards_had_answered(folder):
    file, place = folder / "events.jsonl", folder / "l"
    lines = late(3_000, keys=KEYS)
    file.write_bytes(lines)
    arguments = ["--ledger", place, "--workers", 2, "--input", file, "--resume", "--batch", 20]
    with started(*arguments) as process:
        begun = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest, told = process.communicate(timeout=300)
    assert (process.returncode, b"Traceback" in told) == (0, False)
    answered = begun + rest
    assert 0 < answered.count(b"\n") < lines.count(b"\n")
    append(file, lines_of([outcome(2_990)]))
    rest = stream("--ledger", place, "--input", file, "--resume").stdout_bytes
    assert answered + rest == expected(lines + lines_of([outcome(2_990)]))


def workers_of(process):
    """The process ids of a run's workers."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children]


def test_a_worker_that_is_killed_ends_the_command_even_while_nothing_comes(folder):
    with started("--ledger", folder / "l", "--workers", 2) as process:
        process.stdin.write(lines_of([query(0)]))
        process.stdout.readline()
        os.kill(workers_of(process)[1], signal.SIGKILL)
        assert process.wait(60) == 2
        told = process.stderr.read().decode()
    assert "Traceback" not in told
    assert re.search(r"1\.db: its worker, process \d+, was killed by SIGKILL", told)
    assert "without --resume" in told


def killed_somewhere(folder, lines, answers, seed, kills):
    """Kill the command or one of its workers again and again, then let the same input come to its end."""
    rng = random.Random(seed)
    file = folder / "events.jsonl"
    file.write_bytes(lines)
    (folder / "keys.toml").write_text(CONFIG_TOML)
    place, killed = folder / f"l{seed}", 0
    while killed < kills:
        most = rng.choice([7, 60, 500])
        config = ["--config", folder / "keys.toml", "--hot-keys", 4, "--batch", most, "--quiet"]
        with (
            open(folder / "out", "wb") as out,
            started(
                "--ledger", place, "--workers", 3, "--input", file, *config, stdout=out, stdin=None
            ) as process,
        ):
            while rng.random() < 0.9 and process.poll() is None and not (folder / "out").stat().st_size:
                time.sleep(0.005)
            time.sleep(rng.random() ** 2 * 0.5)
            targets = [process.pid, *workers_of(process)] if process.poll() is None else []
            if targets:
                os.kill(rng.choice(targets), signal.SIGKILL)
            code = process.wait(120)
            told = process.stderr.read()
        killed += code != 0
        # a line may be torn where the command itself was killed: whole lines are those of one engine
        done = (folder / "out").read_bytes()
        assert answers.startswith(done)
        if code == 2:
            assert b"was killed by SIGKILL" in told
            assert not done or done.endswith(b"\n")
        else:
            assert code in (0, -signal.SIGKILL)
    last = piped(b"", "--ledger", place, "--input", file, "--quiet")
    assert (last.returncode, last.stderr) == (0, b"")
    assert last.stdout == answers
    return totals(place), killed


def test_whoever_is_killed_the_same_input_brings_the_same_answers(folder):
    kill_and_compare(folder, seeds=1, kills=4, queries=600)


@pytest.mark.slow
def test_whoever_is_killed_two_hundred_times_the_same_input_brings_the_same_answers(folder):
    print(f"\n{kill_and_compare(folder, seeds=10, kills=20, queries=4_000)} kills")


def kill_and_compare(folder, seeds, kills, queries):
    (folder / "keys.toml").write_text(CONFIG_TOML)
    lines = b"\n".join(script_lines(script(5, queries))) + b"\n"
    config = ["--config", folder / "keys.toml", "--hot-keys", 4, "--quiet"]
    answers = piped(lines, "--ledger", folder / "one.db", *config).stdout
    asked = {key.name: key.summary for key in read_report(folder / "one.db").keys}
    done = 0
    for seed in range(seeds):
        found, killed = killed_somewhere(folder, lines, answers, seed, kills)
        done += killed
        assert {name: (one.rounds, one.open) for name, one in found.items()} == {
            name: (one.rounds, one.open) for name, one in asked.items()
        }
    return done


def test_reading_verbs_take_the_folder_or_say_what_to_do(folder):
    lines = late(300, keys=KEYS)
    place, one = folder / "l", folder / "one.db"
    piped(lines, "--ledger", place, "--workers", 3)
    piped(lines, "--ledger", one)
    both = [
        json.loads(stream("report", "--ledger", of, "--json", "--sort", "name").stdout) for of in (place, one)
    ]
    for report in both:
        for field in ("path", "oldest", "warnings"):
            del report[field]
        del report["total"]["oldest"]
        for key in report["keys"]:
            del key["summary"]["oldest"]
    assert rounded(both[0]) == rounded(both[1])
    assert "580 events of 12 keys replayed, all as written" in stream("check", "--ledger", place).stdout
    told = json.loads(stream("doctor", "--ledger", place, "--json").stdout)
    assert [shard["integrity"] for shard in told["shards"]] == ["ok"] * 3
    for verb in (
        ["archive", "--keep", 1, "--into", folder / "a"],
        ["repair", "--into", folder / "a"],
        ["check", "--archive", folder / "a"],
        ["serve"],
    ):
        refused = stream(*verb, "--ledger", place)
        assert refused.exit_code == 2
        assert "is a folder of 3 shards: " in refused.stderr
    assert not (folder / "a").exists()


def rounded(found):
    """Sums of floats in another order differ in their last digits."""
    if isinstance(found, float):
        return float(f"{found:.9g}")
    if isinstance(found, list):
        return [rounded(one) for one in found]
    return {name: rounded(one) for name, one in found.items()} if isinstance(found, dict) else found


def test_a_damaged_shard_is_found_and_named(folder):
    piped(late(300, keys=KEYS), "--ledger", folder / "l", "--workers", 2)
    with open(folder / "l" / "1.db", "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    answer = stream("doctor", "--ledger", folder / "l")
    assert answer.exit_code == 1
    assert "WRONG: 1.db: " in answer.stdout
    assert piped(b"", "--ledger", folder / "l").returncode == 2


def test_the_table_of_a_folder_has_the_rows_of_all_shards(folder):
    polars = pytest.importorskip("polars")
    lines = late(300, keys=KEYS)
    piped(lines, "--ledger", folder / "l", "--workers", 3)
    piped(lines, "--ledger", folder / "one.db")
    tables = []
    for ledger in ("l", "one.db"):
        assert stream("export", "--ledger", folder / ledger, "--into", folder / "t").exit_code == 0
        table = polars.read_parquet(folder / "t")
        tables.append(table.drop("asked_number", "settled_number").sort("id"))
    assert tables[0].equals(tables[1])
