"""Sequences written as genomes, which are a few words that are each repeated for a share; stored champions.

A genome is short enough to be searched for, and it has no length of its own: it can be found on a small
horizon, where the distance to calibration is quickly computed, and played on a large one.

The champions were bred. Genomes were mutated and crossed over hundreds of generations, and those were kept
whose games ended with the largest exact distances to calibration. champions.toml beside this file has a table
for each. It is read only when a champion is asked for.

A `Genome` never changes. The state of its step is a table of its words and of where each ends, made once for
a horizon (`Genome.state`), with the present block and its first round in front. The step writes these two
alone. A word is kept as a binary number in a double, so LONGEST_WORD can be 53 at most.

The number of a champion is written into specs and results of sweeps. The digest of a finished game does not
see champions.toml: a champion that is bred anew gets a new number, and the genome of an old one stays.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from onlinecal.adversaries.protocol import Kind, State, state_of, whole
from onlinecal.catalogue import Parameter
from onlinecal.texts import shown
from onlinecal.validation import check_count

Block = tuple[int, str]
"""A share of the horizon, relative to the shares of other blocks, and the word that is repeated in it."""

MOST_BLOCKS = 1000
LONGEST_WORD = 24
LARGEST_SHARE = 1_000_000


@dataclass(frozen=True)
class Genome:
    """A sequence of outcomes 0 and 1 for any number of rounds, written as blocks of repeated words.

    Of T rounds each block gets its share, in the order of the blocks, and repeats its word there from the
    first letter on, until its rounds are over. A block ends before the round T * (the shares up to and with
    it) // (all shares), counted from 0.

    Parameters
    ----------
    blocks
        (share, word) pairs, 1 to 1000 of them: whole shares from 1 to 1,000,000, each relative to the sum of
        all shares, and words of 1 to 24 letters 0 and 1.

    Raises
    ------
    ValueError
        For anything else; the error names the block, counted from 0, and what is wrong with it.

    Examples
    --------
    >>> genome = Genome.parse("2x0 1x011")
    >>> genome.blocks
    ((2, '0'), (1, '011'))
    >>> genome.outcomes(12)
    array([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0], dtype=uint8)
    >>> genome.text
    '2x0 1x011'
    """

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if isinstance(self.blocks, str) or not isinstance(self.blocks, Iterable):
            raise ValueError(
                f"blocks must be (share, word) pairs, as ((3, '1'), (2, '01')), got {shown(self.blocks)}"
            )
        checked = tuple(_checked(block, f"blocks[{i}]") for i, block in enumerate(self.blocks))
        object.__setattr__(self, "blocks", checked)
        if not 1 <= len(self.blocks) <= MOST_BLOCKS:
            raise ValueError(f"a genome must have 1 to {MOST_BLOCKS} blocks, got {len(self.blocks)}")

    @classmethod
    def parse(cls, text: str) -> Genome:
        """The genome that a text like "3x1 2x0 5x01" spells: blocks of a share, an x and a word, with spaces.

        Raises ValueError for anything else; the error names the block.
        """
        if not isinstance(text, str):
            raise ValueError(f"text must be a text such as '3x1 2x01', got {shown(text)}")
        blocks = []
        for written in text.split():
            share, cross, word = written.partition("x")
            if not (cross and share.isascii() and share.isdigit()):
                raise ValueError(
                    f"a block of a genome must be a share, an x and a word, as in 3x01, got {written!r}"
                )
            blocks.append((int(share), word))
        return cls(tuple(blocks))

    @property
    def text(self) -> str:
        """The genome as text, which `parse` reads back."""
        return " ".join(f"{share}x{word}" for share, word in self.blocks)

    def ends(self, T: int) -> list[int]:
        """For each block the round, counted from 0, before which it ends if `T` rounds are played.

        It is a new list, whose last number is T. Raises ValueError unless T is a whole number from 1 on.
        """
        T = check_count(T, "T")
        shares = [share for share, _ in self.blocks]
        return [T * share // sum(shares) for share in accumulate(shares)]

    def outcomes(self, T: int) -> NDArray[np.uint8]:
        """The outcomes of `T` rounds, a new uint8 array of shape (T,).

        Raises ValueError unless T is a whole number from 1 on.
        """
        T = check_count(T, "T")
        ends = self.ends(T)
        sequence = np.empty(T, dtype=np.uint8)
        for (_, word), begin, end in zip(self.blocks, [0, *ends], ends, strict=False):
            letters = np.frombuffer(word.encode(), dtype=np.uint8) - ord("0")
            sequence[begin:end] = np.resize(letters, end - begin)
        return sequence

    def state(self, T: int) -> State:
        """The `state` of a `Phase` that plays this genome over `T` rounds: a new float64 array.

        The phase's step is `catalogue()["genome"].step`. Raises ValueError unless T is a whole number from 1
        on.
        """
        table: list[float] = []
        for (_, word), end in zip(self.blocks, self.ends(T), strict=True):
            table += [end, len(word), int(word, 2)]
        return state_of(len(self.blocks), 0, 0, *table)


@register_jitable
def genome_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """The next letter of the present block's word; after the last block's end its word goes on.

    State: [blocks, present block, its first round, then for each block: the round before which it ends, the
    length of its word, its word read as a binary number].
    """
    block = int(state[1])
    while block < int(state[0]) - 1 and t >= state[3 + 3 * block]:
        state[2] = state[3 + 3 * block]
        block += 1
    state[1] = block
    length = int(state[4 + 3 * block])
    letter = (t - int(state[2])) % length
    return (int(state[5 + 3 * block]) >> (length - 1 - letter)) & 1


def genome_initial(values: Mapping[str, Any], horizon: int) -> State:
    """The state of `genome_step` for the genome in `blocks`."""
    return Genome.parse(values["blocks"]).state(horizon)


def canonical_text(text: str) -> str:
    """A genome's text with single spaces and without leading zeros; ValueError as from `Genome.parse`."""
    return Genome.parse(text).text


