"""Topics of events, as Kafka has them: where reading goes on, and answers until they have arrived.

An engine keeps the offsets of a topic in its ledger, in the transaction of the events, as it keeps positions
in files (`Engine.noted`). Beside them it keeps the answers until they are delivered. So whoever reads
messages and sends answers may be killed at any moment. Nothing here talks to a broker: the command
`onlinecal stream --kafka` does, with confluent-kafka, and so can any other client.

A client calls in this order: at the start `unsent`, whose answers it sends again; then, over and over, it
reads from `positions` on, calls `handle`, sends the answers, and says so with `sent`. A feed has one state of
its own, the positions. They begin where the ledger is; `handle` alone moves them, and only after the ledger
has committed them, so they are never ahead of it. A feed has no lock: one thread may call it, while others
ask the engine.

Two formats are kept in ledgers: the path of a partition (`_path`, which `partition_of` reads), and what
`_pack` makes of the answers of a batch (which `_unpacked` reads). Whoever changes one of them raises
STATE_FORMAT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import NoneType
from typing import NamedTuple, cast

import msgspec

from onlinecal.engine.engine import Engine
from onlinecal.engine.events import WORDS, Answer, Incoming, Rejected, decode_all, encode_lines
from onlinecal.engine.ledger.schema import TOPICS, UndeliveredAnswers, partition_of
from onlinecal.texts import shown
from onlinecal.validation import check_count, check_flag

EMPTY = Rejected(None, "malformed", "the message has no value: send events as JSON in the values of messages")
"""The refusal of a message without a value."""

Message = tuple[int, int, bytes | None]
"""A message: its partition, its offset and its value."""

_decode_answer = msgspec.json.Decoder(Answer).decode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, dict[int, str]]).decode


class TopicAnswers(NamedTuple):
    """The answers to a batch of messages, to be sent to a topic.

    Attributes
    ----------
    number
        The number of the batch: batches are numbered in their order.
    messages
        A pair (key, value) of bytes for each answer, in the order of the messages that were answered. The
        value is the answer as JSON. The key is its type and its id, such as `forecast q1`; where an event has
        no id that can be read, it is `message events/0/17`: topic, partition and offset of the message. So on
        a compacted topic a `settled` does not replace its `forecast`.
    answers
        The same answers as objects, in the same order.
    """

    number: int
    messages: list[tuple[bytes, bytes]]
    answers: list[Answer]


class TopicFeed:
    """Answers the messages of some partitions of a topic, as of Kafka, each once, whatever is killed.

    It talks to no broker: its caller reads the messages and sends the answers. At a start send what `unsent`
    returns, and say so by `sent`; then again and again read messages from `positions` on, `handle` them, send
    the answers, and say so by `sent`. A ledger belongs to the partitions that it is first fed from. A message
    is one event as JSON, as in a line of JSON, but line breaks may stand in it.

    Parameters
    ----------
    engine
        An `Engine`, which stays open. Without a ledger in a file it works, too, but then nothing outlives the
        process.
    topic
        The name of the topic, without a /.
    partitions
        The numbers of the partitions that this ledger is fed from; no other ledger may be fed from them.
    cluster
        The id of the Kafka cluster, a text; the same topic of another cluster is then refused. None: it is
        not compared.
    grow
        Whether `partitions` may have more than the ledger belongs to by now; it then belongs to all of them.
        It can never belong to fewer.

    Raises
    ------
    ValueError
        If the ledger belongs to other partitions, another topic, or another cluster; and for an argument that
        cannot be: no `Engine`, a topic that is empty or has a /, partitions that are none or below 0, a
        cluster that is no text.
    LedgerError
        If the ledger cannot be read, or the partitions cannot be noted in it.

    Examples
    --------
    >>> from onlinecal.engine import Engine, TopicFeed
    >>> engine = Engine()
    >>> feed = TopicFeed(engine, "events", partitions=[0])
    >>> feed.positions  # read partition 0 from here
    {0: 0}
    >>> answers = feed.handle([(0, 0, b'{"type": "query", "id": "q1", "key": "oslo"}')])
    >>> answers.messages[0][0]
    b'forecast q1'
    >>> feed.sent(answers)  # when they have been delivered
    >>> feed.positions
    {0: 1}
    >>> engine.close()
    """

    def __init__(
        self,
        engine: Engine,
        topic: str,
        partitions: Iterable[int],
        *,
        cluster: str | None = None,
        grow: bool = False,
    ) -> None:
        if not isinstance(engine, Engine):
            raise ValueError(f'engine must be an Engine, as Engine("ledger.db"), got {shown(engine)}')
        if not isinstance(topic, str) or not topic or "/" in topic:
            raise ValueError(f"topic must be the name of a topic, which has no /, got {shown(topic)}")
        if not isinstance(partitions, Iterable):
            raise ValueError(f"partitions must be a list of numbers, as [0, 1], got {shown(partitions)}")
        numbers = sorted({check_count(partition, "each of partitions", least=0) for partition in partitions})
        if not numbers:
            raise ValueError("partitions must name at least one partition, as [0], got none")
        if cluster is not None and not isinstance(cluster, str):
            raise ValueError(f"cluster must be the id of a cluster, a text, or None, got {shown(cluster)}")
        self.engine, self.topic = engine, topic
        self._mark = None if cluster is None else cluster.encode()
        known = self._known(numbers, check_flag(grow, "grow"))
        self._positions = {partition: known.get(partition, 0) for partition in numbers}
        if known.keys() != self._positions.keys():
            # from here on the ledger belongs to them
            engine.handle([], inputs=self._inputs(self._positions))

    def _known(self, numbers: list[int], grow: bool) -> dict[int, int]:
        """The offsets that the ledger has; ValueError if it belongs to others than these partitions."""
        known = dict[int, int]()
        for noted in self.engine.inputs():
            partition = partition_of(noted.path)
            if partition is None:
                continue
            topic, number = partition
            if topic != self.topic:
                raise ValueError(
                    f"topic must be {topic!r}, to which the ledger belongs, got {self.topic!r}: give each "
                    "topic a ledger of its own"
                )
            if self._mark is not None and noted.mark not in (None, self._mark):
                was = (noted.mark or b"").decode(errors="replace")
                raise ValueError(
                    f"cluster must be {was!r}, got {self._mark.decode()!r}: the ledger belongs to topic "
                    f"{topic!r} of cluster {was!r}. Read from that cluster, or begin a new ledger"
                )
            known[number] = noted.position
        belongs = f"the ledger belongs to partitions {ranges(known)} of topic {self.topic!r}, got"
        if not known.keys() <= set(numbers):
            raise ValueError(
                f"{belongs} {ranges(numbers)}: name all that it belongs to, or begin a new ledger for others"
            )
        if known and not grow and len(known) < len(numbers):
            raise ValueError(
                f"{belongs} {ranges(numbers)}: leave the others out; or, if no other ledger counts them, let "
                "this one grow (grow=True; on the command line name all of them by --partitions)"
            )
        return known

    def _inputs(self, positions: Mapping[int, int]) -> list[tuple[str, int, bytes | None]]:
        return [(self._path(partition), offset, self._mark) for partition, offset in positions.items()]

    def _path(self, partition: int) -> str:
        return f"{TOPICS}{self.topic}/{partition}"

    @property
    def positions(self) -> dict[int, int]:
        """Where to read on: for each partition, by its number, the offset of the next message.

        A new dict. 0 means the first message that is there. Only `handle` moves the positions.
        """
        return dict(self._positions)

    def handle(self, messages: Iterable[Message], *, ends: Mapping[int, int] | None = None) -> TopicAnswers:
        """Answer messages. The answers and how far was read are on disk when this returns.

        Returns a `TopicAnswers`, which has to be sent, and which `unsent` gives again until `sent` is called.
        Messages with offsets below `positions`, or behind a greater offset of their partition, count as
        answered before, and are left out: there are answers to the others only. A message that is no event is
        answered as rejected.

        Parameters
        ----------
        messages
            A triple (partition, offset, value) for each, those of a partition in the order of their offsets.
            The value is an event as bytes of JSON; None, a tombstone, is answered as rejected. Gaps between
            offsets are usual in compacted and transactional topics.
        ends
            A dict with an offset for each partition that was read to its end: `positions` then moves on to
            there. Records that are no messages may stand before the end. None: no partition was.

        Raises
        ------
        LedgerError
            If the ledger cannot be written; then nothing of the batch is kept, and `positions` stays.
        ValueError
            For a partition that is not of this feed, and for what is no such message or end; nothing is kept.
        """
        positions, new, read_to = self.positions, list[Message](), _offsets(ends or {})
        if not isinstance(messages, Iterable):
            raise no_message(messages)
        try:
            for message in messages:
                try:
                    partition, offset, _ = message
                    is_new = offset >= positions[partition]
                except (TypeError, ValueError):
                    raise no_message(message) from None
                if is_new:
                    positions[partition] = offset + 1
                    new.append(message)
            for partition, offset in read_to.items():
                positions[partition] = max(offset, positions[partition])
        except KeyError:
            raise ValueError(
                f"messages and ends must be of the partitions {ranges(positions)} of this feed, got one of "
                f"partition {partition!r}: leave it out, or name that partition when you make the feed"
            ) from None
        if not {type(value) for _, _, value in new} <= {bytes, NoneType}:
            raise no_message(next(message for message in new if type(message[2]) not in (bytes, NoneType)))
        moved = {
            partition: offset
            for partition, offset in positions.items()
            if offset != self._positions[partition]
        }
        # the engine calls `pack` once, and then knows the number
        without_number = list[TopicAnswers]()

        def pack(answers: list[Answer]) -> bytes:
            lines = encode_lines(answers)
            without_id = [i for i, answer in enumerate(answers) if answer.id is None]
            places = {i: f"{self.topic}/{new[i][0]}/{new[i][1]}" for i in without_id}
            without_number.append(TopicAnswers(0, _keyed(answers, lines, places), answers))
            return _pack((lines, places))

        kept = self.engine.handle_and_keep(_events_of(new), pack, inputs=self._inputs(moved))
        self._positions = positions
        return without_number[0]._replace(number=kept.number)

    def note_ends(self, ends: Mapping[int, int]) -> None:
        """Say where partitions end by now: `ends` is a dict with the offset of its end for each partition.

        Partitions are named by their numbers, and others than this feed's are passed over. Overviews, and
        /metrics over HTTP, then say how far the engine is behind. Nothing is read or moved by it, and it is
        kept in memory only. Raises ValueError unless each offset is a whole number of at least 0.
        """
        self.engine.note_ends({self._path(partition): end for partition, end in _offsets(ends).items()})

    def unsent(self) -> list[TopicAnswers]:
        """The answers that are not known to have been sent: a `TopicAnswers` a batch, the oldest first.

        Returns a list, which is empty if all were sent. A client sends them when it starts, and then says so
        with `sent`. Raises LedgerError if the ledger cannot be read.
        """
        return list(map(_unpacked, self.engine.kept()))

    def sent(self, answers: TopicAnswers) -> None:
        """Say that these answers, and those of all batches before them, have been delivered.

        `answers` is a `TopicAnswers` that `handle` or `unsent` returned. `unsent` leaves them out from now
        on; the ledger's file is written with the next batch, or when the engine is flushed or closed. To say
        it twice does no harm. Raises ValueError for anything that is no `TopicAnswers` of this ledger.
        """
        if not isinstance(answers, TopicAnswers):
            raise ValueError(
                f"answers must be a TopicAnswers, as handle and unsent return them, got {shown(answers)}"
            )
        self.engine.delivered(answers.number)


def no_message(value: object) -> ValueError:
    """The error for what is no message."""
    return ValueError(
        "messages must be a list of triples (partition, offset, value), two whole numbers and bytes or None, "
        f"got {shown(value)}"
    )


def _offsets(ends: Mapping[int, int]) -> dict[int, int]:
    """Offsets by partition, checked; ValueError for what is no dict of whole numbers."""
    if not isinstance(ends, Mapping):
        raise ValueError(f"ends must be a dict with an offset for each partition, got {shown(ends)}")
    return {
        partition: check_count(end, f"the end of partition {shown(partition)}", least=0)
        for partition, end in ends.items()
    }


def _events_of(messages: list[Message]) -> list[Incoming | Rejected]:
    """The events of messages, and refusals of what is none."""
    values = [value for _, _, value in messages]
    if None not in values:
        return decode_all(cast(list[bytes], values))
    events = decode_all([value or b"" for value in values])
    return [EMPTY if value is None else event for value, event in zip(values, events, strict=True)]


def _unpacked(kept: UndeliveredAnswers) -> TopicAnswers:
    """The answers that `handle` packed."""
    lines, places = _unpack(kept.content)
    answers = list(map(_decode_answer, lines.splitlines()))
    return TopicAnswers(kept.number, _keyed(answers, lines, places), answers)


def _keyed(answers: list[Answer], lines: bytes, places: dict[int, str]) -> list[tuple[bytes, bytes]]:
    """The answers as messages, the key and the value of each; `lines` are their JSON, each with its end.

    `places` has the place of the message for each answer without an id.
    """
    keys = [f"{WORDS[type(answer)]} {answer.id}".encode() for answer in answers]
    for i, place in places.items():
        keys[i] = f"message {place}".encode()
    return list(zip(keys, lines.split(b"\n"), strict=False))


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as people write them: 0-3,5."""
    parts, run = list[list[int]](), list[int]()
    ordered = sorted(numbers)
    for number, following in pairwise([*ordered, -1]):
        run.append(number)
        if following != number + 1:
            parts.append(run)
            run = []
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in parts)
