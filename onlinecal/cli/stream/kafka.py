"""The verb `stream` with `--kafka`: events of a topic in, answers to another one. Needs the extra `kafka`.

Offsets, and answers that are not known to have arrived, are in the ledger (engine/topics.py). So the broker
keeps nothing of this reader: partitions are assigned, and offsets never committed.

At a start, answers that may not have arrived are sent again. Then, over and over (`answer_topic`): messages
are taken from the reader, the feed answers them and commits, the answers of the batch before must have
arrived, and those of this batch are sent. So from then on the answers of at most one batch are on their way,
and the feed is told that they have arrived before it is told of later ones. Reader and writer keep nothing
that a restart needs. All of it runs in one thread, in which confluent-kafka calls back, too; the server of
--http has another. Which partition of the answers an id goes to (`Writer.send`) must stay, since answers to
one id are in order only within a partition.
"""

from __future__ import annotations

import gc
import logging
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from zlib import crc32

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from onlinecal.cli.stream.configuring import wanted_config
from onlinecal.cli.stream.inputs import Stop
from onlinecal.cli.stream.loop import GARBAGE, Progress
from onlinecal.cli.stream.serve import Beside
from onlinecal.cli.verbs import EXIT_DONE, EXIT_INTERRUPTED
from onlinecal.compiling import counting
from onlinecal.engine.engine import Engine
from onlinecal.engine.topics import Message, TopicAnswers, TopicFeed, ranges
from onlinecal.engine.watch.overview import RateLimit

PATIENCE = 10.0
"""Seconds in which a broker must answer at the start, and in which answers must arrive at the end."""

ENDS_FRESH_FOR = 1.0
"""Seconds after which the reader looks again where partitions end."""

WAIT = 0.2
"""Seconds of one wait. Between two waits the loop looks whether a signal has come."""

OURS = {
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), "--kafka names the brokers"),
    **dict.fromkeys(
        ("enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store", "auto.offset.reset"),
        "the ledger keeps the offsets",
    ),
    "transactional.id": "the ledger keeps the answers until they have arrived",
    **dict.fromkeys(
        ("acks", "request.required.acks", "delivery.report.only.error", "enable.partition.eof"),
        "what is promised rests on it",
    ),
}
"""Properties that a file cannot set, and why."""

READING = {
    "group.id": "onlinecal",
    "queued.max.messages.kbytes": 16_384,
    # by default the reader pauses for a second where it is ahead
    "fetch.queue.backoff.ms": 20,
}
WRITING = {"enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
"""Properties that a file may set otherwise."""

NEVER_BY_GROUP = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}

LOST = KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE

logger = logging.getLogger("onlinecal.engine.kafka")
logger.addFilter(RateLimit())


def run(
    ledger: Path,
    brokers: str,
    topic: str,
    answers: str,
    config: Path | None,
    *,
    park: int | None,
    partitions: str | None,
    http: str | None,
    properties: Path | None,
    most: int,
    hot_keys: int,
    quiet: bool,
) -> int:
    """Answer a topic until a signal; the exit code.

    Raises ValueError for a request that cannot be, and OSError where Kafka does not do what it has to.
    """
    settings = wanted_config(ledger, config, park)
    wanted = None if partitions is None else numbers_of(partitions)
    given = {} if properties is None else read_properties(properties)
    beside = None if http is None else Beside(http)
    gc.set_threshold(*GARBAGE)
    with Stop() as stop, words_of_kafka(brokers), Reader(brokers, topic, given) as reader:
        numbers = reader.partitions_of(topic, wanted)
        width = len(reader.partitions_of(answers))
        with (
            counting() as compiled,
            Engine(ledger, settings, hot_keys=hot_keys) as engine,
            Writer(brokers, answers, width, given) as writer,
        ):
            feed = TopicFeed(engine, topic, numbers, cluster=reader.cluster, grow=wanted is not None)
            reader.begin(feed.positions)
            watch = Progress(engine, quiet, lambda: f", {reader.lag(feed.positions):,} messages behind")
            with nullcontext() if beside is None else beside.served(engine, ledger):
                answer_topic(feed, reader, writer, watch, most, stop)
        watch.summarise(ledger, [compiled.notice or ""])
    return EXIT_INTERRUPTED if stop.signal == signal.SIGINT else EXIT_DONE


