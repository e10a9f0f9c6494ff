"""Every sequence, once, in order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from adversaries import all_sequences, sequence_chunks


@pytest.mark.parametrize("T", [1, 2, 5, 10])
def test_all_sequences_are_there_in_binary_order(T):
    sequences = all_sequences(T)
    assert sequences.dtype == np.uint8
    assert sequences.shape == (2**T, T)
    assert [tuple(row) for row in sequences.tolist()] == list(itertools.product((0, 1), repeat=T))


@pytest.mark.parametrize("chunk", [1, 3, 256, 10_000])
def test_chunks_are_the_same_rows(chunk):
    chunks = list(sequence_chunks(8, chunk))
    assert all(len(rows) == min(chunk, 256) for rows in chunks[:-1])
    assert (np.concatenate(chunks) == all_sequences(8)).all()


def test_chunks_of_long_games_come_one_by_one():
    first = next(sequence_chunks(62, chunk=4))
    assert first[:, -2:].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert first[:, :-2].sum() == 0


@pytest.mark.parametrize("T", [0, -1, 2.0, "3", True])
def test_a_game_has_a_whole_number_of_rounds(T):
    for sequences in (all_sequences, sequence_chunks):
        with pytest.raises(ValueError, match="T must be a whole number of at least 1"):
            sequences(T)


def test_too_many_rounds_are_refused():
    with pytest.raises(ValueError, match=r"at most 20 .* got 21; use sequence_chunks"):
        all_sequences(21)
    with pytest.raises(ValueError, match="at most 62, got 63"):
        sequence_chunks(63)
    with pytest.raises(ValueError, match="chunk must be at least 1, got 0"):
        sequence_chunks(4, 0)
