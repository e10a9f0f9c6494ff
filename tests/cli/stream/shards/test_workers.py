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
from onlinecal.engine import Engine, EngineConfig, check_ledger, read_report
from tests.cli.stream.events import append, expected, late, lines_of, outcome, piped, query, started, stream
from tests.engine.scripts import CONFIG, CONFIG_TOML, script
from tests.engine.scripts import lines_of as script_lines

KEYS = 12
"""Enough that three shards have some each."""


def summaries(folder):
    """Of each key, over all shards, each of which is sound."""
    found = {}
    for shard in shards_of(folder):
        assert check_ledger(shard).problems == []
        found |= {key.name: key.summary for key in read_report(shard).keys}
    return found


def essence(found):
    """What does not depend on the numbers of events."""
    return {name: (one.rounds, one.open, one.expired, one.certificate) for name, one in found.items()}


def test_answers_are_those_of_one_engine_in_the_order_of_the_events(folder):
    lines = late(400, keys=KEYS) + b"no event\n\n" + lines_of([outcome(7), outcome(7, value=7), {"id": "x"}])
    answer = piped(lines, "--ledger", folder / "l", "--workers", 2, "--batch", 37)
    assert answer.returncode == 0
    assert answer.stdout == expected(lines)
    assert len(shards_of(folder / "l")) == 2
    assert b"; 400 forecast, 381 settled, 4 rejected; all keys: 380 rounds, 20 open" in answer.stderr


def test_every_kind_of_key_answers_as_in_one_engine_and_again(folder):
    # most outcomes are without keys: all shards are asked for the id, and one has it
    (folder / "keys.toml").write_text(CONFIG_TOML)
    lines = b"\n".join(script_lines(script(3, 600))) + b"\n"
    (folder / "events.jsonl").write_bytes(lines)
    with Engine(folder / "one.db", CONFIG) as engine:
        answers = engine.handle_lines(lines)
    options = ["--ledger", folder / "l", "--input", folder / "events.jsonl", "--hot-keys", 4, "--quiet"]
    first = stream(*options, "--config", folder / "keys.toml", "--workers", 2, "--batch", 64)
    assert (first.exit_code, first.stderr, first.stdout_bytes) == (0, "", answers)
    assert stream(*options).stdout_bytes == answers
    one = {key.name: key.summary for key in read_report(folder / "one.db").keys}
    assert essence(summaries(folder / "l")) == essence(one)


def test_an_answer_does_not_wait_for_more_events_and_the_folder_has_one_writer(folder):
    (folder / "none.jsonl").touch()
    with started("--ledger", folder / "l", "--workers", 2) as process:
        for number in range(6):
            process.stdin.write(lines_of([query(number), outcome(number)]))
            process.stdout.readline()
            assert json.loads(process.stdout.readline())["type"] == "settled"
        second = stream("--ledger", folder / "l", "--input", folder / "none.jsonl")
        assert second.exit_code == 2
        assert "another process writes to this ledger" in second.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_an_outcome_that_all_shards_are_asked_about_is_answered_and_logged_once(folder):
    lines = late(30, keys=KEYS) + lines_of([outcome(99), {"type": "withdraw", "id": "nobody's"}])
    answer = piped(lines, "--ledger", folder / "l", "--workers", 2, "--log-json")
    assert answer.stdout == expected(lines)
    told = [json.loads(line) for line in answer.stderr.splitlines()]
    assert [one["id"] for one in told] == ["q99", "nobody's"]


@pytest.mark.parametrize(
    "text", ["", '{"shards": 0, "config": {}}', '{"shards": 2, "config": {}, "hash": "md5"}']
)
def test_a_damaged_manifest_is_refused(folder, text):
    (folder / "shards.json").write_text(text)
    for verb in ([], ["report"], ["check"]):
        refused = stream(*verb, "--ledger", folder)
        assert refused.exit_code == 2
        assert "shards.json: cannot be read" in refused.stderr


def test_another_configuration_is_refused_and_a_shard_that_is_missing_gets_the_first(folder):
    (folder / "keys.toml").write_text("lanes = 3\n")
    (folder / "other.toml").write_text("lanes = 4\n")
    (folder / "events.jsonl").write_bytes(late(60, keys=KEYS))
    place = folder / "l"
    options = ["--ledger", place, "--input", folder / "events.jsonl"]
    answers = stream(*options, "--workers", 2, "--config", folder / "keys.toml").stdout_bytes
    assert answers.count(b"\n") == 100
    refused = stream(*options, "--config", folder / "other.toml")
    assert refused.exit_code == 2
    assert "were made with another configuration" in refused.stderr
    # as if the first run had been killed before it made this one
    (place / "1.db").unlink()
    assert stream(*options).stdout_bytes == answers


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


def test_when_nobody_reads_the_answers_the_command_ends_and_says_so(folder):
    (folder / "events.jsonl").write_bytes(late(5_000, keys=KEYS))
    options = ["--ledger", folder / "l", "--workers", 2, "--input", folder / "events.jsonl", "--batch", 20]
    with started(*options) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert b"nobody reads the answers any more" in process.stderr.read()
    assert 0 < sum(read_report(shard).events for shard in shards_of(folder / "l")) < 9_980


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


def killed_somewhere(folder, options, answers, seed, kills):
    """Kill the command or one of its workers again and again, then let the same input come to its end."""
    rng, killed, place = random.Random(seed), 0, folder / f"l{seed}"
    options = ["--ledger", place, "--input", folder / "events.jsonl", "--quiet", *options]
    while killed < kills:
        at_work = rng.random() < 0.8
        with (
            open(folder / "out", "wb") as out,
            started(*options, "--batch", rng.choice([7, 60, 500]), stdout=out, stdin=None) as process,
        ):
            while at_work and process.poll() is None and not (folder / "out").stat().st_size:
                time.sleep(0.005)
            time.sleep(rng.random() ** 2 * 0.5)
            if process.poll() is None:
                os.kill(rng.choice([process.pid, *workers_of(process)]), signal.SIGKILL)
            code, told = process.wait(120), process.stderr.read()
        killed += code != 0
        # a line may be torn where the command itself was killed
        done = (folder / "out").read_bytes()
        assert answers.startswith(done)
        assert code in (0, 2, -signal.SIGKILL)
        if code == 2:
            assert b"was killed by SIGKILL" in told
            assert not done or done.endswith(b"\n")
    last = stream(*options)
    assert (last.exit_code, last.stderr) == (0, "")
    assert last.stdout_bytes == answers
    return essence(summaries(place))


def kill_and_compare(folder, lines, config, options, seeds, kills):
    (folder / "events.jsonl").write_bytes(lines)
    with Engine(folder / "one.db", config) as engine:
        answers = engine.handle_lines(lines)
    one = {key.name: key.summary for key in read_report(folder / "one.db").keys}
    for seed in range(seeds):
        # every outcome counts once
        assert killed_somewhere(folder, options, answers, seed, kills) == essence(one)


def test_whoever_is_killed_the_same_input_brings_the_same_answers(folder):
    options = ["--workers", 2, "--hot-keys", 4]
    kill_and_compare(folder, late(3_000, keys=KEYS), EngineConfig(), options, seeds=1, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_whoever_is_killed_two_hundred_times_the_same_input_brings_the_same_answers(folder):
    (folder / "keys.toml").write_text(CONFIG_TOML)
    lines = b"\n".join(script_lines(script(5, 4_000))) + b"\n"
    options = ["--workers", 3, "--hot-keys", 4, "--config", folder / "keys.toml"]
    kill_and_compare(folder, lines, CONFIG, options, seeds=10, kills=20)
