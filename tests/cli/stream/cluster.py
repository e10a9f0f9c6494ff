"""A cluster of Kafka for tests: librdkafka's own, in memory, whose topics have four partitions."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from zlib import crc32

import pytest

kafka = pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

PARTITIONS = 4


class Cluster:
    """A cluster in this process; it ends when nobody has this object any more."""

    def __init__(self):
        quiet = {"log_level": 0, "linger.ms": 5, "compression.type": "lz4"}
        self._brokers = kafka.Producer({**quiet, "test.mock.num.brokers": 1})
        brokers = self._brokers.list_topics(timeout=30).brokers.values()
        self.address = ",".join(f"{one.host}:{one.port}" for one in brokers)
        self.reader = kafka.Consumer(
            {"bootstrap.servers": self.address, "group.id": "tests", "enable.auto.commit": False}
        )

    def close(self):
        self.reader.close()
        del self.reader, self._brokers

    def create(self, *topics):
        for topic in topics:
            self._brokers.list_topics(topic, timeout=30)

    def send(self, topic, values, partition=0):
        """Send values to one partition, or to those that a function names."""
        for value in values:
            place = partition(value) if callable(partition) else partition
            while True:
                try:
                    self._brokers.produce(topic, value, partition=place)
                    break
                except BufferError:
                    self._brokers.poll(0.1)
        assert self._brokers.flush(60) == 0

    def end(self, topic, partition=None):
        """How many offsets a topic, or one of its partitions, has."""
        which = range(PARTITIONS) if partition is None else [partition]
        return sum(self.bounds(topic, one)[1] for one in which)

    def bounds(self, topic, partition):
        """The first offset of a partition, and its end."""
        return self.reader.get_watermark_offsets(kafka.TopicPartition(topic, partition), timeout=30)

    def read(self, topic):
        """All messages of a topic: (partition, key, value), partition by partition."""
        places = [kafka.TopicPartition(topic, one, kafka.OFFSET_BEGINNING) for one in range(PARTITIONS)]
        self.reader.assign(places)
        found, wanted = [], self.end(topic)
        while len(found) < wanted:
            found += self.reader.consume(min(10_000, wanted - len(found)), 30.0)
        self.reader.unassign()
        return sorted((one.partition(), one.offset(), one.key(), one.value()) for one in found)

    def wait(self, topic, count, seconds=120.0):
        """Wait until a topic has so many messages."""
        end = time.monotonic() + seconds
        while self.end(topic) < count:
            assert time.monotonic() < end, f"{self.end(topic)} of {count} messages came"
            time.sleep(0.02)


def place_of(keys):
    """The partition of a line, by the key of its id."""

    def place(line):
        return crc32(str(keys.get(json.loads(line)["id"])).encode()) % 2

    return place


def stopped_after(cluster, topic, count, number=signal.SIGTERM):
    """A thread that sends this process a signal when a topic has so many messages."""
    handler = signal.getsignal(number)

    def wait():
        cluster.wait(topic, count)
        # the command that is to be stopped has its own handler
        if signal.getsignal(number) is not handler:
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread
