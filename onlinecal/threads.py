"""Work on one thread: threads that wait for each other take far longer over products of small matrices."""

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
    """What controls the libraries that are loaded: finding them takes 3 ms, and a fit asks hundreds of times.

    A library comes with a module that needs it, so they are looked for again when modules have been imported.
    """
    return ThreadpoolController()