def _checked(block: Any, name: str) -> Block:
    if not isinstance(block, (tuple, list)) or len(block) != 2:
        raise ValueError(f"{name} must be a pair of a share and a word, as (2, '01'), got {shown(block)}")
    share, word = block
    share = check_count(share, f"the share of {name}", most=LARGEST_SHARE)
    if not isinstance(word, str) or not 1 <= len(word) <= LONGEST_WORD or set(word) - {"0", "1"}:
        raise ValueError(
            f"the word of {name} must have 1 to {LONGEST_WORD} letters 0 and 1, got {shown(word)}"
        )
    return (share, word)


GENOME = Kind(
    "genome",
    "words of zeros and ones, each repeated for its share of the horizon: 3x1 2x01 is 111..., then 0101...",
    "oblivious",
    "this library",
    (
        Parameter(
            "blocks",
            None,
            "share x word, with spaces between them",
            form="text",
            required=True,
            canonical=canonical_text,
        ),
    ),
    genome_step,
    genome_initial,
    needs_horizon=True,
)


class Champion(NamedTuple):
    """A genome that was bred against a forecaster, and the distance that it reached.

    Attributes
    ----------
    number
        Its number, at least 1: the spec `champion:number=...` makes an adversary that plays it.
    against
        The forecaster, as a spec that `onlinecal simulate --forecaster` takes: a name, perhaps with settings.
    rounds
        T, the rounds of the game in which it was measured.
    distance_over_root
        The distance to calibration in that game, a sum over rounds, divided by sqrt(T).
    genome
        The sequence that it plays.
    found_by
        How it was found, in a few words.
    """

    number: int
    against: str
    rounds: int
    distance_over_root: float
    genome: Genome
    found_by: str


@cache
def stored_champions() -> tuple[Champion, ...]:
    """Every `Champion` that comes with the library, in the order of their numbers."""
    text = resources.files(__package__).joinpath("champions.toml").read_text(encoding="utf-8")
    return tuple(
        Champion(**{**table, "genome": Genome.parse(table["genome"])})
        for table in tomllib.loads(text)["champion"]
    )


def champion_initial(values: Mapping[str, Any], horizon: int) -> State:
    """The state of `genome_step` for a stored champion; ValueError lists the numbers there are."""
    stored = {champion.number: champion for champion in stored_champions()}
    number = values["number"]
    if number not in stored:
        known = ", ".join(map(str, sorted(stored)))
        raise ValueError(f"champion: number must be one of {known}, got {number}")
    return stored[number].genome.state(horizon)


CHAMPION = Kind(
    "champion",
    "a stored genome that was found to be hard for a forecaster",
    "oblivious",
    "this library, found by search",
    (whole("number", 1, "which one", high=1_000_000),),
    genome_step,
    champion_initial,
    needs_horizon=True,
)
