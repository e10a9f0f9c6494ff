"""From the log to the states: catching up at a start, and a key's events against what is written of it.

The configuration of a ledger, by which its events are played.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.json import decode, encode

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.schema import Logged, Snapshot
from onlinecal.engine.ledger.sums import LAST_NUMBER
from onlinecal.engine.settings import all_settings

CHUNK = 10_000

TOLD = "rounds", "open", "expired", "certificate", "guarantee", "oldest"
"""What stands beside a state so that it can be read without it."""


def config_of(ledger: Ledger) -> EngineConfig:
    """The configuration that a ledger was made with."""
    written = ledger.about("config") or "{}"
    with ledger.content_errors():
        return decode(written, type=EngineConfig)


def agreed_config(ledger: Ledger, wanted: EngineConfig | None) -> EngineConfig:
    """The ledger's configuration; a new ledger takes the one wanted, unless a parameter is out of range.

    An old one takes its bounds.
    """
    if ledger.about("config") is None:
        config = wanted or EngineConfig()
        all_settings(config)
    else:
        held = config_of(ledger)
        config = wanted or held
        if config.without_bounds() != held.without_bounds():
            raise ValueError(
                f"{ledger.path}: the ledger was made with another configuration: {encode(held).decode()}"
            )
        if config == held:
            return config
    ledger.tell("config", encode(config).decode())
    return config


def catch_up(keys: KeyCache, ledger: Ledger) -> Iterator[int]:
    """Bring the keys up to the end of the log, chunk by chunk; yields the number reached each time.

    Raises LedgerError if a forecast comes out other than it was answered.
    """
    after = ledger.tail()
    while events := ledger.log(after, CHUNK):
        after = events[-1].number
        take(keys, ledger, events)
        yield after


def take(keys: KeyCache, ledger: Ledger, events: list[Logged]) -> None:
    """Let the keys take logged events that they do not hold yet."""
    by_number = {state.number: state for state in keys.states.values()}
    cold = ledger.keys_numbered({event.key: None for event in events if event.key not in by_number})
    with ledger.content_errors():
        keys.load(cold)
        by_number.update((one.number, keys.states[one.name]) for one in cold)
        known = ((by_number[event.key], event) for event in events)
        asked = played(keys, ((state, event) for state, event in known if event.number > state.upto))
    check_same(ledger, asked)


def played(keys: KeyCache, steps: Iterable[tuple[KeyState, Logged]]) -> list[tuple[Logged, Issued]]:
    """Let keys take logged events; the queries among these, with the forecasts that come out."""
    asked = []
    for state, event in steps:
        issued = keys.apply(state, event)
        if not event.closes:
            asked.append((event, issued))
    keys.run()
    return asked


def check_same(ledger: Ledger, asked: list[tuple[Logged, Issued]]) -> None:
    """Refuse to go on if a forecast is not the one that was answered."""
    for event, issued in asked:
        if (issued.probability, issued.certificate) != (event.probability, event.certificate):
            raise LedgerError(
                f"{ledger.path}: forecast {event.id!r} was answered with {event.probability!r}, by the log "
                f"it is {issued.probability!r}: the ledger was changed, or written by an onlinecal with "
                "other rules"
            )


def replay_key(
    keys: KeyCache, ledger: Ledger, number: int, log: list[Logged], start: int, upto: int = LAST_NUMBER
) -> KeyState:
    """A key's state when it has taken its events behind the checkpoint, which are all, or all up to a number.

    LedgerError where the ledger has another answer, or another state at any place before that.
    """
    found = ledger.keys_numbered([number])
    if not found:
        raise LedgerError(f"{ledger.path}: the name of key {number} is lost")
    snapshot = found[0]
    # behind what was archived, if the key was known then
    first = ledger.rows("SELECT state FROM checkpoints WHERE key = ?", (number,))
    keys.load([snapshot._replace(state=first[0][0] if first else None, upto=start)])
    state = keys.states[snapshot.name]
    held = [event for event in log if event.number <= snapshot.upto]
    asked = played(keys, ((state, event) for event in held))
    if snapshot.state is not None and snapshot.upto <= upto:
        check_state(ledger, state, snapshot)
    asked += played(keys, ((state, event) for event in log[len(held) :]))
    check_same(ledger, asked)
    return state


def check_state(ledger: Ledger, state: KeyState, written: Snapshot) -> None:
    """LedgerError if a state, or what stands beside it, is not what is written."""
    if state.dump() != written.state:
        raise LedgerError(
            f"{ledger.path}: the state of key {written.name!r} is not what its events up to number "
            f"{written.upto} come to"
        )
    [beside] = ledger.rows(f"SELECT {', '.join(TOLD)} FROM states WHERE key = ?", (written.number,))
    summary = state.written()
    for name, one in zip(TOLD, beside, strict=True):
        if one != getattr(summary, name):
            raise LedgerError(
                f"{ledger.path}: the ledger says of key {written.name!r} that its {name} is {one}; its "
                f"events come to {getattr(summary, name)}"
            )
