"""How a ledger and its archives prove that they belong together: links of a chain of digests (SHA-256).

A link covers the link before it, the number of the last event that was archived, that archive's events, every
key's state behind them, and the queries that were open then. The ledger keeps the links and the last states,
an archive its own link: so each can be checked by itself, and neither can be changed without the other's
telling.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.records import Logged

START = bytes(32)
"""What stands for the link before the first."""


class Link(Struct, frozen=True, array_like=True):
    """What a ledger remembers of one of its archives: a row of the table `archives`.

    Attributes
    ----------
    number
        That of the last event in the archive.
    path
        Where the archive was written.
    queries, closings
        How many queries it has, and how many outcomes or withdrawals.
    log, states
        Digests of its events, and of all states behind them.
    hash
        That of the link, of the one before it and of both digests.
    """

    number: int
    path: str
    queries: int
    closings: int
    log: bytes
    states: bytes
    hash: bytes

    @property
    def events(self) -> int:
        """How many events are in the archive."""
        return self.queries + self.closings


class Marker(Struct, frozen=True):
    """What makes a ledger an archive: its link, and the numbers of the queries that go on waiting."""

    link: Link
    open: list[int]


def hash_of(before: bytes, number: int, log: bytes, states: bytes) -> bytes:
    """The hash of a link."""
    return hashlib.sha256(b"".join((before, number.to_bytes(8, "little"), log, states))).digest()


def digest_events(digest: Any, events: list[Logged]) -> None:
    """Add a key's events to the digest of a log, which goes key by key."""
    for event in events:
        digest.update(_encoder.encode(event))


def states_digest(ledger: Ledger, marker: Marker | None = None) -> bytes:
    """The digest of all states behind what was archived, with their keys and the queries that were open.

    They are those with which a ledger's log starts; with an archive's marker, those at the archive's end.
    """
    table = "checkpoints" if marker is None else "states"
    number = ledger.checkpoint() if marker is None else marker.link.number
    waiting = None if marker is None else _json.encode(marker.open).decode()
    digest = hashlib.sha256()
    with ledger.ledger_errors():
        for row in ledger.connection.execute(
            f"SELECT k.number, k.name, k.config, s.state FROM {table} AS s"
            " JOIN keys AS k ON k.number = s.key ORDER BY k.number"
        ):
            digest.update(_encoder.encode(row))
        for row in ledger.connection.execute(
            "SELECT number, id, key, hint, time, probability, certificate FROM queries WHERE number <= ?1"
            " AND (?2 IS NULL OR number IN (SELECT value FROM json_each(?2))) ORDER BY number",
            (number, waiting),
        ):
            digest.update(_encoder.encode(row))
    return digest.digest()


def links(ledger: Ledger) -> list[Link]:
    """The links that a ledger keeps, the oldest first."""
    with ledger.content_errors():
        return [Link(*row) for row in ledger.rows("SELECT * FROM archives ORDER BY number")]


def last_hash(ledger: Ledger) -> bytes:
    """The hash of a ledger's last link."""
    found = links(ledger)
    return found[-1].hash if found else START


def marker_of(ledger: Ledger) -> Marker | None:
    """What makes a ledger an archive; None if it is none."""
    written = ledger.about("archive")
    with ledger.content_errors():
        return None if written is None else msgspec.json.decode(written, type=Marker)


def refuse_archive(ledger: Ledger) -> None:
    """ValueError for an archive: nothing may be added to it."""
    if ledger.about("archive") is not None:
        raise ValueError(f"{ledger.path}: this is an archive, which is only read: name the ledger itself")


def broken_links(ledger: Ledger, marker: Marker | None) -> list[str]:
    """What is wrong with the links of a ledger or an archive, and with the states that they end with."""
    problems, before = [], START
    found = links(ledger)
    for link in [*found, *([marker.link] if marker else [])]:
        if link.hash != hash_of(before, link.number, link.log, link.states):
            problems.append(f"the link of the archive up to number {link.number} was changed")
        before = link.hash
    if found and states_digest(ledger) != found[-1].states:
        problems.append(f"the states behind the archive up to number {found[-1].number} were changed")
    if marker and states_digest(ledger, marker) != marker.link.states:
        problems.append("the states at the end of the archive were changed")
    return problems


_encoder, _json = msgspec.msgpack.Encoder(), msgspec.json.Encoder()
