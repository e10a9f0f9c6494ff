"""What came of watching a key, read in its state as it is stored: nothing else of it is looked at."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from onlinecal.engine.keys.packing import SUM, first_floats, sum_of, unpack_floats
from onlinecal.engine.watch.account import MONEY, SIZE
from onlinecal.engine.watch.class_watch import ClassWatch
from onlinecal.engine.watch.key_watch import ProbabilityWatch, StoredWatch
from onlinecal.engine.watch.watched import Watched


class _WatchOfKey(Struct, array_like=True):
    """A `StoredKey`, of which only the watch is taken apart."""

    format: Raw
    clock: Raw
    expired: Raw
    late: Raw
    lanes: Raw
    open: Raw
    steering: Raw
    watch: bytes


def watched_in(key: str, state: bytes) -> Watched:
    """What came of watching a key, of which this is the state.

    Any exception if the bytes are those of no state.
    """
    if state[:SUM] != sum_of(memoryview(state)[SUM:]):
        raise ValueError(f"the state of key {key!r} is damaged: repair the ledger, it is made anew")
    stored = _watch.decode(_of_key.decode(memoryview(state)[SUM:]).watch)
    if stored.labels is None:
        return _binary.watched_by(first_floats(stored.floats, MONEY, SIZE))
    of_classes = ClassWatch(None)
    of_classes.account, _ = unpack_floats(stored.floats, "<f8", SIZE)
    of_classes.labels = stored.labels
    return of_classes.watched()


_binary = ProbabilityWatch(None)
_of_key = msgspec.msgpack.Decoder(_WatchOfKey)
_watch = msgspec.msgpack.Decoder(StoredWatch)
