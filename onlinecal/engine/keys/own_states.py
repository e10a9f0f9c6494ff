"""By which states a process knows again what it has dumped itself.

What comes from a disk is looked at before compiled code plays on it, which takes longer than playing. What
this process has written, with the same configuration, needs no look: it is known by a digest with a key that
nobody else has, and that no file holds. Those of the last so many keys are remembered; others are looked at.
"""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b

import numpy as np

KEYS = 1 << 18
"""Keys whose last states are remembered."""
SIZE = 12
"""Bytes of a digest."""

_secret = secrets.token_bytes(32)
_digests = np.zeros(KEYS, f"V{SIZE}")


def note_own(key: int, mark: bytes, state: bytes) -> None:
    """Remember what was dumped of a key, by its number; `mark`, at most 16 bytes, is of the configuration.

    Keys that are numbered without gaps do not take each other's places.
    """
    _digests[key % KEYS] = _digest(mark, state)


def is_own(key: int, mark: bytes, state: bytes) -> bool:
    """Whether it was this that was remembered of the key last."""
    return _digests[key % KEYS].tobytes() == _digest(mark, state)


def _digest(mark: bytes, state: bytes) -> bytes:
    return blake2b(state, digest_size=SIZE, key=_secret, salt=mark).digest()


def _forget() -> None:
    """A forked child may be asked to trust other files."""
    global _secret
    _secret = secrets.token_bytes(32)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
