"""How genomes are varied: mutations of their blocks, and crossover by cutting two of them at one round.

All of it works on blocks whose shares are rounds of one fixed horizon (`normalised`), so that the smallest
change moves a border by one round. The ranges are narrower than a genome allows: short words and few blocks
are what can be told from a picture, and played at another horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from adversaries import Genome

Blocks = list[tuple[int, str]]
Random = np.random.Generator

MOST_BLOCKS = 40
LONGEST_WORD = 12
FIRST_BLOCKS = 8
"""Most blocks of a genome that is made from nothing."""
FLIP = str.maketrans("01", "10")


def normalised(blocks: Blocks, rounds: int) -> Genome:
    """The genome of these blocks with shares that count rounds; it plays the same in a game of so many.

    Blocks without a round go, words that repeat themselves are shortened, neighbours that play on as one
    become one. At most 40 blocks are kept, the longest.
    """
    ends = [0, *Genome(tuple(blocks)).ends(rounds)]
    pieces = [
        (end - begin, _root(word))
        for (begin, end), (_, word) in zip(pairwise(ends), blocks, strict=True)
        if end > begin
    ]
    while len(pieces) > MOST_BLOCKS:
        shortest = min(range(len(pieces)), key=lambda place: pieces[place][0])
        length, _ = pieces.pop(shortest)
        beside = min(shortest, len(pieces) - 1)
        pieces[beside] = (pieces[beside][0] + length, pieces[beside][1])
    joined = pieces[:1]
    for length, word in pieces[1:]:
        before, said = joined[-1]
        if said == word and before % len(word) == 0:
            joined[-1] = (before + length, word)
        else:
            joined.append((length, word))
    return Genome(tuple(joined))


def random_genome(rng: Random, rounds: int) -> Genome:
    """A few blocks of short words; every other one is a single letter, which pushes in one direction."""
    number = int(rng.integers(1, FIRST_BLOCKS + 1))
    return normalised([_random_block(rng, rounds) for _ in range(number)], rounds)


def crossed(one: Genome, other: Genome, rng: Random, rounds: int) -> Genome:
    """The first genome up to some round, the second one from there on."""
    if rounds < 2:
        return one
    cut = int(rng.integers(1, rounds))
    first, second = normalised(list(one.blocks), rounds), normalised(list(other.blocks), rounds)
    return normalised(_until(first, cut) + _after(second, cut), rounds)


def mutated(genome: Genome, rng: Random, rounds: int) -> Genome:
    """One to three random mutations."""
    blocks = list(normalised(list(genome.blocks), rounds).blocks)
    for _ in range(1 + int(rng.geometric(0.6) > 1) + int(rng.random() < 0.1)):
        change = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
        blocks = change(blocks, int(rng.integers(len(blocks))), rng, rounds) or blocks
    return normalised(blocks, rounds)


def stretch(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """One block longer or shorter at the cost of all others."""
    share, word = blocks[place]
    factor = np.exp(rng.normal(0.0, 0.5))
    return [*blocks[:place], (max(1, round(share * factor)), word), *blocks[place + 1 :]]


def shift_border(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """The border with the next block moved by a few rounds, the others where they were."""
    if len(blocks) < 2:
        return blocks
    place = min(place, len(blocks) - 2)
    (share, word), (after, next_word) = blocks[place : place + 2]
    by = int(rng.integers(1, 1 + max(1, min(rounds // 20, 8)))) * (1 if rng.random() < 0.5 else -1)
    moved = min(max(share + by, 0), share + after)
    pair = [(moved, word), (share + after - moved, next_word)]
    return [*blocks[:place], *(block for block in pair if block[0] > 0), *blocks[place + 2 :]]


def change_letter(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """One letter of a word turned over."""
    share, word = blocks[place]
    at = int(rng.integers(len(word)))
    return [
        *blocks[:place],
        (share, word[:at] + word[at].translate(FLIP) + word[at + 1 :]),
        *blocks[place + 1 :],
    ]


def add_letter(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """One letter more in a word."""
    share, word = blocks[place]
    at = int(rng.integers(len(word) + 1))
    longer = word[:at] + "01"[int(rng.integers(2))] + word[at:]
    return [*blocks[:place], (share, longer[:LONGEST_WORD]), *blocks[place + 1 :]]


def drop_letter(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """One letter less in a word of more than one."""
    share, word = blocks[place]
    at = int(rng.integers(len(word)))
    return [*blocks[:place], (share, word[:at] + word[at + 1 :] or word), *blocks[place + 1 :]]


def split(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """A block cut in two, the second part with one letter changed or another word."""
    share, word = blocks[place]
    if share < 2:
        return blocks
    cut = int(rng.integers(1, share))
    turned = word[cut % len(word) :] + word[: cut % len(word)]
    parts: Blocks = [(cut, word), (share - cut, turned)]
    new = change_letter(parts, 1, rng, rounds)[1] if rng.random() < 0.5 else (share - cut, _word(rng))
    return [*blocks[:place], (cut, word), new, *blocks[place + 1 :]]


def merge(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """A block takes over the rounds of the next one."""
    if len(blocks) < 2:
        return blocks
    place = min(place, len(blocks) - 2)
    pair = blocks[place : place + 2]
    word = pair[int(rng.integers(2))][1]
    return [*blocks[:place], (pair[0][0] + pair[1][0], word), *blocks[place + 2 :]]


def swap(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """Two blocks change places."""
    other = int(rng.integers(len(blocks)))
    answer = list(blocks)
    answer[place], answer[other] = answer[other], answer[place]
    return answer


def duplicate(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """A block once more, somewhere."""
    at = int(rng.integers(len(blocks) + 1))
    return [*blocks[:at], blocks[place], *blocks[at:]]


def insert(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """A new block before another."""
    return [*blocks[:place], _random_block(rng, max(1, rounds // 4)), *blocks[place:]]


def drop(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """A block less."""
    return [*blocks[:place], *blocks[place + 1 :]] if len(blocks) > 1 else blocks


def flip(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """Zeros and ones exchanged: in one block, or from it on."""
    last = place + 1 if rng.random() < 0.5 else len(blocks)
    turned = [(share, word.translate(FLIP)) for share, word in blocks[place:last]]
    return [*blocks[:place], *turned, *blocks[last:]]


def rotate(blocks: Blocks, place: int, rng: Random, rounds: int) -> Blocks:
    """A word that begins elsewhere."""
    share, word = blocks[place]
    at = int(rng.integers(len(word)))
    return [*blocks[:place], (share, word[at:] + word[:at]), *blocks[place + 1 :]]


MUTATIONS: tuple[Callable[[Blocks, int, Random, int], Blocks], ...] = (
    stretch, stretch, shift_border, shift_border, change_letter, add_letter, drop_letter, split, merge, swap,
    duplicate, insert, drop, flip, rotate,
)  # fmt: skip
"""What may happen to a block; lengths change most often."""


def _word(rng: Random) -> str:
    if rng.random() < 0.5:
        return "01"[int(rng.integers(2))]
    return "".join("01"[int(bit)] for bit in rng.integers(2, size=int(rng.integers(2, 7))))


def _random_block(rng: Random, most: int) -> tuple[int, str]:
    return 1 + int(most * rng.random() ** 2), _word(rng)


def _root(word: str) -> str:
    """The shortest word of which this one is a repetition."""
    for length in range(1, len(word)):
        if len(word) % length == 0 and word[:length] * (len(word) // length) == word:
            return word[:length]
    return word


def _until(genome: Genome, cut: int) -> Blocks:
    answer: Blocks = []
    for share, word in genome.blocks:
        if cut <= 0:
            break
        answer.append((min(share, cut), word))
        cut -= share
    return answer


def _after(genome: Genome, cut: int) -> Blocks:
    answer: Blocks = []
    for share, word in genome.blocks:
        if cut < share:
            skipped = max(cut, 0) % len(word)
            answer.append((share - max(cut, 0), word[skipped:] + word[:skipped]))
        cut -= share
    return answer