def answer_topic(
    feed: TopicFeed, reader: Reader, writer: Writer, watch: Progress, most: int, stop: Stop
) -> None:
    """Answer what comes until a signal; answers of a batch are on their way while the next one is judged."""
    under_way: TopicAnswers | None = None
    for answers in feed.unsent():
        if not writer.send(answers, stop):
            return
        under_way = answers
    due = 0.0
    while not stop:
        messages, ends = reader.take(most)
        if time.monotonic() > due:
            feed.note_ends(reader.ends())
            due = time.monotonic() + ENDS_FRESH_FOR
        if messages or any(offset > feed.positions[partition] for partition, offset in ends.items()):
            answers = feed.handle(messages, ends=ends)
            watch.count(Counter(map(type, answers.answers)))
            if under_way is not None:
                if not writer.wait(stop):
                    return
                feed.sent(under_way)
            if not writer.send(answers, stop):
                return
            under_way = answers
        elif under_way is not None and writer.has_sent_all():
            feed.sent(under_way)
            under_way = None
    if under_way is not None and writer.wait(stop):
        feed.sent(under_way)


class Reader:
    """Reads some partitions of a topic; a context, which closes the connection."""

    def __init__(self, brokers: str, topic: str, given: Mapping[str, str]) -> None:
        self._brokers, self._topic, self._trouble, self._reads = brokers, topic, "", False
        properties = {**READING, **given, **NEVER_BY_GROUP, "error_cb": self._note}
        self._consumer = made(Consumer, brokers, properties)
        self.cluster: str | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _note(self, error: KafkaError) -> None:
        # that no broker is left comes after what one of them said, which is the cause
        if not self._trouble or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._trouble = error.str()
        if self._reads:
            logger.warning("Kafka: %s", error.str())

    def partitions_of(self, topic: str, wanted: list[int] | None = None) -> list[int]:
        """The numbers of a topic's partitions, or the wanted ones if all of them are there.

        ValueError if the topic or one of them is not there, OSError if no broker can be asked.
        """
        try:
            about = self._consumer.list_topics(topic, timeout=PATIENCE)
        except KafkaException as error:
            # why a connection failed is told by a call
            self._consumer.poll(0.0)
            why = self._trouble or text_of(error)
            raise OSError(
                f"cannot connect to {self._brokers}, which --kafka names: {why}. Check the address, and the "
                "security properties of --kafka-config"
            ) from error
        self.cluster, metadata = about.cluster_id or None, about.topics[topic]
        if metadata.error is not None:
            if metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise ValueError(f"there is no topic {topic!r} at {self._brokers}: create it first")
            raise OSError(f"topic {topic!r} cannot be used: {metadata.error.str()}")
        numbers = sorted(metadata.partitions)
        for number in wanted or ():
            if number not in numbers:
                raise ValueError(
                    f"--partitions names {number}, and topic {topic!r} has only {ranges(numbers)}: name some "
                    "of these"
                )
        return wanted or numbers

    def begin(self, positions: Mapping[int, int]) -> None:
        """Read from these positions on; ValueError if one of them is not in its partition."""
        for number, position in positions.items():
            place = TopicPartition(self._topic, number)
            first, end = self._consumer.get_watermark_offsets(place, timeout=PATIENCE)
            where = f"partition {number} of topic {self._topic!r}"
            if position and position < first:
                raise ValueError(
                    f"{where} begins with offset {first} by now, and the ledger goes on from {position}: "
                    "what lies between was deleted, and was not answered. To go on without it: "
                    f'Engine(LEDGER).handle([], inputs=[("kafka/{self._topic}/{number}", {first})])'
                )
            if position > end:
                raise ValueError(
                    f"{where} ends with offset {end}, and the ledger goes on from {position}: the topic was "
                    "deleted and made anew, or is another one. Begin a new ledger for it"
                )
        self._reads = True
        self._consumer.assign(
            [
                TopicPartition(self._topic, number, position or OFFSET_BEGINNING)
                for number, position in positions.items()
            ]
        )

    def take(self, most: int) -> tuple[list[Message], dict[int, int]]:
        """At most so many messages, those that are there; and the offsets of the ends that were met.

        Waits for a short while if there are none.
        """
        first = self._consumer.poll(WAIT)
        if first is None:
            return [], {}
        records = [first]
        if most > 1:
            records += self._consumer.consume(most - 1, 0.0)
        messages, ends = list[Message](), dict[int, int]()
        for record in records:
            # a record that has an error is no message
            error = record.error()
            if error is None:
                messages.append((record.partition(), record.offset(), record.value()))
                continue
            if error.code() in LOST:
                raise OSError(
                    f"partition {record.partition()} of topic {self._topic!r} no longer has the offset from "
                    f"which the ledger goes on ({error.str()}): start the command again, and its error will "
                    "say what to do"
                )
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            ends[record.partition()] = record.offset()
        return messages, ends

    def lag(self, positions: Mapping[int, int]) -> int:
        """How many offsets lie between positions and the ends of the partitions, as they are known."""
        ends = self.ends()
        return sum(
            max(0, ends[number] - position) for number, position in positions.items() if number in ends
        )

    def ends(self) -> dict[int, int]:
        """Where the partitions that are read end, as far as that is known."""
        ends = dict[int, int]()
        for place in self._consumer.assignment():
            _, end = self._consumer.get_watermark_offsets(place, cached=True)
            if end >= 0:
                ends[place.partition] = end
        return ends


