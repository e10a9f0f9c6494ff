"""Genomes and champions: what they spell, how they are written, and that stored claims are true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, calibration_distance
from onlinecal.adversaries import Genome, create, stored_champions

words = st.text("01", min_size=1, max_size=24)
genomes = st.lists(st.tuples(st.integers(1, 50), words), min_size=1, max_size=12).map(
    lambda blocks: Genome(tuple(blocks))
)


def spelled(genome, T):
    """The sequence letter by letter, straight from the definition."""
    shares = [share for share, _ in genome.blocks]
    sequence = []
    for i, (_, word) in enumerate(genome.blocks):
        begin, end = T * sum(shares[:i]) // sum(shares), T * sum(shares[: i + 1]) // sum(shares)
        sequence += [int(word[j % len(word)]) for j in range(end - begin)]
    return sequence


@settings(deadline=None)
@given(genomes, st.integers(1, 300))
def test_a_genome_is_its_words_repeated_for_their_shares(genome, T):
    outcomes = genome.outcomes(T)
    assert outcomes.dtype == np.uint8
    assert outcomes.tolist() == spelled(genome, T)
    assert create(f"genome:blocks={genome.text}", horizon=T).outcomes().tolist() == outcomes.tolist()


@given(genomes)
def test_a_genome_and_its_text_are_the_same(genome):
    assert Genome.parse(genome.text) == genome
    assert hash(Genome.parse(genome.text)) == hash(genome)
    spaced = "  ".join(f"0{block}" for block in genome.text.split())
    assert create(f"genome:blocks= {spaced} ", horizon=5).name == f"genome:blocks={genome.text}"


def test_the_last_word_goes_on_and_blocks_too_small_for_the_horizon_are_left_out():
    outcomes = create("genome:blocks=1x0 1x110", horizon=8).outcomes(14)
    assert outcomes.tolist() == [0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1]
    assert create("genome:blocks=1x0 1x1 8x01", horizon=5).outcomes().tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    "text, message",
    [
        ("3x1 2y0", "a share, an x and a word, as in 3x01, got '2y0'"),
        ("1x1 0x1", r"share of blocks\[1\] must be a whole number of at least 1, got 0"),
        ("1000001x1", r"share of blocks\[0\] must be at most 1000000, got 1000001"),
        *(
            (f"3x{word}", rf"word of blocks\[0\] must have 1 to 24 letters 0 and 1, got '{word}'")
            for word in ("2", "01" * 13)
        ),
        ("1x0 " * 1001, "a genome must have 1 to 1000 blocks, got 1001"),
        ("", "a genome must have 1 to 1000 blocks, got 0"),
    ],
)
def test_a_bad_genome_is_refused_by_its_block(text, message):
    with pytest.raises(ValueError, match=message):
        Genome.parse(text)
    with pytest.raises(ValueError, match=message if text else "genome: blocks must be a text, got ''"):
        create(f"genome:blocks=[{text}]", horizon=10)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: Genome(5), "blocks must be .share, word. pairs, .* got 5"),
        (lambda: Genome("1x0"), "blocks must be .share, word. pairs, .* got '1x0'"),
        (lambda: Genome(((1, "0"), 5)), r"blocks\[1\] must be a pair of a share and a word, .* got 5"),
        (lambda: Genome(((1, "0", 3),)), r"blocks\[0\] must be a pair .* got \(1, '0', 3\)"),
        (lambda: Genome.parse(None), "text must be a text such as '3x1 2x01', got None"),
        (lambda: Genome.parse("1x0").ends("7"), "T must be a whole number of at least 1, got '7'"),
        (lambda: Genome.parse("1x0").state(0), "T must be a whole number of at least 1, got 0"),
    ],
)
def test_what_is_no_genome_or_no_number_of_rounds_is_refused_by_name(refused, message):
    with pytest.raises(ValueError, match=message):
        refused()


def test_a_champion_is_its_genome():
    assert len(stored_champions()) >= 2
    for champion in stored_champions():
        played = create(f"champion:number={champion.number}", horizon=500)
        assert played.outcomes().tolist() == champion.genome.outcomes(500).tolist()
    numbers = [champion.number for champion in stored_champions()]
    assert numbers == sorted(set(numbers))
    with pytest.raises(ValueError, match=r"number must be one of 1, 2.* got 999999"):
        create("champion:number=999999", horizon=10)


@pytest.mark.parametrize(
    "number", [one.number for one in stored_champions() if one.against in ("paper", "adaptive")]
)
def test_a_stored_champion_does_what_the_file_says(number):
    champion = next(one for one in stored_champions() if one.number == number)
    T, outcomes = champion.rounds, champion.genome.outcomes(champion.rounds)
    paper = {"horizon": T, "rule": "sign", "report": "lower"}
    forecasts = AlmostOneStepAhead(**(paper if champion.against == "paper" else {})).replay(outcomes)
    distance = calibration_distance(forecasts, outcomes, method="exact").exact
    assert distance / np.sqrt(T) == pytest.approx(champion.distance_over_root, abs=1e-4)
