"""The hash table of texts, beside a dict."""

from __future__ import annotations

import random

import numpy as np

from onlinecal.engine.columns.columns import (
    SEED,
    WORD,
    find_texts,
    forget_texts,
    joined,
    no_texts,
    put_texts,
    with_room,
)


def random_text(rng):
    """Many have the same length, or the same first words."""
    return "x" * rng.choice([0, 8, 16]) + "".join(rng.choices("abc", k=rng.randint(1, 9)))


def numbers_of(texts, wanted):
    found = np.empty(len(wanted), np.int64)
    find_texts(texts, *joined(wanted), SEED, found)
    return found.tolist()


def test_texts_have_the_numbers_that_they_were_given():
    rng, there, texts, size = random.Random(0), {}, no_texts(), 0
    for _ in range(300):
        new = sorted({random_text(rng) for _ in range(rng.randrange(9))} - there.keys())
        free = [number for number in range(size) if number not in there.values()]
        if len(free) < len(new):
            size = 2 * size + len(new)
            texts = with_room(texts, size, rng.choice([1, 4]))
            free = [number for number in range(size) if number not in there.values()]
        width = max((-(-len(text) // WORD) for text in new), default=1)
        if width > texts.words.shape[1]:
            texts = with_room(texts, size, width)
        given = rng.sample(free, len(new))
        put_texts(texts, *joined(new), SEED, np.array(given, np.int64))
        there.update(zip(new, given, strict=True))
        for text in rng.sample(sorted(there), min(len(there), rng.randrange(8))):
            forget_texts(texts, np.array([there.pop(text)]))
        sought = [*there, *(random_text(rng) for _ in range(5))]
        assert numbers_of(texts, sought) == [there.get(text, -1) for text in sought]
    assert len(there) > 20
    assert np.count_nonzero(texts.slots) == len(there)


def test_a_text_longer_than_all_is_not_there():
    texts = with_room(no_texts(), 4, 1)
    put_texts(texts, *joined(["k"]), SEED, np.array([2]))
    assert numbers_of(texts, ["k", "k" * 200, "kk"]) == [2, -1, -1]
