"""Work on one thread: threads that wait for each other make products of small matrices far slower.

`_controller` keeps the last controller, and nothing else is kept. The limit is that of the process, while the
context lasts: it is set when the context is entered, and put back when it is left. With another number of
threads BLAS may add up in another order, so that fits have other last bits.
"""

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
