"""Work during which Python's garbage collector rests.

Nothing here has a state: whether the collector is on is Python's, for all threads. The context leaves it as
it found it, also after an error and within itself, and no result depends on it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """A context in which the garbage collector is off; behind it, it is as it was before.

    It would look again and again at thousands of objects in use.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
