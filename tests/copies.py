"""Copies of this process that stand for a program: they have loaded all that takes long to load."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import NoReturn

from tests.commands import run


@cache
def load_command() -> None:
    """Load what every command needs, which each copy would load again."""
    run("stream", "report", "--ledger", "missing")


def be_process(program: Callable[[], object], arguments: list[str]) -> NoReturn:
    """Be this program: for `preexec_fn` of `subprocess`, after pipes have become standard streams.

    No other program is loaded then, whatever the command.
    """
    # among the others the pipe on which it would be said that another program was loaded
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, range(3), "rww", (-1, -1, 1))
    sys.argv[1:] = arguments
    try:
        program()
    except SystemExit as end:
        os._exit(end.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(1)