class Writer:
    """Sends answers to a topic with so many partitions; a context, which closes the connection.

    Answers to one id go to one partition, in their order.
    """

    def __init__(self, brokers: str, topic: str, width: int, given: Mapping[str, str]) -> None:
        self._topic, self._width, self._failed = topic, width, list[KafkaError]()
        self._until: float | None = None
        kept = {"delivery.report.only.error": True, "error_cb": lambda _: None}
        self._producer = made(Producer, brokers, {**WRITING, **given, **kept})

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.purge()
        self._producer.flush(WAIT)

    def _note(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed.append(error)

    def send(self, answers: TopicAnswers, stop: Stop) -> bool:
        """Send answers, which are on their way then; False if a stop could not wait until there was room."""
        produce, topic, width, note = self._producer.produce, self._topic, self._width, self._note
        ids = [answer.id for answer in answers.answers]
        for id, (key, value) in zip(ids, answers.messages, strict=True):
            partition = crc32(key if id is None else id.encode()) % width
            while True:
                try:
                    produce(topic, value, key, partition, note)
                    break
                except BufferError:
                    if self._is_over(stop):
                        return False
                    self._producer.poll(WAIT)
                    self._check()
        return True

    def has_sent_all(self) -> bool:
        """Whether everything has arrived; OSError if something cannot."""
        self._producer.poll(0.0)
        self._check()
        return len(self._producer) == 0

    def wait(self, stop: Stop) -> bool:
        """Wait until everything has arrived; False if it has not when there was time enough for a stop."""
        while not self.has_sent_all():
            if self._is_over(stop):
                return False
            self._producer.flush(WAIT)
        return True

    def _is_over(self, stop: Stop) -> bool:
        """Whether a stop has waited long enough."""
        if stop and self._until is None:
            self._until = time.monotonic() + PATIENCE
        return self._until is not None and time.monotonic() > self._until

    def _check(self) -> None:
        if self._failed:
            raise OSError(
                f"answers cannot be delivered to topic {self._topic!r}: {self._failed[0].str()}. They are in "
                "the ledger: start again when they can, and they are sent"
            )


@contextmanager
def words_of_kafka(brokers: str) -> Iterator[None]:
    """Turns errors of Kafka into OSErrors, in words."""
    try:
        yield
    except KafkaException as error:
        raise OSError(f"Kafka at {brokers}: {text_of(error)}") from error


def text_of(error: KafkaException) -> str:
    """What Kafka says of an error."""
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(cause)


def made(kind: Any, brokers: str, properties: Mapping[str, Any]) -> Any:
    """A consumer or a producer; ValueError for properties that it does not take."""
    # errors come by callbacks; what the library logs by itself is shown only if debug= asks for it
    logger.setLevel(logging.DEBUG if "debug" in properties else logging.WARNING)
    logger.addFilter(is_told)
    try:
        return kind({**properties, "bootstrap.servers": brokers}, logger=logger)
    except (KafkaException, TypeError, ValueError) as error:
        why = text_of(error) if isinstance(error, KafkaException) else str(error)
        names = "librdkafka's CONFIGURATION.md has the names and values"
        raise ValueError(f"--kafka-config: {why.rstrip('.')}: {names}") from error


def is_told(record: logging.LogRecord) -> bool:
    """Whether a line for the log is one of ours, or was asked for."""
    return str(record.msg).startswith("Kafka: ") or logger.level == logging.DEBUG


def read_properties(file: Path) -> dict[str, str]:
    """The properties in a file, lines of `name=value`; ValueError for what is none, or must not be set."""
    properties = dict[str, str]()
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--kafka-config: {file} is not text in UTF-8 ({error}); save it as UTF-8"
        ) from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not name:
            raise ValueError(f"{file}, line {number}: a property is written name=value, one a line")
        if name in OURS:
            raise ValueError(f"{file}, line {number}: {name} cannot be set: {OURS[name]}; remove the line")
        if name in properties:
            raise ValueError(f"{file}, line {number}: {name} is set a second time: remove one line")
        properties[name] = value
    return properties


def numbers_of(text: str) -> list[int]:
    """The partitions that `0-3,5` names; ValueError for what cannot be read."""
    numbers = set[int]()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f"--partitions must be numbers and ranges such as 0-3 or 0,2,4-7, got {text!r}")
        numbers.update(range(first, last + 1))
    return sorted(numbers)
