"""A topic beside a file of the same lines: events a second from the first answers to the last ones."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.stream.cluster import Cluster
from tests.engine.load import command, write_load

QUERIES = 100_000
"""A partition of the cluster in memory holds 5 MB, packed; these are half of it."""
ROUNDS = 5


def rate(size, wanted, lines, process):
    """Events a second, by how the answers grow until there are as many as wanted.

    And per second of the processor that the process's first thread has used.
    """
    first = None
    while True:
        there = size()
        if there and first is None:
            first = there, time.perf_counter(), used(process)
        if there >= wanted:
            done = lines * (1.0 - first[0] / wanted)
            return done / (time.perf_counter() - first[1]), done / (used(process) - first[2])
        if process.poll() is not None and size() < wanted:
            pytest.fail("it ended before all was answered")
        time.sleep(0.01)


def used(process):
    """Seconds of the processor of a process's first thread."""
    ticks = Path(f"/proc/{process.pid}/task/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.mark.parametrize("keys", [100, 10_000])
def test_a_topic_is_answered_about_as_fast_as_a_file(cluster, tmp_path, note, keys):
    source, out = tmp_path / "load.jsonl", tmp_path / "out.jsonl"
    write_load(source, QUERIES, keys)
    lines = source.read_bytes().splitlines()
    cluster.create("events")
    cluster.send("events", lines)
    assert cluster.bounds("events", 0) == (0, len(lines))

    def from_file(number):
        asked = command(tmp_path / f"file{number}.db", "--input", source, "--resume")
        with open(out, "wb") as answers, subprocess.Popen(asked, stdout=answers) as process:
            return rate(lambda: out.stat().st_size, wanted, len(lines), process)

    def from_topic(number):
        topic = f"answers{number}"
        cluster.create(topic)
        options = "--kafka", cluster.address, "--topic", "events", "--answers", topic, "--partitions", 0
        asked = command(tmp_path / f"topic{number}.db", *options)
        with subprocess.Popen(asked) as process:
            found = rate(lambda: cluster.end(topic), len(lines), len(lines), process)
            process.send_signal(signal.SIGTERM)
        assert process.returncode == 0
        return found

    with open(out, "wb") as answers:
        subprocess.run(command(tmp_path / "first.db", "--input", source), stdout=answers, check=True)
    wanted = out.stat().st_size
    rates = [(from_file(number), from_topic(number)) for number in range(ROUNDS)]
    files, topics = ([max(some) for some in zip(*one, strict=True)] for one in zip(*rates, strict=True))
    ratios = [topic / file for topic, file in zip(topics, files, strict=True)]
    note(
        f"{keys:,} keys: {files[0]:9,.0f} events/s from a file, {topics[0]:9,.0f} from a topic, "
        f"{ratios[0]:.2f} of it; by the processor {ratios[1]:.2f}; load average {os.getloadavg()[0]:.1f}"
    )
    assert ratios[0] >= 0.8
