"""Spec strings: what they mean, how they are written back, what is refused; and every short sequence once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import adversaries
from adversaries import all_sequences, sequence_chunks


@pytest.mark.parametrize(
    "spec, name",
    [
        ("coin", "coin"),
        ("coin:bias=0.5", "coin"),
        (" coin : bias = 0.70 ", "coin:bias=0.7"),
        ("coin:bias=1.0", "coin:bias=1"),
        ("blocks:length=1e2", "blocks:length=100"),
        ("sinusoidal-drift:amplitude=0.25,period=12.5", "sinusoidal-drift:period=12.5,amplitude=0.25"),
        ("two-phase:first=coin,second=threshold", "two-phase"),
        ("two-phase:first=coin:bias=0.7", "two-phase:first=coin:bias=0.7"),
        ("two-phase:switch=4,second=[blocks:length=3]", "two-phase:second=blocks:length=3,switch=4"),
        (
            "two-phase:first=[linear-drift:end=0.8,start=0.2],second=coin",
            "two-phase:first=[linear-drift:start=0.2,end=0.8],second=coin",
        ),
    ],
)
def test_specs_are_written_back_in_one_canonical_form(spec, name):
    assert adversaries.create(spec, horizon=10).name == name


@pytest.mark.parametrize(
    "spec, parts",
    [
        ("coyn", ["unknown adversary 'coyn'", "did you mean 'coin'?", "Known: alternating, "]),
        ("coin:bais=0.7", ["coin has no parameter 'bais'", "it takes bias"]),
        ("bernoulli-forecast:bias=1", ["bernoulli-forecast has no parameter 'bias'", "it takes none"]),
        ("coin:bias=1.5", ["coin: bias must be a number in [0, 1]", "'1.5'"]),
        ("blocks:length=0", ["blocks: length must be a whole number in [1, 1e+09]", "'0'"]),
        (
            "certificate-greedy:depth=0",
            ["certificate-greedy: depth must be a whole number in [1, 10]", "'0'"],
        ),
        ("constant:value=2", ["constant: value must be a whole number in [0, 1]", "'2'"]),
        ("sinusoidal-drift:centre=0.9", ["amplitude must be at most 0.1", "centre=0.9", "got 0.4"]),
        ("two-phase:first=coin],second=coin", ["square brackets", "do not match"]),
        ("two-phase:first=coyn", ["unknown adversary 'coyn'"]),
        ("two-phase:second=coin:bias=7", ["coin: bias must be", "'7'"]),
        ("two-phase:switch=10", ["switch must be less than the horizon of 10 rounds, got 10"]),
    ],
)
def test_a_bad_spec_is_refused_by_name_value_and_what_is_allowed(spec, parts):
    with pytest.raises(ValueError) as refusal:
        adversaries.create(spec, horizon=10)
    message = str(refusal.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message


@pytest.mark.parametrize("horizon", [0, -5, 2.5, "100", True])
def test_an_impossible_horizon_is_refused(horizon):
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1"):
        adversaries.create("coin", horizon=horizon)


def test_a_parameter_may_stand_in_for_the_horizon():
    assert adversaries.create("change-points:spacing=5").outcomes(20).shape == (20,)
    assert adversaries.create("two-phase:second=blocks,switch=5").outcomes(20).shape == (20,)
    with pytest.raises(ValueError, match=r"change-points needs a horizon.*spacing="):
        adversaries.create("change-points:changes=4")
    with pytest.raises(ValueError, match="linear-drift needs a horizon"):
        adversaries.create("two-phase:second=linear-drift,switch=5")


def test_two_phases_need_two_rounds():
    with pytest.raises(ValueError, match="at least 2 rounds, got 1"):
        adversaries.create("two-phase", horizon=1)


def test_describe_has_a_row_for_everyone_in_the_catalogue():
    rows = {row["name"]: row for row in adversaries.describe()}
    assert list(rows) == list(adversaries.catalogue())
    for name, kind in adversaries.catalogue().items():
        assert name == kind.name == kind.name.lower().replace("_", "-")
        assert rows[name]["power"] in {"oblivious", "adaptive", "internal", "mixed"}
        assert rows[name]["summary"]
        assert rows[name]["source"]
        assert "\n" not in rows[name]["summary"]
        assert all(f"{parameter.name}=" in rows[name]["parameters"] for parameter in kind.parameters)
        assert all(parameter.about and parameter.allowed for parameter in kind.parameters)
    assert rows["coin"]["parameters"] == "bias=0.5"


@pytest.mark.parametrize("kind", adversaries.catalogue().values(), ids=lambda kind: kind.name)
def test_every_default_is_an_allowed_value(kind):
    for parameter in kind.parameters:
        if parameter.default is not None and parameter.form != "adversary":
            assert parameter.read(str(parameter.default), kind.name) == parameter.default


def test_the_catalogue_handed_out_is_a_copy():
    adversaries.catalogue().clear()
    assert "coin" in adversaries.catalogue()


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
