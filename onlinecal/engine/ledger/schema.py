"""The tables of a ledger, their rows as objects, and the checksums of rows.

Queries and closings are the log. They share one numbering without gaps, in the order in which the engine
accepted them. They are never changed; when they are archived they are deleted, but for queries that are still
open, which leave gaps before the first event that was not archived. The state of a key is what its events up
to some number lead to; it can be rebuilt.

SQLite does not notice when a bit of a value changes on the disk. So each row ends with its *sum*, the CRC-32
of its other values. An engine compares the two for each row whose values it uses, but for the hashes of
archived ids, which have no sums. A check and an archive compare all rows beforehand (`damaged_rows`). An
event or a key that is gone leaves a gap in the numbers. A CRC-32 finds every single changed bit, and any
three in a row of up to 11 KB (Koopman, 2002). Sums find accidents, not fraud: who can write to the file can
also compute them anew.

Tables, their columns and orders, how values stand in them (`stored`, `stored_outcome`) and how sums are made
are a saved format: whoever changes one of them raises STATE_FORMAT. Functions that write are called inside a
transaction of their caller, but for `prepare`, which has its own, and for the one row of the configuration at
a start. Rows of keys, queries, closings, parked outcomes and the outbox never change while they are there
(`_insert`). Other rows are replaced as a whole, each with a new sum. Nothing here has a state, but for
definitions and statements that are made once.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import astuple

from onlinecal.engine.ledger.file import REPAIR_ADVICE
from onlinecal.engine.watch.key_watch import Summary
from onlinecal.texts import shown
from onlinecal.validation import check_count
from onlinecal.version import STATE_FORMAT, check_format

APPLICATION = 0x4F4E4C43
"""The application id that marks a SQLite file as a ledger."""

TABLES_SQL = """
CREATE TABLE about (
    name TEXT PRIMARY KEY,      -- config: the engine's configuration as JSON
    value ANY NOT NULL,         -- tail: all states hold what happened up to this number
    sum INTEGER NOT NULL        -- early: how many outcomes had a time before that of their query
) WITHOUT ROWID, STRICT;        -- archived: the checksum of the table of that name
                                -- parked: how many outcomes wait in it, have settled, were dropped, as JSON
