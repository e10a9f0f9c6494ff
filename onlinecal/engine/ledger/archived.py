"""What has left a ledger for archives: the archives that it knows, each by a digest, and their ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container
from pathlib import Path

import msgspec
from msgspec import Struct

from onlinecal.engine.columns.columns import REFUSED, Columns
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.ledger import Ledger

REASON = "archived"


class Archived(Struct, frozen=True, array_like=True):
    """What a ledger remembers of one of its archives: a row of the table `archives`.

    Attributes
    ----------
    number
        That of the last event in the archive.
    path
        Where the archive was written.
    queries, closings
        How many queries it has, and how many outcomes or withdrawals.
    digest
        Of the archive's file (SHA-256).
    """

    number: int
    path: str
    queries: int
    closings: int
    digest: bytes

    @property
    def events(self) -> int:
        """How many events are in the archive."""
        return self.queries + self.closings


class Marker(Struct, frozen=True):
    """What makes a ledger an archive: as above, and the numbers of the queries that go on waiting."""

    number: int
    queries: int
    closings: int
    open: list[int]


def digest_of(archive: Path) -> bytes:
    """The digest of an archive's file; LedgerError if it cannot be read."""
    try:
        with open(archive, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise LedgerError(f"{archive}: cannot be read: {error.strerror}") from error


def archives_of(ledger: Ledger) -> list[Archived]:
    """The archives that a ledger knows, the oldest first."""
    with ledger.content_errors():
        return [Archived(*row) for row in ledger.rows("SELECT * FROM archives ORDER BY number")]


def marker_of(ledger: Ledger) -> Marker | None:
    """What makes a ledger an archive; None if it is none."""
    written = ledger.about("archive")
    with ledger.content_errors():
        return None if written is None else msgspec.json.decode(written, type=Marker)


def refuse_archive(ledger: Ledger) -> None:
    """ValueError for an archive: nothing may be added to it."""
    if ledger.about("archive") is not None:
        raise ValueError(f"{ledger.path}: this is an archive, which is only read: name the ledger itself")


def hash_of_id(id: str) -> int:
    """64 bits of an id, as SQLite's integers."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little", signed=True)


def refuse_archived(ledger: Ledger, columns: Columns, waiting: Container[str]) -> None:
    """Refuse the events that are about an archived forecast; `waiting` are ids that are known to be open.

    A new id is refused by mistake if it has the hash of an archived one: with 10^8 archived, any one of 10^8
    new ones with a chance of .0005.
    """
    hashes: dict[int, set[str]] = {}
    for id, kind in zip(columns.ids, columns.kinds, strict=True):
        if kind != REFUSED and id not in waiting:
            hashes.setdefault(hash_of_id(id), set()).add(id)
    found = ledger.rows(
        "SELECT hash FROM json_each(?) AS j CROSS JOIN archived ON hash = j.value",
        (json.dumps(list(hashes)),),
    )
    ids = {id for row in found for id in hashes[row[0]]}
    # by chance an id that is here may have the hash of one that is gone
    ids -= ledger.recall(ids).keys()
    for i, id in enumerate(columns.ids) if ids else ():
        if id in ids and columns.kinds[i] != REFUSED:
            columns.refuse(i, REASON, f"forecast {id!r} was moved to an archive, nothing more is told of it")
