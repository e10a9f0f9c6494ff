"""Ledgers to be damaged, processes to be killed, and what every refusal has to look like."""

import contextlib
import os
import re
import signal
import sqlite3
import sys
import traceback
from functools import partial

import pytest

from onlinecal.cli.stream import keeping, loop  # noqa: F401  loaded here, not by every copy of this process
from onlinecal.engine import LedgerError
from onlinecal.engine.ledger.schema import SUMMED, is_sound, sum_of
from onlinecal.simulations.cli.console import main
from tests.copies import load_command
from tests.engine.scripts import lines_of, script

QUERIES = int(os.environ.get("ONLINECAL_QUERIES", "165"))
"""As many has the ledger to be damaged; `make test-all` has more."""
LINES = lines_of(script(11, QUERIES))
for place in range(len(LINES) // 2, len(LINES), 50):
    # these wait for queries that never come
    LINES[place:place] = lines_of([{"type": "outcome", "id": f"never {place}", "value": place % 3 / 2}])
INPUT = b"\n".join(LINES) + b"\n"


@contextlib.contextmanager
def raises_for(path, *words):
    """A LedgerError or a ValueError in one sentence that names the file."""
    with pytest.raises((LedgerError, ValueError)) as caught:
        yield caught
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert re.search(word, message), message


def in_child(work):
    """The exit code of a copy of this process that does the work."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work() or 0)
        except BaseException:
            traceback.print_exc()
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


class Points:
    """The points of this process, at one of which it is killed: each call of this object, each statement of
    SQLite, and both sides of each call of these functions of `os`; the numbers of the latter."""

    def __init__(self, at, *functions):
        self.at, self.passed, self.around = at, 0, list[int]()
        sqlite3.connect = partial(self._connected, sqlite3.connect)
        for name in functions:
            setattr(os, name, partial(self._around, getattr(os, name)))

    def __call__(self, *_):
        self.passed += 1
        if self.passed == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _connected(self, connect, *arguments, **settings):
        connection = connect(*arguments, **settings)
        connection.set_trace_callback(self)
        return connection

    def _around(self, call, *arguments, **settings):
        self()
        call(*arguments, **settings)
        self()
        self.around += self.passed - 1, self.passed


def command(folder, *arguments, source=b"", before=lambda: None):
    """Run `onlinecal` in a copy of this process: its exit code, what it answered and what it said."""
    streams = [folder / name for name in ("stdin", "stdout", "stderr")]
    streams[0].write_bytes(source)

    def work():
        for number, path in enumerate(streams):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0)), number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", closefd=False) for n in range(3))
        sys.argv = ["onlinecal", *map(str, arguments)]
        before()
        try:
            main()
        except SystemExit as end:
            return end.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    load_command()
    code = in_child(work)
    return code, streams[1].read_bytes(), streams[2].read_text()


def assert_refused(found, path, *words):
    """Exit code 2, and one line that names the file."""
    code, _, said = found
    assert code == 2, said
    assert said.startswith("onlinecal: ")
    assert said.count("\n") == 1
    for word in (str(path), *words):
        assert word in said


def changed(path, *statements, with_sums=False):
    """Change a ledger behind its back; the sums of its rows are then wrong, or `with_sums` right again."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        for table in SUMMED if with_sums else ():
            rows = connection.execute(f"SELECT * FROM {table}")
            name, wrong = rows.description[0][0], [row for row in rows if not is_sound(row)]
            for first, *others, _ in wrong:
                given = sum_of(first, *others), first
                connection.execute(f"UPDATE {table} SET sum = ? WHERE {name} = ?", given)
