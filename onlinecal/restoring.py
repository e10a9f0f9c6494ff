"""Learners that come back from a pickle get arrays of their own again.

Whoever unpickles an object decides where its arrays are in memory. Ray and `joblib.load(mmap_mode="r")` give
arrays that cannot be written to. Buffers of protocol 5 may have odd addresses, or share the memory of the
learner that was pickled. Compiled code writes to its state, and is compiled for arrays as numpy makes them.

Nothing here has a state. `Restored` copies the arrays that are attributes themselves; one in a list or in
another object is up to that object. What the arrays say is checked by subclasses, with `require`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def owned(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself if it owns its memory, in numpy's own layout; else a copy that does."""
    if type(array) is np.ndarray and array.flags.owndata and array.flags.carray:
        return array
    return np.array(array, order="C", subok=False)


DAMAGED = "the saved state is damaged or was changed: "
CHANGED = ". Load another copy of it"
"""The beginning and the end of the error below, which others replace by words of their own."""


def require(holds: bool, what: str) -> None:
    """ValueError, which names `what`, unless a condition holds for a state that came from outside."""
    if not holds:
        raise ValueError(f"{DAMAGED}{what} cannot be that of any run{CHANGED}")


class Restored:
    """A learner that goes on from its pickles, wherever their arrays lie.

    Forecasters, alarms, phases of adversaries and what wrappers steer by derive from it: classes that users
    pickle, and whose arrays compiled code writes to. A subclass that has more to check does so in its own
    `__setstate__`, after calling this one.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(
            {name: owned(value) if isinstance(value, np.ndarray) else value for name, value in state.items()}
        )
