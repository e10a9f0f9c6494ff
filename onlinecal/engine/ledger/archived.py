"""Ids that are only in archives: known to the ledger by a hash, and refused when they are sent again."""

from __future__ import annotations

import json
from collections.abc import Container
from hashlib import blake2b

from onlinecal.engine.events import Incoming, Rejected, is_name
from onlinecal.engine.ledger.ledger import Ledger

REASON = "archived"


def hash_of_id(id: str) -> int:
    """64 bits of an id, as SQLite's integers."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "little", signed=True)


def refuse_archived(
    ledger: Ledger, events: list[Incoming | Rejected], waiting: Container[str]
) -> list[Incoming | Rejected]:
    """The events, with a refusal in the place of each that is about an archived forecast.

    `waiting` are ids that are known to be open. A new id is refused by mistake if it has the hash of an
    archived one: with 10^8 archived, any one of 10^8 new ones with a chance of .0005.
    """
    hashes: dict[int, set[str]] = {}
    for event in events:
        if not isinstance(event, Rejected) and is_name(event.id) and event.id not in waiting:
            hashes.setdefault(hash_of_id(event.id), set()).add(event.id)
    found = ledger.rows(
        "SELECT hash FROM json_each(?) AS j CROSS JOIN archived ON hash = j.value",
        (json.dumps(list(hashes)),),
    )
    ids = {id for row in found for id in hashes[row[0]]}
    # by chance an id that is here may have the hash of one that is gone
    ids -= ledger.recall(ids).keys()
    if not ids:
        return events
    return [
        Rejected(
            event.id, REASON, f"forecast {event.id!r} was moved to an archive, nothing more is told of it"
        )
        if event.id in ids and not isinstance(event, Rejected)
        else event
        for event in events
    ]
