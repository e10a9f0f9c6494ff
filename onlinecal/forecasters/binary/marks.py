"""Marks on the numbers 0 .. size - 1, of which the nearest is found in O(log size) steps.

Words of 32 bits stand one behind the other in a memory: a bit for each number, then a bit for each of those
words that is not zero, and so on up to a single word.
"""

from __future__ import annotations

from onlinecal.forecasters.binary.cells import Memory, inlined


@inlined
def n_words(size: int) -> int:
    """How many words the marks take up."""
    total = 0
    while True:
        size = (size + 31) >> 5
        total += size
        if size == 1:
            return total


@inlined
def highest_bit(word: int) -> int:
    """The place of the highest bit of a word that is not zero."""
    place = 0
    for half in (16, 8, 4, 2, 1):
        if word >> half:
            word >>= half
            place += half
    return place


@inlined
def mark(memory: Memory, start: int, size: int, number: int, on: bool) -> None:
    """Set the mark of a number, or clear it."""
    while True:
        place, bit = start + (number >> 5), 1 << (number & 31)
        old = memory[place]
        new = (old | bit) if on else (old & ~bit)
        memory[place] = new
        words = (size + 31) >> 5
        if words == 1 or (old == 0) == (new == 0):
            return
        start, size, number, on = start + words, words, number >> 5, new != 0


@inlined
def raise_marks(memory: Memory, start: int, size: int) -> None:
    """Fill in the words behind those of the numbers, which are clear."""
    while size > 32:
        size = (size + 31) >> 5
        for number in range(size):
            memory[start + size + (number >> 5)] |= (memory[start + number] != 0) << (number & 31)
        start += size


@inlined
def level_start(start: int, size: int, level: int) -> int:
    """Where the words of a level begin."""
    for _ in range(level):
        size = (size + 31) >> 5
        start += size
    return start


@inlined
def first_marked(memory: Memory, start: int, size: int, number: int) -> int:
    """The first marked number from `number` on, or `size`."""
    at, n, level = start, size, 0
    while number < n:
        word = memory[at + (number >> 5)] >> (number & 31)
        if word:
            number += highest_bit(word & -word)
            while level:
                level -= 1
                word = memory[level_start(start, size, level) + number]
                number = (number << 5) + highest_bit(word & -word)
            return number
        n = (n + 31) >> 5
        at, number, level = at + n, (number >> 5) + 1, level + 1
    return size


@inlined
def last_marked(memory: Memory, start: int, size: int, number: int) -> int:
    """The last marked number up to `number`, or -1."""
    at, n, level = start, size, 0
    while number >= 0:
        word = memory[at + (number >> 5)] & ((2 << (number & 31)) - 1)
        if word:
            number = (number & -32) + highest_bit(word)
            while level:
                level -= 1
                number = (number << 5) + highest_bit(memory[level_start(start, size, level) + number])
            return number
        n = (n + 31) >> 5
        at, number, level = at + n, (number >> 5) - 1, level + 1
    return -1
