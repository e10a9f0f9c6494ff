"""`onlinecal stream --kafka`: a topic in, another one out, on a cluster in this process."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from functools import partial
from itertools import count
from operator import itemgetter
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

from onlinecal.engine import Engine, Outcome, Query, Settled, TopicAnswers, read_report
from tests.cli.stream.cluster import Cluster, kafka, place_of, stopped_after
from tests.cli.stream.events import expected, is_sound, late, lines_of, query, stream
from tests.commands import refused
from tests.engine.scripts import CONFIG, KINDS, script

NUMBERS = count()
QUICKLY_LOADED = tuple(kind for kind in KINDS if kind != "words")
"""Kinds of keys for which a process does not load scikit-learn."""


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(autouse=True)
def patience():
    """A command that does not end must fail, not wait for ever; and it leaves no logging behind."""
    handler, logger = signal.getsignal(signal.SIGTERM), logging.getLogger("onlinecal")
    before = logger.handlers, logger.propagate, logger.level

    def end():
        if signal.getsignal(signal.SIGTERM) is not handler:
            os.kill(os.getpid(), signal.SIGTERM)

    timer = threading.Timer(60, end)
    timer.start()
    yield
    timer.cancel()
    logger.handlers, logger.propagate = before[:2]
    logger.setLevel(before[2])


@pytest.fixture
def topics(cluster):
    """Two new topics: of events and of answers."""
    number = next(NUMBERS)
    names = f"events-{number}", f"answers-{number}"
    cluster.create(*names)
    return names


@pytest.fixture
def asked(cluster, topics, ledger):
    """The options that name all of them, and others."""
    events, answers = topics
    return "--ledger", ledger, "--kafka", cluster.address, "--topic", events, "--answers", answers


def answered(cluster, answers, count, asked, *more, number=signal.SIGTERM):
    """Run the command here until so many answers are there."""
    thread = stopped_after(cluster, answers, count, number)
    found = stream(*asked, *more)
    thread.join(10)
    assert not thread.is_alive()
    return found


def test_every_message_is_answered_as_the_same_line_is(cluster, topics, asked, ledger):
    events, answers = topics
    lines = late(300)
    values = [json.dumps(json.loads(line), indent=2).encode() for line in lines.splitlines()]
    cluster.send(events, [*values, None, b"no event"])
    told = answered(cluster, answers, 582, asked)
    assert told.exit_code == 0, told.stderr
    assert "events: 582 in" in told.stderr
    assert "300 forecast, 280 settled, 2 rejected; " in told.stderr
    assert "; all keys: 280 rounds, 20 open, certificate " in told.stderr
    got = {key: value for _, _, key, value in cluster.read(answers)}
    wanted = [json.loads(line) for line in expected(lines).splitlines()]
    assert len(got) == 582
    for one in wanted:
        assert json.loads(got.pop(f"{one['type']} {one['id']}".encode())) == one
    assert sorted(got) == [f"message {events}/0/{offset}".encode() for offset in (580, 581)]
    assert is_sound(ledger)


def test_it_goes_on_where_the_ledger_is_and_sends_nothing_twice(cluster, topics, asked, ledger):
    events, answers = topics
    lines = late(300).splitlines()
    for start in (0, 200, 400):
        cluster.send(events, lines[start : start + 200])
        told = answered(
            cluster, answers, min(start + 200, 580), asked, "--batch", 7, "--quiet", number=signal.SIGINT
        )
        assert (told.exit_code, told.stderr) == (130, "")
    assert cluster.end(answers) == 580
    with Engine(ledger) as engine:
        assert engine.noted(f"kafka/{events}/0").position == 580
        assert engine.kept() == []
        # a file's position is beside it
        assert len(engine.inputs()) == 4


def test_answers_to_an_id_are_in_one_partition_in_their_order(cluster, topics, asked):
    events, answers = topics
    cluster.send(events, late(200, delay=3).splitlines())
    answered(cluster, answers, 397, asked, "--quiet", "--batch", 50)
    places, seen = {}, {}
    for partition, offset, key, _ in cluster.read(answers):
        kind, id = key.split()
        places.setdefault(id, set()).add(partition)
        seen.setdefault(id, []).append((offset, kind))
    assert {len(one) for one in places.values()} == {1}
    assert len(set.union(*places.values())) == 4
    assert {tuple(kind for _, kind in one) for one in seen.values()} == {
        (b"forecast",),
        (b"forecast", b"settled"),
    }


def test_what_a_killed_run_has_not_sent_is_sent_first(cluster, topics, asked, ledger):
    from onlinecal.engine import TopicFeed

    events, answers = topics
    lines = late(30).splitlines()
    cluster.send(events, lines)
    with Engine(ledger) as engine:
        feed = TopicFeed(engine, events, range(4))
        unsent = feed.handle([(0, offset, line) for offset, line in enumerate(lines[:20])])
    told = answered(cluster, answers, 40, asked, "--quiet")
    assert told.exit_code == 0, told.stderr
    got = sorted((key, value) for _, _, key, value in cluster.read(answers))
    wanted = [(f"{json.loads(one)['type']} {json.loads(one)['id']}".encode(), one) for one in
              expected(late(30)).splitlines()]  # fmt: skip
    assert got == sorted(wanted)
    assert set(unsent.messages) <= set(got)


def test_only_the_partitions_that_are_named_are_read(cluster, topics, asked, ledger):
    events, answers = topics
    for partition in range(4):
        cluster.send(events, lines_of([query(partition)]).splitlines(), partition)
    told = answered(cluster, answers, 2, asked, "--partitions", "1, 3", "--quiet")
    assert told.exit_code == 0, told.stderr
    assert {key for _, _, key, _ in cluster.read(answers)} == {b"forecast q1", b"forecast q3"}
    assert "got 0-3: leave the others out; or, if no other ledger counts them" in refused("stream", *asked)
    assert "belongs to partitions 1,3 of topic" in refused("stream", *asked, "--partitions", "1")
    told = answered(cluster, answers, 4, asked, "--partitions", "0-3", "--quiet")
    assert told.exit_code == 0, told.stderr
    assert cluster.end(answers) == 4


WRONG = [
    (["--topic", "nothing"], "there is no topic 'nothing' at 127.0.0.1:"),
    (["--answers", "nothing"], "there is no topic 'nothing' at 127.0.0.1:"),
    (["--partitions", "0-7"], "--partitions names 4, and topic 'events-"),
    (["--partitions", "3-0"], "--partitions must be numbers and ranges such as 0-3 or 0,2,4-7, got '3-0'"),
    (["--partitions", ""], "--partitions must be numbers and ranges"),
    (["--input", "a.jsonl"], "--kafka does not go with --input or --resume"),
    (["--kafka-config", "nowhere"], "nowhere"),
]


@pytest.mark.parametrize("more, words", WRONG)
def test_wrong_requests_are_told_in_words_before_a_ledger_is_made(asked, ledger, more, words):
    assert words in refused("stream", *asked, *more)
    assert not ledger.exists()


@pytest.mark.parametrize(
    "given, words",
    [
        ("--kafka x --topic a", "--kafka needs --answers, the topic of the answers"),
        ("--kafka x --answers a", "--kafka needs --topic, the topic of the events"),
        ("--kafka x --topic a --answers a", "--answers must be another topic than --topic, got 'a' for both"),
        ("--topic a", "--topic needs --kafka, the brokers"),
        ("--partitions 0", "--partitions needs --kafka, the brokers"),
        ("--kafka-config a", "--kafka-config needs --kafka, the brokers"),
    ],
)
def test_options_that_belong_together_are_asked_for(ledger, given, words):
    assert words in refused("stream", "--ledger", ledger, *given.split())


PROPERTIES = [
    ("no.such.property=1", 'No such configuration property: "no.such.property"'),
    ("linger.ms=soon", "Invalid value for configuration property"),
    ("sasl.jaas.config=x", "Java JAAS configuration is not supported"),
    ("# ours\n\nenable.auto.commit = true", "line 3: enable.auto.commit cannot be set: the ledger keeps"),
    ("bootstrap.servers=a:1", "line 1: bootstrap.servers cannot be set: --kafka names the brokers"),
    ("hello", "line 1: a property is written name=value, one a line"),
    ("a=1\na=2", "line 2: a is set a second time"),
]


@pytest.mark.parametrize("text, words", PROPERTIES)
def test_properties_that_cannot_be_are_told_in_words(asked, ledger, tmp_path, text, words):
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert words in refused("stream", *asked, "--kafka-config", file)
    assert not ledger.exists()


def test_properties_reach_the_client(asked, tmp_path, monkeypatch):
    from onlinecal.cli.stream import kafka as ours

    monkeypatch.setattr(ours, "PATIENCE", 1.0)
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol = SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=a=b\n"
    )
    assert "sasl_ssl://127.0.0.1" in refused("stream", *asked, "--kafka-config", file)


def test_a_cluster_that_does_not_answer_is_told(ledger, monkeypatch):
    from onlinecal.cli.stream import kafka as ours

    monkeypatch.setattr(ours, "PATIENCE", 0.5)
    asked = "--ledger", ledger, "--kafka", "127.0.0.1:1", "--topic", "a", "--answers", "b"
    words = refused("stream", *asked)
    assert "cannot connect to 127.0.0.1:1, which --kafka names: " in words
    assert not ledger.exists()


def test_why_a_broker_hangs_up_is_told_and_not_that_none_is_left(ledger, tmp_path, monkeypatch):
    from onlinecal.cli.stream import kafka as ours

    monkeypatch.setattr(ours, "PATIENCE", 1.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def hang_up():
            try:
                while True:
                    server.accept()[0].close()
            except OSError:
                pass

        threading.Thread(target=hang_up, daemon=True).start()
        asked = "--ledger", ledger, "--kafka", address, "--topic", "a", "--answers", "b"
        file = tmp_path / "client.properties"
        file.write_text("security.protocol=ssl\n")
        words = refused("stream", *asked, "--kafka-config", file)
        server.shutdown(socket.SHUT_RDWR)
    assert "SSL" in words
    assert "brokers are down" not in words
    assert "Check the address, and the security properties of --kafka-config" in words


def test_the_extra_is_asked_for_where_it_is_missing(ledger, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.delitem(sys.modules, "onlinecal.cli.stream.kafka", raising=False)
    words = refused("stream", "--ledger", ledger, "--kafka", "x", "--topic", "a", "--answers", "b")
    assert "confluent-kafka is not installed: in a checkout of onlinecal, pip install '.[kafka]'" in words


def test_a_position_beyond_the_end_is_of_another_topic(cluster, topics, asked, ledger):
    events, _ = topics
    cluster.send(events, [b"1", b"2"])
    with Engine(ledger) as engine:
        engine.handle([], inputs=[(f"kafka/{events}/{one}", 3 if one == 0 else 0) for one in range(4)])
    words = refused("stream", *asked)
    assert f"partition 0 of topic '{events}' ends with offset 2, and the ledger goes on from 3" in words


def test_a_ledger_of_another_cluster_is_refused(topics, asked, ledger):
    with Engine(ledger) as engine:
        noted = [(f"kafka/{topics[0]}/{one}", 0, b"far away") for one in range(4)]
        engine.handle([], inputs=noted)
    assert "cluster must be 'far away', got 'mockCluster" in refused("stream", *asked)


def test_what_was_deleted_is_told_and_a_new_ledger_begins_with_what_is_there(
    cluster, topics, asked, ledger, tmp_path
):
    events, answers = topics
    # a partition of this cluster has room for 5 MB
    cluster.send(events, [random.Random(i).randbytes(900_000) for i in range(9)])
    first, end = cluster.bounds(events, 0)
    assert 1 < first < end == 9
    noted = [(f"kafka/{events}/{one}", 1 if one == 0 else 0) for one in range(4)]
    with Engine(ledger) as engine:
        engine.handle([], inputs=noted)
    words = refused("stream", *asked)
    assert f"begins with offset {first} by now, and the ledger goes on from 1: what lies between" in words
    assert f'Engine(LEDGER).handle([], inputs=[("kafka/{events}/0", {first})])' in words
    with Engine(ledger) as engine:
        engine.handle([], inputs=[(f"kafka/{events}/0", first)])
    told = answered(cluster, answers, end - first, asked, "--quiet")
    assert told.exit_code == 0, told.stderr
    new = ["--ledger", tmp_path / "new.db", *asked[2:]]
    assert answered(cluster, answers, 2 * (end - first), new, "--quiet").exit_code == 0
    assert {json.loads(value)["reason"] for *_, value in cluster.read(answers)} == {"malformed"}


def test_what_is_deleted_while_it_is_read_ends_it_in_words(cluster, topics):
    from onlinecal.cli.stream.kafka import Reader

    events, _ = topics
    cluster.send(events, [b"1"])
    with Reader(cluster.address, events, {}) as reader:
        reader._consumer.assign([kafka.TopicPartition(events, 0, 70)])
        with pytest.raises(OSError, match=f"partition 0 of topic '{events}' no longer has the offset"):
            # it waits for a while at a time
            list(iter(partial(reader.take, 10), None))


def test_ends_of_partitions_are_met_and_lag_is_what_lies_before_them(cluster, topics):
    from onlinecal.cli.stream.kafka import Reader

    events, _ = topics
    cluster.send(events, [b"%d" % one for one in range(50)])
    with Reader(cluster.address, events, {}) as reader:
        reader.begin({0: 10, 1: 0})
        found, ends = [], {}
        while ends.keys() != {0, 1}:
            messages, met = reader.take(3)
            found += messages
            ends |= met
        assert found == [(0, one, b"%d" % one) for one in range(10, 50)]
        assert ends == {0: 50, 1: 0}
        assert reader.ends() == {0: 50, 1: 0}
        assert reader.lag({0: 20, 1: 0}) == 30


def test_answers_that_cannot_be_delivered_end_it_and_stay_in_the_ledger(cluster, topics):
    from onlinecal.cli.stream.kafka import Writer

    _, answers = topics
    with Writer(cluster.address, answers, 1000, {}) as writer:
        answers = TopicAnswers(1, 100 * [(b"settled q", b"{}")], [Settled(f"q{one}") for one in range(100)])
        assert writer.send(answers, None)
        with pytest.raises(OSError, match=r"answers cannot be delivered to topic 'answers-.*start again"):
            writer.wait(None)


def test_a_stop_does_not_wait_for_a_cluster_that_is_gone(monkeypatch):
    from onlinecal.cli.stream import kafka as ours

    monkeypatch.setattr(ours, "PATIENCE", 0.3)
    cluster = Cluster()
    cluster.create("answers")
    with ours.Writer(cluster.address, "answers", 4, {}) as writer:
        writer.send(settled("q1"), None)
        assert writer.wait(stop=None)
        cluster.close()
        del cluster
        writer.send(settled("q2"), None)
        began = time.monotonic()
        assert not writer.wait(stop=True)
        assert time.monotonic() - began < 5.0


def settled(id):
    return TopicAnswers(1, [(f"settled {id}".encode(), b"{}")], [Settled(id)])


def test_more_answers_than_the_client_has_room_for_are_sent_all_the_same(
    cluster, topics, asked, ledger, monkeypatch
):
    from onlinecal.cli.stream import kafka as ours

    monkeypatch.setitem(ours.WRITING, "queue.buffering.max.messages", 10)
    events, answers = topics
    cluster.send(events, late(100).splitlines())
    assert answered(cluster, answers, 180, asked, "--quiet").exit_code == 0
    assert cluster.end(answers) == 180
    # where there is no cluster any more, a stop does not wait for room
    monkeypatch.setattr(ours, "PATIENCE", 0.3)
    gone = Cluster()
    gone.create("answers")
    with ours.Writer(gone.address, "answers", 4, {}) as writer:
        gone.close()
        del gone
        full = TopicAnswers(1, 100 * [(b"settled q", b"{}")], 100 * [Settled("q")])
        assert not writer.send(full, True)


def rounds_of(ledger):
    """Every forecast with its outcome, by id: what does not depend on the order of different keys."""
    told = (
        "SELECT q.id, k.name, q.hint, q.time, q.probability, q.certificate, c.value, c.time FROM queries AS q"
        " JOIN keys AS k ON k.number = q.key LEFT JOIN closings AS c ON c.query = q.number ORDER BY 1"
    )
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        return connection.execute(told).fetchall()


SAYING_WHEN_SIGNALS_ARE_HEARD = """
import sys
from onlinecal.cli.stream import kafka

