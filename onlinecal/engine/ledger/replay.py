"""From the log to the states: catching up at a start, and checking a whole ledger against its own log."""

from __future__ import annotations

from collections.abc import Iterator

from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.records import Logged

CHUNK = 10_000


def catch_up(keys: KeyCache, ledger: Ledger) -> Iterator[int]:
    """Bring the keys up to the end of the log, chunk by chunk; yields the number reached each time.

    Raises LedgerError if a forecast comes out other than it was answered.
    """
    after = ledger.about("tail") or 0
    while events := ledger.log(after, CHUNK):
        after = events[-1].number
        take(keys, ledger, events)
        yield after


def take(keys: KeyCache, ledger: Ledger, events: list[Logged]) -> None:
    """Let the keys take logged events that they do not hold yet."""
    by_number = {state.number: state for state in keys.states.values()}
    cold = ledger.keys_numbered({event.key: None for event in events if event.key not in by_number})
    asked = []
    with ledger.content_errors():
        keys.load(cold)
        by_number.update((one.number, keys.states[one.name]) for one in cold)
        for event in events:
            state = by_number[event.key]
            if event.number > state.upto:
                issued = keys.apply(state, event)
                if not event.closes:
                    asked.append((event, issued))
        keys.run()
    for event, issued in asked:
        check_same(ledger, event, issued)


def check_same(ledger: Ledger, event: Logged, issued: Issued) -> None:
    """Refuse to go on if a forecast is not the one that was answered."""
    if (issued.probability, issued.certificate) != (event.probability, event.certificate):
        raise LedgerError(
            f"{ledger.path}: forecast {event.id!r} was answered with {event.probability!r}, by the log it is "
            f"{issued.probability!r}: the ledger was changed, or written by an onlinecal with other rules"
        )
