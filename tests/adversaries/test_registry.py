"""Spec strings, one's own adversaries in the catalogue, and every short sequence once."""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
from numba.extending import register_jitable

import adversaries
from adversaries import Kind, Parameter, Phase, all_sequences, registry, sequence_chunks
from adversaries.kinds import mixture
from adversaries.streams import replay_step
from tests import ROOT
from tests.adversaries.play import play_compiled, play_plainly, scripted_game


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


def test_a_horizon_is_a_number_of_rounds_for_which_a_parameter_may_stand_in():
    for horizon in (0, -5, 2.5, "100", True):
        with pytest.raises(ValueError, match="horizon must be a whole number of at least 1"):
            adversaries.create("coin", horizon=horizon)
    assert adversaries.create("change-points:spacing=5").outcomes(20).shape == (20,)
    assert adversaries.create("two-phase:second=blocks,switch=5").outcomes(20).shape == (20,)
    for spec, horizon, message in (
        ("change-points:changes=4", None, r"change-points needs a horizon.*spacing="),
        ("two-phase:second=linear-drift,switch=5", None, "linear-drift needs a horizon"),
        ("two-phase", 1, "at least 2 rounds, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            adversaries.create(spec, horizon)


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
        for parameter in kind.parameters:
            if parameter.default is not None and parameter.form != "adversary":
                assert parameter.read(str(parameter.default), name) == parameter.default
    assert rows["coin"]["parameters"] == "bias=0.5"
    # what is handed out is a copy
    adversaries.catalogue().clear()
    assert "coin" in adversaries.catalogue()


@pytest.mark.parametrize("T", [1, 2, 5, 10])
def test_all_sequences_are_there_in_binary_order_at_once_and_in_chunks(T):
    sequences = all_sequences(T)
    assert sequences.dtype == np.uint8
    assert [tuple(row) for row in sequences.tolist()] == list(itertools.product((0, 1), repeat=T))
    for chunk in (1, 3, 256, 10_000):
        chunks = list(sequence_chunks(T, chunk))
        assert all(len(rows) == min(chunk, 2**T) for rows in chunks[:-1])
        assert (np.concatenate(chunks) == sequences).all()


def test_chunks_of_long_games_come_one_by_one():
    first = next(sequence_chunks(62, chunk=4))
    assert first[:, -2:].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert first[:, :-2].sum() == 0


@pytest.mark.parametrize(
    "listed, arguments, message",
    [
        *((one, (T,), "T must be a whole number of at least 1")
          for one in (all_sequences, sequence_chunks) for T in (0, -1, 2.0, "3", True)),
        (all_sequences, (21,), r"at most 20 .* got 21; use sequence_chunks"),
        (sequence_chunks, (63,), "at most 62, got 63"),
        (sequence_chunks, (4, 0), "chunk must be at least 1, got 0"),
    ],
)  # fmt: skip
def test_games_of_other_lengths_are_not_listed(listed, arguments, message):
    with pytest.raises(ValueError, match=message):
        listed(*arguments)


PAGE = (ROOT / "docs" / "adversaries.md").read_text()


@pytest.fixture(autouse=True)
def catalogue(monkeypatch):
    """A catalogue of the test's own."""
    monkeypatch.setattr(registry._CATALOGUE, "entries", adversaries.catalogue())


@register_jitable
def echo_step(state, t, forecast, rise_zero, rise_one, u):
    outcome = int(state[1]) if t else 0
    state[1] = u < state[0]
    return outcome


def echo_initial(values, horizon):
    return np.array([values["bias"], 0.0])


ECHO = Kind(
    "late-coin",
    "a coin whose tosses come a round late",
    "oblivious",
    "this test",
    (Parameter("bias", 0.5, "probability of a 1", low=0.0, high=1.0),),
    echo_step,
    echo_initial,
)


def test_a_registered_adversary_is_created_described_and_mixed():
    with pytest.raises(ValueError, match="unknown adversary 'late-coin'"):
        adversaries.create("late-coin")
    adversaries.register(ECHO)
    assert adversaries.catalogue()["late-coin"] is ECHO
    assert adversaries.describe()[-1]["parameters"] == "bias=0.5"
    adversary = adversaries.create("late-coin:bias=0.70", seed=3)
    assert adversary.name == "late-coin:bias=0.7"
    tosses = np.random.default_rng(3).random(50) < 0.7
    assert adversary.outcomes(50).tolist() == [0, *tosses[:-1]]
    game = scripted_game(200)
    mixed = adversaries.create("mixture:first=late-coin,second=bias-builder", seed=1)
    assert play_plainly(mixed, *game) == play_compiled(mixed, *game)


def test_a_composed_adversary_may_be_registered_too():
    def fixed(values, horizon, build):
        return (Phase(replay_step, np.array([1.0, 0.0, 1.0]), 3, "oblivious"), *build("coin:bias=1", horizon))

    adversaries.register(Kind("one-nought-one", "101, then ones", "oblivious", "this test", compose=fixed))
    assert adversaries.create("one-nought-one").outcomes(6).tolist() == [1, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"name": "LateCoin"}, "must be in kebab-case, like early-stopped-coin, got 'LateCoin'"),
        ({"name": "late-coin\n"}, "kebab-case"),
        ({"name": None}, "kebab-case"),
        ({"step": None}, "late-coin: step must be callable, got None"),
        ({"initial": 5}, "late-coin: initial must be callable, got 5"),
        ({"compose": "echo"}, "late-coin: compose must be callable, got 'echo'"),
        ({"power": "strong"}, "power must be one of oblivious, .* got 'strong'"),
        ({"depth_parameter": "depth"}, "late-coin has no parameter 'depth'; it takes bias"),
        ({"horizon_unless": "spacing"}, "late-coin has no parameter 'spacing'"),
    ],
)
def test_a_kind_that_cannot_be_played_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        adversaries.register(replace(ECHO, **changes))
    assert "late-coin" not in adversaries.catalogue()
    with pytest.raises(ValueError, match="only a Kind can be registered"):
        adversaries.register(echo_step)


MODULE = """
from adversaries import Kind, register
from adversaries.protocol import state_of
from numba.extending import register_jitable

@register_jitable
def own_step(state, t, forecast, rise_zero, rise_one, u):
    return VALUE

register(Kind("own", "always VALUE", "oblivious", "me", (), own_step, lambda values, horizon: state_of()))
"""


def test_a_reloaded_module_replaces_its_adversary_and_its_mixtures(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "adversary_of_a_test.py"
    names = []
    for value in ("0", "1"):
        file.write_text(MODULE.replace("VALUE", value))
        importlib.invalidate_caches()
        known = sys.modules.get(file.stem)
        module = importlib.import_module(file.stem) if known is None else importlib.reload(known)
        assert adversaries.create("own").outcomes(3).tolist() == [int(value)] * 3
        mixed = adversaries.create("mixture:first=own,second=own")
        assert mixed.outcomes(3).tolist() == [int(value)] * 3
        names.append(mixed.phases[0].step.__qualname__)
        assert mixture.mixture_step(module.own_step, module.own_step) is mixed.phases[0].step
    assert names[0] != names[1]
    monkeypatch.delitem(sys.modules, file.stem)


def test_every_adversary_has_its_line_on_the_page():
    table = PAGE.partition("\n## All of them\n")[2].partition("\n## ")[0]
    lines = table.splitlines()
    for name, kind in adversaries.catalogue().items():
        (line,) = [line for line in lines if line.startswith(f"| `{name}` |")]
        for parameter in kind.parameters:
            assert f"`{parameter.name}`" in line, (name, parameter.name)
