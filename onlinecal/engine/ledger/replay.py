"""Replaying the log: it brings keys up to date at a start, and checks what is written of a key.

The configuration of a ledger is read here, too, since events are played by it.

`catch_up`, `replay` and `replay_key` change the book that they get, and nothing else; only `agreed_config`
writes to the ledger, once, when it is new or its bounds have changed. An engine replays at its start, before
it answers; checks, archives and reports replay into a book of their own. A replay is sound because a key's
answers depend on its events and their order alone. So it compares every answer with the one that was given,
and stops at the first that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.json import decode, encode

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.book import Book
from onlinecal.engine.keys.key import Key
from onlinecal.engine.ledger.file import REPAIR_ADVICE, LedgerError
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.schema import EVENTS_READ_TOGETHER, LARGEST_NUMBER, Logged, Snapshot
from onlinecal.engine.settings import all_settings
from onlinecal.texts import cut

SUMMARY_COLUMNS = "rounds", "open", "expired", "certificate", "guarantee", "oldest"
"""The columns beside a state, from which its summary can be read without decoding it."""


def config_of(ledger: Ledger) -> EngineConfig:
    """The configuration that a ledger was made with."""
    written = ledger.about("config") or "{}"
    with ledger.content_errors():
        return decode(written, type=EngineConfig)


def agreed_config(ledger: Ledger, wanted: EngineConfig | None) -> EngineConfig:
    """The configuration to use: a new ledger takes the one wanted, an old one must agree with it.

    An old ledger takes new bounds (`max_jump` and `park`). Raises ValueError if a parameter is out of range.
    """
    if ledger.about("config") is None:
        config = wanted or EngineConfig()
        all_settings(config)
    else:
        held = config_of(ledger)
        config = wanted or held
        if config._without_bounds() != held._without_bounds():
            raise ValueError(
                f"{ledger.path}: config must be the one that the ledger was made with, "
                f"{encode(held).decode()}, or be left out, got {cut(encode(config).decode())}: a new ledger "
                "takes another one"
            )
        if config == held:
            return config
    ledger.write_about("config", encode(config).decode())
    return config


def catch_up(book: Book, ledger: Ledger) -> Iterator[int]:
    """Replay the end of the log that states lack, chunk by chunk; yields the number reached after each.

    Raises LedgerError if a forecast comes out other than it was answered, or if the log ends too early.
    """
    ledger.check_reach()
    after = ledger.tail()
    while events := ledger.log(after, EVENTS_READ_TOGETHER):
        after = events[-1].number
        by_number = {key.number: key for key in book.keys.values()}
        cold = ledger.keys_numbered({event.key: None for event in events if event.key not in by_number})
        with ledger.content_errors():
            book.load(cold)
            by_number.update((snapshot.number, book.keys[snapshot.name]) for snapshot in cold)
            known = ((by_number[event.key], event) for event in events)
            replay(book, ledger, [(key, event) for key, event in known if event.number > key.upto])
        yield after


def replay(book: Book, ledger: Ledger, events: Iterable[tuple[Key, Logged]]) -> None:
    """Replay events; LedgerError if a forecast is not the one that was answered."""
    asked, entries = [], []
    for key, event in events:
        entry = book.replay(key, event)
        if not event.closes:
            asked.append(event)
            entries.append(entry)
    book.play()
    for event, *answer in zip(asked, *book.answers(entries), strict=True):
        if answer != [event.probability, event.certificate]:
            what, was, now = "", event.probability, answer[0]
            if was == now:
                what, was, now = "the certificate ", event.certificate, answer[1]
            raise LedgerError(
                f"{ledger.path}: forecast {event.id!r} was answered with {what}{was!r}, but the log leads to "
                f"{now!r}: the ledger was changed, or an onlinecal with other rules wrote it. {REPAIR_ADVICE}"
            )
    book.release()


def replay_key(book: Book, ledger: Ledger, number: int, log: list[Logged], upto: int = LARGEST_NUMBER) -> Key:
    """A key after a replay of its log, which has its events after the checkpoint, up to a number.

    LedgerError where the ledger has another answer or another state, or lacks the state.
    """
    snapshots, start = ledger.keys_numbered([number]), ledger.checkpoint()
    if not snapshots:
        raise LedgerError(f"{ledger.path}: the name of key {number} is lost. {REPAIR_ADVICE}")
    snapshot = snapshots[0]
    # the state after the archived events, if the key had some
    first = ledger.value("SELECT state FROM checkpoints WHERE key = ?", (number,))
    book.load([snapshot._replace(state=first, upto=start)])
    key = book.keys[snapshot.name]
    held = [event for event in log if event.number <= snapshot.upto]
    lacked = log[len(held) :]
    if (first is not None and snapshot.upto < start) or (lacked and lacked[0].number <= ledger.tail()):
        raise LedgerError(
            f"{ledger.path}: the state of key {snapshot.name!r} is missing or out of date. {REPAIR_ADVICE}"
        )
    replay(book, ledger, ((key, event) for event in held))
    if snapshot.state is not None and snapshot.upto <= upto:
        check_state(book, ledger, key, snapshot)
    replay(book, ledger, ((key, event) for event in lacked))
    return key


def check_state(book: Book, ledger: Ledger, key: Key, written: Snapshot) -> None:
    """LedgerError if a key's state, or its summary, is not as it is written."""
    [(_, _, summary, state)] = book.rows_of([key], written.upto)
    if state != written.state:
        raise LedgerError(
            f"{ledger.path}: the state of key {written.name!r} is not the one that its events up to number "
            f"{written.upto} lead to. {REPAIR_ADVICE}"
        )
    [(*written_beside,)] = ledger.rows("SELECT * FROM states WHERE key = ?", (written.number,))
    for name, figure in zip(SUMMARY_COLUMNS, written_beside[2:8], strict=True):
        if figure != getattr(summary, name):
            raise LedgerError(
                f"{ledger.path}: the ledger has {name} = {figure} for key {written.name!r}, but its events "
                f"lead to {getattr(summary, name)}. {REPAIR_ADVICE}"
            )
