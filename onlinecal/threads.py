"""Work on one thread: threads that wait for each other make products of small matrices far slower."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Literal

from threadpoolctl import ThreadpoolController


def one_thread(libraries: Literal["blas"] | None = "blas") -> AbstractContextManager[Any]:
    """A context in which BLAS has one thread; with None every library that has threads."""
    return _controller(len(sys.modules)).limit(limits=1, user_api=libraries)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """The controller of loaded libraries, kept since finding them takes 3 ms and fits ask hundreds of times.

    Libraries are loaded with the modules that need them. So they are looked for again when there are more
    modules.
    """
    return ThreadpoolController()
