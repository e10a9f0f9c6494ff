"""A whole ledger, or an archive, against its own log: every forecast and every state must come out again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.ledger import schema
from onlinecal.engine.ledger.archive import Archived, archives_of, digest_of
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.ledger import Ledger, Tell, silent
from onlinecal.engine.ledger.replay import config_of, replay_key
from onlinecal.engine.ledger.sums import changed_in
from onlinecal.engine.watch.reliability import Reliability

WAITING = (
    "SELECT * FROM archive.queries WHERE number IN (SELECT j.value FROM archive.about AS a,"
    " json_each(a.value, '$.open') AS j WHERE a.name = 'archive')"
)
"""The queries of an archive that go on waiting."""


class Check(Struct, frozen=True):
    """What came of replaying a whole log.

    Attributes
    ----------
    events, keys
        How many events were replayed, and of how many keys.
    problems
        What was not as the ledger has it, one sentence each; empty if all was.
    """

    events: int
    keys: int
    problems: list[str]


def check_ledger(path: str | Path, *, archives: Iterable[str | Path] = (), tell: Tell = silent) -> Check:
    """Replay every event of the ledger at `path`, and compare all forecasts and states with what is written.

    Where events were archived, it starts from the states behind them. An archive is checked like a ledger;
    `archives` are checked, too, and each has to have the digest that the ledger keeps of it. Reads only, key
    by key, so memory is that of one key's events. `tell` is called with the numbers of events done and in
    all. Raises LedgerError if something cannot be read.
    """
    with closing(Ledger(Path(path), read_only=True)) as ledger, ledger.snapshot():
        found = _check(ledger, tell)
        known = {one.digest: one for one in archives_of(ledger)}
    for one in map(Path, archives):
        archive = known.get(digest_of(one))
        if archive is None:
            problems = [f"{one}: this is no archive of {path}, or it was changed"]
            found = Check(found.events, found.keys, found.problems + problems)
            continue
        with closing(Ledger(one, read_only=True)) as ledger:
            checked = _check(ledger, tell)
        problems = [f"{one}: {problem}" for problem in checked.problems]
        if archive == max(known.values(), key=lambda one: one.number):
            problems += _check_start(Path(path), one, archive)
        keys = max(found.keys, checked.keys)
        found = Check(found.events + checked.events, keys, found.problems + problems)
    return found


def _check_start(path: Path, last: Path, archive: Archived) -> list[str]:
    """Whether a ledger goes on from the states and the open queries at the end of its last archive."""
    with closing(Ledger(path, read_only=True)) as ledger, ledger.ledger_errors():
        ledger.connection.execute("ATTACH ? AS archive", (f"{last.absolute().as_uri()}?mode=ro",))
        if ledger.checkpoint() != archive.number:
            # events were archived meanwhile
            return []
        pairs = (
            ("SELECT key, state FROM main.checkpoints", "SELECT key, state FROM archive.states"),
            (f"SELECT * FROM main.queries WHERE number <= {archive.number}", WAITING),
        )
        sql = "SELECT * FROM ({} EXCEPT {}) LIMIT 1"
        other = any(ledger.rows(sql.format(*way)) for pair in pairs for way in (pair, pair[::-1]))
    return [f"{path}: the states or queries behind its last archive are not those of {last}"] if other else []


def _check(ledger: Ledger, tell: Tell) -> Check:
    problems = ledger.damage()
    problems += [f"{one} is none of a ledger's: remove it" for one in schema.strangers(ledger.rows)]
    problems += _check_beside(ledger)
    keys, start = KeyCache(config_of(ledger)), ledger.checkpoint()
    total = sum(ledger.counts()) - sum(one.events for one in archives_of(ledger))
    events = known = 0
    for number, log in groupby(ledger.log_by_key(), key=lambda event: event.key):
        of_key = list(log)
        events, known = events + len(of_key), known + 1
        try:
            with ledger.content_errors():
                keys.drop(replay_key(keys, ledger, number, of_key, start))
        except LedgerError as error:
            problems.append(str(error))
            keys = KeyCache(keys.config)
        tell(events, total)
    if events < total:
        problems.append(f"{total - events} closings belong to no query of the log")
    return Check(events, known, problems)


def _check_beside(ledger: Ledger) -> list[str]:
    """What no replay comes to: checksums, numbers, states of keys without later events, reliability."""
    with ledger.content_errors():
        problems = changed_in(ledger.connection)
    for (number,) in ledger.rows("SELECT number FROM queries JOIN closings USING (number)"):
        problems.append(f"number {number} stands for two events: two processes wrote at once")
    for (number,) in ledger.rows(
        "SELECT c.key FROM checkpoints AS c LEFT JOIN states AS s ON s.key = c.key"
        " WHERE s.state IS NOT c.state AND coalesce(s.number, 0) <= ?",
        (ledger.checkpoint(),),
    ):
        problems.append(f"the state of key {number} is older than what was archived, and another one")
    try:
        bins = ledger.reliability()
        if bins is not None:
            Reliability.load(bins)
    except (ValueError, TypeError) as error:
        problems.append(f"{error}; it begins anew when the ledger is opened")
    return problems