enter = kafka.Stop.__enter__

def enter_and_say(stop):
    print("signals are heard", file=sys.stderr, flush=True)
    return enter(stop)

kafka.Stop.__enter__ = enter_and_say
"""


def killed(cluster, topics, ledger, kills, rng):
    """Kill the command again and again, at its start and at work, then let one come to its end."""
    events, answers = topics
    code = (
        "from onlinecal.engine.engine import Engine\n"
        "from onlinecal.simulations.cli.console import main\n"
        "Engine.__init__.__kwdefaults__['states_behind'] = 300\n"
        f"{SAYING_WHEN_SIGNALS_ARE_HEARD}"
        "main()\n"
    )
    for number in range(kills + 1):
        command = [sys.executable, "-c", code, "stream", "--ledger", ledger, "--kafka", cluster.address]
        command += ["--topic", events, "--answers", answers, "--partitions", "0-1", "--quiet"]
        command += ["--batch", rng.randint(1, 40), "--hot-keys", 4]
        before = cluster.end(answers)
        with subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True) as process:
            if number < kills:
                while process.poll() is None and rng.random() < 0.98 and cluster.end(answers) == before:
                    time.sleep(0.05)
                time.sleep(rng.random() ** 2 * 0.3)
                process.kill()
            else:
                # all may have been answered before: then it is stopped as soon as it can hear that
                while (said := process.stderr.readline()) and said != "signals are heard\n":
                    pass
                yield process
                process.terminate()
            _, said = process.communicate()
        assert process.returncode == (0 if number == kills else -signal.SIGKILL), said


def with_early_outcomes(events, rng):
    """The events, a tenth of whose outcomes come right before their queries."""
    first = {one["id"]: i for i, one in reversed([*enumerate(events)]) if one["type"] == "query"}
    early = {i for i, one in enumerate(events) if one["type"] == "outcome" and rng.random() < 0.1}
    places = [(first[one["id"]] - 0.5 if i in early else i, one) for i, one in enumerate(events)]
    return [one for _, one in sorted(places, key=itemgetter(0))]


OF_ALL_KINDS = [
    pytest.param(kills, park, KINDS, marks=pytest.mark.slow) for kills in (1, 100) for park in (0, 100_000)
]


@pytest.mark.parametrize("kills, park, kinds", [(1, 100_000, QUICKLY_LOADED), *OF_ALL_KINDS])
def test_a_command_that_is_killed_answers_all_and_counts_once(
    cluster, topics, ledger, tmp_path, kills, park, kinds
):
    """By id and type every answer is there, as an undisturbed engine gives it, and none is another one."""
    events, answers = topics
    matches = tuple(one for one in CONFIG.matches if one.pattern.removesuffix("/*") in kinds)
    config = replace(CONFIG, matches=matches, park=park)
    given = script(kills, 200 + 60 * kills, 24, kinds)
    if park:
        given = with_early_outcomes(given, random.Random(kills))
    lines = [json.dumps(one).encode() for one in given]
    keys = {one["id"]: one["key"] for one in given if "key" in one}
    cluster.send(events, lines, place_of(keys))
    Engine(ledger, config).close()
    with Engine(tmp_path / "undisturbed.db", config) as engine:
        wanted = {(f"{one['type']} {one['id']}", line) for line in
                  engine.handle_lines(b"\n".join(lines)).splitlines()
                  for one in [json.loads(line)]}  # fmt: skip
        total, parked = engine.total(), engine.overview().parking
    assert bool(parked.parked) == bool(park)
    for _ in killed(cluster, topics, ledger, kills, random.Random(kills)):
        end = time.monotonic() + 120.0
        while {(key.decode(), value) for _, _, key, value in cluster.read(answers)} != wanted:
            assert time.monotonic() < end
            time.sleep(0.2)
    assert cluster.end(answers) >= len(wanted)
    assert rounds_of(ledger) == rounds_of(tmp_path / "undisturbed.db")
    found = read_report(ledger).total
    assert (found.rounds, found.open, found.expired) == (total.rounds, total.open, total.expired)
    assert found.certificate == pytest.approx(total.certificate, rel=1e-12)
    assert is_sound(ledger)
    with Engine(ledger) as engine:
        assert engine.kept() == []
        assert engine.overview().parking == parked
        assert sum(one.position for one in engine.inputs()) == len(lines)
        # nothing is there that the same events would change
        assert engine.handle([Query("new", "plain/0"), Outcome("new", 1)])[1].id == "new"


def asked_of(address, path):
    """What a server answers, as soon as it is there."""
    end = time.monotonic() + 60.0
    while True:
        try:
            with urlopen(f"http://{address}{path}", timeout=30) as answer:
                return answer.read().decode()
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_position_lag_and_what_is_parked_are_in_metrics(cluster, topics, asked):
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    events, answers = topics
    address, found = f"127.0.0.1:{free_port()}", {}
    cluster.send(events, [*late(30).splitlines(), b'{"type": "outcome", "id": "early", "value": 1}'])

    def look():
        cluster.wait(answers, 41)
        end = time.monotonic() + 30.0
        while 'onlinecal_topic_lag{partition="' not in found.get("metrics", "") and time.monotonic() < end:
            found["metrics"] = asked_of(address, "/metrics")
            time.sleep(0.3)
        found["watch"] = json.loads(asked_of(address, "/watch"))
        cluster.send(answers, [b"enough"])

    thread = threading.Thread(target=look)
    thread.start()
    told = answered(cluster, answers, 42, asked, "--http", address, "--park", "100", "--quiet")
    thread.join()
    assert (told.exit_code, told.stderr.count("listening on http://127.0.0.1:")) == (0, 1)
    for line in (
        f'onlinecal_topic_position{{partition="{events}/0"}} 41.0',
        f'onlinecal_topic_lag{{partition="{events}/0"}} 0.0',
        f'onlinecal_topic_position{{partition="{events}/3"}} 0.0',
        "onlinecal_parked_outcomes 1.0",
        "onlinecal_parked_total 1.0",
    ):
        assert line in found["metrics"].splitlines()
    places = [(one["partition"], one["position"]) for one in found["watch"]["topics"]]
    assert places == [(0, 41), (1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize(
    "address, words",
    [
        ("8765", "--http must be HOST:PORT, such as 127.0.0.1:8765, got '8765'"),
        ("localhost:http", "--http must be HOST:PORT"),
        ("0.0.0.0:8765", "host '0.0.0.0' can be reached from other machines, so a token is needed"),
    ],
)
def test_addresses_that_cannot_be_are_told(asked, ledger, address, words, monkeypatch):
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    monkeypatch.delenv("ONLINECAL_TOKEN", raising=False)
    assert words in refused("stream", *asked, "--http", address)
    assert not ledger.exists()


def test_a_port_that_is_taken_ends_it(asked):
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1 port {port}: " in refused(
            "stream", *asked, "--http", f"127.0.0.1:{port}", "--quiet"
        )


def test_outcomes_of_another_partition_wait_for_their_queries(cluster, topics, asked, ledger):
    """A topic that is not partitioned by key, read as a backlog: outcomes come before their queries."""
    events, answers = topics
    lines = late(400, delay=2).splitlines()
    cluster.send(events, [line for line in lines if b"outcome" in line], 0)
    cluster.send(events, [line for line in lines if b"query" in line], 1)
    with Engine() as engine:
        # partition by partition
        alone = engine.handle_lines(b"\n".join(sorted(lines, key=lambda line: b"query" in line)))
    assert alone.count(b'"unknown"') == 398
    told = answered(cluster, answers, 798, asked, "--park", "10000", "--quiet", "--batch", "100")
    assert told.exit_code == 0, told.stderr
    kinds = Counter(json.loads(value)["type"] for *_, value in cluster.read(answers))
    assert kinds["forecast"] == 400
    assert kinds["parked"] + kinds["settled"] == 398
    total = read_report(ledger).total
    assert (total.rounds, total.open) == (398, 2)
    assert is_sound(ledger)
