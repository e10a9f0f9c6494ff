"""The one way to compile: every kernel of the library is compiled, and kept on disk, by the same rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """A kernel: compiled at its first call with arguments of these types, or loaded from disk."""
    return njit(cache=True)(function)