CREATE TABLE keys (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    config INTEGER NOT NULL,    -- which of the configuration's exceptions, -1: the default
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE queries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key INTEGER NOT NULL REFERENCES keys,
    hint ANY,                   -- a number, or JSON
    time REAL,
    probability ANY,            -- a number, or JSON
    certificate REAL NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE closings (
    number INTEGER PRIMARY KEY,
    query INTEGER NOT NULL UNIQUE REFERENCES queries,
    value ANY,                  -- a number or a label; of a soft label JSON in bytes; NULL: withdrawn
    time REAL,
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE parked (           -- the outcomes that wait for their queries (engine/parking.py)
    number INTEGER PRIMARY KEY, -- among all outcomes that were ever parked, not among events
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,          -- '' if it names none
    value TEXT NOT NULL,        -- JSON
    time REAL,
    since INTEGER NOT NULL,     -- the last event before it
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE states (
    key INTEGER PRIMARY KEY REFERENCES keys,
    number INTEGER NOT NULL,    -- the last event that the state holds
    rounds INTEGER NOT NULL,    -- this and the next five are the key's summary
    open INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    certificate REAL NOT NULL,
    guarantee REAL NOT NULL,
    oldest INTEGER,             -- the oldest open query
    state BLOB NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE reliability (
    number INTEGER PRIMARY KEY, -- 0, the only row
    bins BLOB NOT NULL,         -- of all keys together
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE inputs (
    path ANY PRIMARY KEY,       -- bytes where it is no text
    position INTEGER NOT NULL,  -- bytes of the file that have been answered, or the next offset of a topic
    mark BLOB,                  -- by what its reader recognises the input; NULL: by nothing
    sum INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE outbox (            -- answers of batches that are not known to have been delivered
    number INTEGER PRIMARY KEY,
    content BLOB NOT NULL,      -- as whoever sends them has packed them
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE checkpoints (      -- the states behind what was archived: the log goes on from them
    key INTEGER PRIMARY KEY REFERENCES keys,
    state BLOB NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE archives (         -- what was archived (engine/ledger/archive.py)
    number INTEGER PRIMARY KEY, -- the last event in it
    path TEXT NOT NULL,
    queries INTEGER NOT NULL,
    closings INTEGER NOT NULL,
    digest BLOB NOT NULL,       -- of the archive's file
    early INTEGER NOT NULL,     -- as in `about`, up to that event
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE archived (         -- the ids that are only in archives
    hash INTEGER PRIMARY KEY
) STRICT;
"""
# SQLite keeps this text with its comments, and `check` compares it: to change a word of them, but for those
# behind a semicolon, is to change the format. The name `archive` in `about` marks an archive (archive.py).
# SQLite enforces UNIQUE: a query has one closing. That adds 12 % to a commit of 1,000 events if labels are 50
# rounds late, 60 % if they are 5,000 rounds late. With the query as the primary key of closings it would be
# more, since the log needs them in the order of their numbers, too. References are compared by `check` alone:
# to look each query up again would add 10 to 17 %.


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file; ValueError for one of another application, or of another format."""
    if marks_of(connection) == (0, 0) and is_empty(connection):
        connection.executescript(
            f"BEGIN; {TABLES_SQL} PRAGMA application_id = {APPLICATION};"
            f" PRAGMA user_version = {STATE_FORMAT}; COMMIT;"
        )
    else:
        check(connection)


def check(connection: sqlite3.Connection, damaged: bool = False) -> None:
    """ValueError for what is no ledger, or one of another format; and for other tables, unless `damaged`."""
    application, version = marks_of(connection)
    if application != APPLICATION:
        raise ValueError(
            "this is a SQLite file, but not a ledger of this onlinecal. Name another file; a ledger of an"
            " older onlinecal is read with the version that wrote it"
        )
    check_format("the ledger", version)
    if not damaged and not our_definitions() <= definitions(connection):
        raise ValueError(f"the definitions of its tables are not those of a ledger. {REPAIR_ADVICE}")


def definitions(connection: sqlite3.Connection) -> set[Any]:
    """What SQLite has of the tables and their indexes; a changed bit there gives all rows another meaning."""
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@cache
def our_definitions() -> set[Any]:
    """The definitions of a new ledger; who looks at one by hand may have added more."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES_SQL)
        return definitions(connection)


def marks_of(connection: sqlite3.Connection) -> Any:
    """The application of a file, and its format: 0 where there is none."""
    return connection.execute("SELECT * FROM pragma_application_id, pragma_user_version").fetchone()


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


ONLY_READ = "this is an archive, which is only read: name the ledger itself"


def is_archive(connection: sqlite3.Connection) -> bool:
    """Whether a ledger is an archive; `archive.Marker` says more about it."""
    return bool(connection.execute("SELECT 1 FROM about WHERE name = 'archive'").fetchone())


class Record(NamedTuple):
    """A query that the ledger holds, and how it was closed.

    Turns keep records in their bytes, so the fields and their order are a saved format.
    """

    number: int
    id: str
    key: str
    hint: Any
    time: float | None
    probability: Any
    certificate: float
    closed: int | None
    """The number of the closing event; None while there is none."""
    value: Any
    """None: withdrawn."""
    closed_time: float | None


class Logged(NamedTuple):
    """An event of the log: a query, or the closing of one."""

    number: int
    key: int
    id: str
    closes: bool
    time: float | None
    value: Any
    """The hint of a query, the value of a closing (None: withdrawn)."""
    probability: Any
    certificate: float | None


class Snapshot(NamedTuple):
    """A key as the ledger has it; `state` holds its events up to the number `upto`."""

    number: int
    name: str
    config: int
    upto: int
    state: bytes | None


class InputPosition(NamedTuple):
    """How far an input, a file or a partition of a topic, was read: what a batch's `inputs` say of it.

    `path` is the input's name, bytes where it is no text in UTF-8. `position` is the number of bytes of the
    file that were answered, or the offset of the partition's next message. `mark` is any bytes by which the
    input's reader recognises it, such as a digest of its beginning, or None.
    """

    path: str | bytes
    position: int
    mark: bytes | None = None


def input_position(place: Any) -> InputPosition:
    """What a batch says of an input, checked; ValueError if it is no pair or triple of the right kinds."""
    if isinstance(place, (tuple, list)) and 2 <= len(place) <= 3:
        path, position, mark = (*place, None)[:3]
        is_named = isinstance(path, (str, bytes)) and (mark is None or isinstance(mark, bytes))
        if is_named:
            count = check_count(position, f"the position of input {shown(path)}", LARGEST_NUMBER, least=0)
            return InputPosition(path, count, mark)
    raise ValueError(
        "inputs must be a list of pairs (path, position), or of triples with a mark: path a text or bytes, "
        f"position a whole number of at least 0, mark bytes or None, got {shown(place)}"
    )


TOPICS = "kafka/"
"""So begin the names of topics' partitions among inputs: kafka/events/0. Paths of files are absolute there,
and begin otherwise. It is kept in ledgers."""


def partition_of(path: str | bytes) -> tuple[str, int] | None:
    """The topic and the number of the partition that an input is; None for one that is none, as a file."""
    if not isinstance(path, str) or not path.startswith(TOPICS):
        return None
    topic, _, number = path.removeprefix(TOPICS).rpartition("/")
    return topic, int(number)


class UndeliveredAnswers(NamedTuple):
    """The answers of a batch that a ledger keeps until they are known to have been delivered.

    `number` counts the batches that were kept, from 1; an engine that starts and finds none in its ledger
    begins with 1 again. `content` is the bytes that the function `pack`, given to `Engine.handle_and_keep`,
    made of the answers.
    """

    number: int
    content: bytes


SUMMARY_PART = slice(6, 12)
"""Where the row of a key, followed by that of its state, has the summary."""


def snapshot(row: tuple[Any, ...]) -> Snapshot:
    """A key of its row, followed by that of its state; ValueError if one of them is damaged."""
    check_sum("keys", row, 0, 3)
    number, name, config = row[:3]
    if row[4] is None:
        return Snapshot(number, name, config, 0, None)
    check_sum("states", row, 4, 13)
    return Snapshot(number, name, config, row[5], row[12])


StateRow = tuple[int, int, Summary, bytes]
"""The number of a key, that of the last event that its state holds, its summary, its state."""


ByColumns = Sequence[Sequence[Any]]
"""The rows of a table as its columns, so that no tuple is made for each of many; or nothing, for no row."""


def recalled(row: tuple[Any, ...]) -> Record:
    """A record of a row of `ledger.RECORDS_SQL`; ValueError if one of the rows in it is damaged."""
    # the rows of the query, of its key and of its closing follow each other, each with its sum at its end
    check_sum("queries", row, 0, 7)
    check_sum("keys", row, 8, 11)
    number, id, _, hint, time, probability, certificate = row[:7]
    asked = number, id, row[9], loaded(hint), time, loaded(probability), certificate
    if row[12] is None:
        return Record(*asked, None, None, None)
    check_sum("closings", row, 12, 16)
    closed, _, value, closed_time = row[12:16]
    return Record(*asked, closed, loaded_outcome(value), closed_time)


def logged(row: tuple[Any, ...]) -> Logged:
    """An event of a row of `ledger.LOG_SQL`, whose sum is not looked at; ValueError if it makes no sense."""
    # behind these four comes the row of the closing, or of the query
    number, key, id, closes = row[:4]
    if closes:
        _, _, value, time = row[4:8]
        return Logged(number, key, id, True, time, loaded_outcome(value), None, None)
    _, _, _, hint, time, probability, certificate = row[4:11]
    return Logged(number, key, id, False, time, loaded(hint), loaded(probability), certificate)


def sound_event(row: tuple[Any, ...]) -> Logged:
    """The same; ValueError, too, if the row is damaged, or if the query that it closes is lost."""
    if row[3]:
        check_sum("closings", row, 4, 8)
        if row[2] is None:
            raise ValueError(f"event {row[0]} closes query {row[5]}, which is lost. {REPAIR_ADVICE}")
    else:
        check_sum("queries", row, 4, 11)
    return logged(row)


def stored(value: Any) -> Any:
    """A hint or a probability as the tables keep it: a number, or an object as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value


def loaded(value: Any) -> Any:
    """What `stored` was given."""
    return json.loads(value) if isinstance(value, str) else value


def stored_outcome(value: Any) -> Any:
    """An outcome as the tables keep it: a number or a label as it is, a soft label as JSON in bytes.

    So no label, which is any text, can be taken for one.
    """
    return json.dumps(value).encode() if isinstance(value, dict) else value


def loaded_outcome(value: Any) -> Any:
    """What `stored_outcome` was given."""
    return json.loads(value) if isinstance(value, bytes) else value


MOST_VALUES = 999
"""How many values a statement may have with every SQLite."""


def by_columns(rows: Iterable[Sequence[Any]]) -> ByColumns:
    """Rows as columns."""
    return list(zip(*rows, strict=True))


def write_rows(connection: sqlite3.Connection, table: str, columns: ByColumns) -> None:
    """Put rows, of which there is at least one, into a table, in their order and with their sums.

    Many rows go into one statement, which saves a call for each.
    """
    columns = [*columns, list(map(crc32, map(_encode, zip(*columns, strict=True))))]
    width, rows = len(columns), len(columns[0])
    together = MOST_VALUES // width
    alone = rows - rows % together
    values: list[Any] = [None] * (together * width)
    for start in range(0, alone, together):
        # a short list stays in the processor's cache
        for i, column in enumerate(columns):
            values[i::width] = column[start : start + together]
        connection.execute(_insert(table, width, together), values)
    if alone < rows:
        rest = zip(*(column[alone:] for column in columns), strict=True)
        connection.executemany(_insert(table, width, 1), rest)


@cache
def _insert(table: str, width: int, rows: int) -> str:
    # rows of these tables must be new; elsewhere they replace older ones
    row = f"({', '.join('?' * width)})"
    must_be_new = "keys", "queries", "closings", "parked", "outbox"
    way = "INSERT" if table in must_be_new else "INSERT OR REPLACE"
    return f"{way} INTO {table} VALUES {', '.join([row] * rows)}"


def write_states(connection: sqlite3.Connection, states: Iterable[StateRow]) -> None:
    """Write states, which replace older ones. The first six fields of a `Summary` are columns of theirs."""
    # in the order of keys, since neighbours share a page of the file
    in_order = sorted(states, key=itemgetter(0))
    rows = [(key, upto, *astuple(summary)[:6], state) for key, upto, summary, state in in_order]
    write_rows(connection, "states", by_columns(rows))


EVENTS_READ_TOGETHER = 10_000
"""How many events, or hashes, are read at a time. Neither answers nor sums depend on it."""
LARGEST_NUMBER = (1 << 63) - 1

_encode = msgspec.msgpack.Encoder().encode


def sum_of(*values: Any) -> int:
    """The sum of a row with these values, in the order of its columns."""
    return crc32(_encode(values))


def is_sound(row: tuple[Any, ...]) -> bool:
    """Whether a row, as SQLite has it, ends with the sum of its other values."""
    return crc32(_encode(row[:-1])) == row[-1]


def check_sum(table: str, row: tuple[Any, ...], start: int = 0, end: int = -1) -> None:
    """ValueError if the values of a table's row, which begin at `start`, do not have the sum at `end`."""
    if crc32(_encode(row[start:end])) != row[end]:
        raise ValueError(f"{in_words(table, row[start])}. {REPAIR_ADVICE}")


def in_words(table: str, name: Any) -> str:
    """That a row is damaged, which is given by the first of its values."""
    return f"table {table}: the row that begins with {name!r} is not as it was written"


SUMMED = (
    *("about", "keys", "queries", "closings", "parked", "states", "reliability", "inputs", "outbox"),
    *("checkpoints", "archives"),
)
"""The tables whose rows end with their sums. `archived`, with few bytes a row, has one sum as a whole."""
MOST_NAMED = 100
"""How many damaged rows of a table are named one by one."""


def damaged_rows(connection: sqlite3.Connection, tables: Iterable[str] = SUMMED) -> list[str]:
    """One sentence for each row of these tables that does not end with its sum."""
    sentences = []
    for table in tables:
        rows = connection.execute(f"SELECT * FROM {table}")
        damaged = [row[0] for row in rows if not is_sound(row)]
        sentences += [in_words(table, name) for name in damaged[:MOST_NAMED]]
        if damaged[MOST_NAMED:]:
            sentences.append(
                f"table {table}: {len(damaged) - MOST_NAMED} more rows are not as they were written"
            )
    return sentences


def sum_of_hashes(connection: sqlite3.Connection) -> int:
    """The sum of the table `archived`: that of its hashes in their order."""
    cursor, total = connection.execute("SELECT hash FROM archived ORDER BY hash"), 0
    while rows := cursor.fetchmany(EVENTS_READ_TOGETHER):
        total = crc32(struct.pack(f"<{len(rows)}q", *(row[0] for row in rows)), total)
    return total


def write_about(connection: sqlite3.Connection, name: str, value: Any) -> None:
    """Write a value into the table `about`, in the place of an older one."""
    write_rows(connection, "about", [[name], [value]])
