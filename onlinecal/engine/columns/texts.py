"""Which number a text has: a hash table of short texts, read and written by compiled code.

A text is ASCII without NUL. Its bytes stand in words of 8, the rest of its row is 0, so rows are equal only
if texts are. What is sought comes as the bytes of a line, and becomes no Python object.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Ints
from onlinecal.compiling import compiled
from onlinecal.compiling.borrowed import borrowed
from onlinecal.forecasters.binary.cells import inlined

WORD = 8
"""Bytes of a word."""
SEED = secrets.randbits(62)
"""Nobody can choose texts that all fall into one place."""
FACTOR = 0x2545F4914F6CDD1D


class Texts(NamedTuple):
    """Texts by number.

    Attributes
    ----------
    slots
        A number + 1, 0 where there is none; as many as a power of two, twice those of numbers or more.
    hashes
        Those of the texts; (n,).
    words
        The texts; (n, width).
    """

    slots: Ints
    hashes: Ints
    words: Ints


@inlined
def lent(texts: Any) -> Any:
    """The same texts, to loops that count no references to their arrays."""
    return Texts(borrowed(texts.slots), borrowed(texts.hashes), borrowed(texts.words))


@inlined
def word_at(data: Any, at: int, end: int) -> int:
    """Up to 8 bytes of a text."""
    found: Any = 0
    for j in range(min(WORD, end - at)):
        found |= np.int64(data[at + j]) << (8 * j)
    return found


@inlined
def hash_of(data: Any, start: int, end: int, seed: int) -> int:
    """A text's hash."""
    found: Any = seed
    for at in range(start, end, WORD):
        found = (found ^ word_at(data, at, end)) * FACTOR
        found ^= found >> 31
    return found


@inlined
def is_text(words: Any, number: int, data: Any, start: int, end: int) -> bool:
    """Whether this number's text is that of some bytes."""
    width = words.shape[1]
    if end - start > WORD * width:
        return False
    for j in range(width):  # noqa: SIM110
        if words[number, j] != word_at(data, min(start + WORD * j, end), end):
            return False
    return True


@inlined
def place_of(texts: Any, data: Any, start: int, end: int, seed: int) -> int:
    """The slot of a text, or the free one where it would be."""
    slots, hashes, words = texts.slots, texts.hashes, texts.words
    sought, mask = hash_of(data, start, end, seed), len(slots) - 1
    at = sought & mask
    while slots[at] != 0:
        number = slots[at] - 1
        if hashes[number] == sought and is_text(words, number, data, start, end):
            break
        at = (at + 1) & mask
    return at


@inlined
def put_text(texts: Any, number: int, data: Any, start: int, end: int, seed: int, at: int) -> None:
    """Give a number a text, which has room in a row, and the slot where it would be."""
    texts.hashes[number] = hash_of(data, start, end, seed)
    for j in range(texts.words.shape[1]):
        texts.words[number, j] = word_at(data, min(start + WORD * j, end), end)
    texts.slots[at] = number + 1


@inlined
def take_away(texts: Any, number: int) -> None:
    """Forget a number's text, if it has it still; others that it had sent further come nearer."""
    slots, hashes = texts.slots, texts.hashes
    mask = len(slots) - 1
    free = hashes[number] & mask
    while slots[free] != number + 1:
        if slots[free] == 0:
            return
        free = (free + 1) & mask
    at = free
    while True:
        at = (at + 1) & mask
        if slots[at] == 0:
            break
        wanted = hashes[slots[at] - 1] & mask
        if ((at - wanted) & mask) >= ((at - free) & mask):
            slots[free] = slots[at]
            free = at
    slots[free] = 0


@compiled
def put_back(texts: Texts, numbers: Ints) -> None:
    """Enter the texts of some numbers, which have rows and hashes, into slots that are all free."""
    slots, mask = texts.slots, len(texts.slots) - 1
    for number in numbers:
        at = texts.hashes[number] & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = number + 1


@compiled
def forget_texts(texts: Texts, numbers: Ints) -> None:
    """Forget the texts of some numbers."""
    for number in numbers:
        take_away(texts, number)


@compiled
def find_texts(texts: Texts, data: Any, spans: Ints, seed: int, found: Ints) -> None:
    """The numbers of texts, -1 for one that has none; `spans` are their first bytes and ends, (n, 2)."""
    for i in range(len(spans)):
        found[i] = texts.slots[place_of(texts, data, spans[i, 0], spans[i, 1], seed)] - 1


@compiled
def put_texts(texts: Texts, data: Any, spans: Ints, seed: int, numbers: Ints) -> None:
    """Give numbers, which have none, texts that have room in a row; who had the same has it no longer."""
    for i in range(len(spans)):
        start, end = spans[i, 0], spans[i, 1]
        put_text(texts, numbers[i], data, start, end, seed, place_of(texts, data, start, end, seed))


def no_texts() -> Texts:
    """No number yet."""
    return Texts(np.zeros(2, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.int64))


def with_room(texts: Texts, size: int, width: int) -> Texts:
    """The same texts with room for numbers below `size` and as many words a row."""
    words = np.zeros((size, max(width, texts.words.shape[1])), np.int64)
    words[: len(texts.words), : texts.words.shape[1]] = texts.words
    hashes = np.zeros(size, np.int64)
    hashes[: len(texts.hashes)] = texts.hashes
    larger = Texts(np.zeros(max(2, 2 << (size - 1).bit_length()), np.int64), hashes, words)
    put_back(larger, texts.slots[texts.slots > 0] - 1)
    return larger


def joined(texts: list[str]) -> tuple[NDArray[np.uint8], Ints]:
    """The bytes of texts one behind the other, and their spans, (n, 2)."""
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    if len(texts) == 1:
        return data, np.array([[0, len(data)]])
    ends = np.cumsum([0, *map(len, texts)])
    return data, np.column_stack([ends[:-1], ends[1:]])
