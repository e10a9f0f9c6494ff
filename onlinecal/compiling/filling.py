"""A child process that compiles what the interpreter has begun, and keeps it where its parent looks for it.

The child ends when it is done, or as soon as its parent ends in any way. `beginning` starts one, and asks
`is_busy` before, so that a process has one child at a time; if two threads ask at once there may be two, of
which one compiles a kernel and the other waits for it. `_running` is the child that was started last, whether
it has ended or not; `start` alone writes it. Parent and child share nothing but the folder of compiled code,
where a file is complete or not there. So a child may be killed at any time.
"""

from __future__ import annotations

import atexit
import base64
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from numba.core import config
from numba.core.serialize import dumps

from onlinecal.compiling.folder import kept_in

if TYPE_CHECKING:
    from onlinecal.compiling.beginning import Address

Wanted = dict[str, tuple[Any, ...]]
"""The names of entries, with the types of arguments that they are compiled for."""

PROGRAM = """
import sys
sys.path[:] = sys.argv[3:]
from onlinecal.compiling import filling
filling.fill(int(sys.argv[1]), sys.argv[2])
"""
PARENT_LOOKS_APART = 0.5
"""A child looks every so many seconds whether its parent is there."""


class Filling:
    """A child process at work."""

    def __init__(self, address: Address, wanted: Wanted) -> None:
        work = base64.b64encode(dumps((address, wanted))).decode()
        # an interrupt from the keyboard is for the parent alone
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, str(os.getpid()), work, *filter(None, sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | ({"NUMBA_CACHE_DIR": config.CACHE_DIR} if config.CACHE_DIR else {}),
            start_new_session=True,
        )
        self._parent = os.getpid()

    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self._parent != os.getpid() or self._process.poll() is not None

    def stop(self) -> None:
        """End the child process; the kernels that it has finished are kept."""
        if not self.is_over():
            self._process.kill()
            self._process.wait()


_running: Filling | None = None


def is_busy() -> bool:
    """Whether a child of this process is at work."""
    return _running is not None and not _running.is_over()


def is_possible() -> bool:
    """Whether a child can be started, and its compiled code can be kept."""
    return hasattr(os, "fork") and bool(sys.executable) and kept_in() is not None


def start(address: Address, wanted: Wanted) -> None:
    """Have a child compile these entries; do nothing if it cannot be started."""
    global _running
    with suppress(OSError):
        _running = Filling(address, wanted)


@atexit.register
def _stop() -> None:
    if _running is not None:
        _running.stop()


def fill(parent: int, work: str) -> None:
    """Compile the entries of the pickled work: the whole work of the child."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    address, wanted = pickle.loads(base64.b64decode(work))
    beginning = address.reach()
    for name, types in wanted.items():
        beginning.entries[name].kernel.compile(types)


def _watch(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(PARENT_LOOKS_APART)
    os._exit(1)
