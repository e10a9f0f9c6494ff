"""Spec strings, one's own adversaries in the catalogue, and every short sequence once."""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
from numba.extending import register_jitable

from onlinecal import adversaries
from onlinecal.adversaries import Kind, Parameter, all_sequences, registry, sequence_chunks
from onlinecal.adversaries.kinds import mixture
from tests import ROOT
from tests.adversaries.play import play_compiled, play_plainly, scripted_game


@pytest.mark.parametrize(
    "spec, name",
    [
        ("sinusoidal-drift:amplitude=2.5e-1,period=12.5", "sinusoidal-drift:period=12.5,amplitude=0.25"),
        ("two-phase:first=coin,second=threshold", "two-phase"),
        (
            "two-phase:switch=4,first=[linear-drift:end=0.8,start=0.2],second=blocks:length=3",
            "two-phase:first=[linear-drift:start=0.2,end=0.8],second=blocks:length=3,switch=4",
        ),
    ],
)
def test_specs_have_a_canonical_form(spec, name):
    assert adversaries.create(spec, horizon=10).name == name


@pytest.mark.parametrize(
    "spec, message",
    [
        ("two-phase:first=coyn", r"unknown adversary 'coyn'; did you mean 'coin'\? Known: alternating, "),
        ("two-phase:second=coin:bias=1.5", r"coin: bias must be a number in \[0, 1\], got '1.5'"),
        ("sinusoidal-drift:centre=0.9", r"amplitude must be at most 0\.1 .*centre=0\.9.* got 0\.4"),
        ("two-phase:switch=10", "switch must be less than 10, the rounds that it is to play, got 10"),
    ],
)
def test_a_bad_spec_is_refused_by_name_and_value(spec, message):
    with pytest.raises(ValueError, match=message):
        adversaries.create(spec, horizon=10)


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


@pytest.mark.parametrize("several", [False, True])
def test_describe_has_a_row_for_everyone_in_the_catalogue(several):
    listed = adversaries.multiclass_catalogue if several else adversaries.catalogue
    described = adversaries.describe_multiclass if several else adversaries.describe
    rows = {row["name"]: row for row in described()}
    assert list(rows) == list(listed())
    assert {row["power"] for row in rows.values()} == {"oblivious", "adaptive", "internal", "mixed"}
    for name, kind in listed().items():
        assert rows[name]["summary"]
        assert rows[name]["source"]
        assert rows[name]["needs_horizon"] == kind.needs_horizon
        for parameter in kind.parameters:
            assert f"{parameter.name}=" in rows[name]["parameters"]
            if parameter.default is not None and parameter.form != "adversary":
                assert parameter.read(str(parameter.default), name) == parameter.default
    # what is handed out is a copy
    listed().clear()
    assert list(rows) == list(listed())


@pytest.mark.parametrize("T", [1, 5, 10])
def test_all_sequences_are_there_in_binary_order_at_once_and_in_chunks(T):
    sequences = all_sequences(T)
    assert sequences.dtype == np.uint8
    assert [tuple(row) for row in sequences.tolist()] == list(itertools.product((0, 1), repeat=T))
    for chunk in (1, 3, 256, 10_000):
        chunks = list(sequence_chunks(T, chunk))
        assert all(len(rows) == min(chunk, 2**T) for rows in chunks[:-1])
        assert (np.concatenate(chunks) == sequences).all()
    # those of long games come one by one
    first = next(sequence_chunks(62, chunk=4))
    assert first[:, -2:].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert first[:, :-2].sum() == 0


@pytest.mark.parametrize("listed, most", [(all_sequences, 20), (sequence_chunks, 62)])
def test_games_of_other_lengths_are_not_listed(listed, most):
    for T in (0, 2.5, "3", True):
        with pytest.raises(ValueError, match="T must be a whole number of at least 1"):
            listed(T)
    with pytest.raises(ValueError, match=f"at most {most}.* got {most + 1}"):
        listed(most + 1)


@pytest.fixture(autouse=True)
def catalogue(monkeypatch):
    """A catalogue of the test's own."""
    monkeypatch.setattr(registry._TWO_CLASSES, "entries", adversaries.catalogue())


@register_jitable
def echo_step(state, t, forecast, rise_zero, rise_one, u):
    # a user's step may have comprehensions and sums of arrays
    outcome = int((np.array([one for one in state[1:2]]) + 0.0).sum()) if t else 0
    state[1] = u < state[0]
    return outcome


ECHO = Kind(
    "late-coin",
    "a coin whose tosses come a round late",
    "oblivious",
    "this test",
    (Parameter("bias", 0.5, "probability of a 1", low=0.0, high=1.0),),
    echo_step,
    lambda values, horizon: np.array([values["bias"], 0.0]),
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


@pytest.mark.parametrize(
    "changes, message",
    [
        *(({"name": name}, "must be in kebab-case") for name in ("LateCoin", "late-coin\n", None)),
        ({"step": None}, "late-coin: step must be callable, got None"),
        ({"initial": 5}, "late-coin: initial must be callable, got 5"),
        ({"compose": "echo"}, "late-coin: compose must be callable, got 'echo'"),
        ({"parameters": 5}, "late-coin: parameters must be a tuple of Parameter, got 5"),
        ({"power": "strong"}, "power must be one of oblivious, .* got 'strong'"),
        ({"depth_parameter": "depth"}, "late-coin has no parameter 'depth'; it takes bias"),
        ({"horizon_unless": "spacing"}, "late-coin has no parameter 'spacing'"),
    ],
)
def test_a_kind_that_cannot_be_played_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        adversaries.register(replace(ECHO, **changes))
    assert "late-coin" not in adversaries.catalogue()
    with pytest.raises(ValueError, match="kind must be a Kind, got"):
        adversaries.register(echo_step)


MODULE = """
from onlinecal.adversaries import Kind, register
from onlinecal.adversaries.protocol import state_of
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
    for value in (0, 1):
        file.write_text(MODULE.replace("VALUE", str(value)))
        importlib.invalidate_caches()
        module = importlib.reload(importlib.import_module(file.stem))
        for spec in ("own", "mixture:first=own,second=own"):
            adversary = adversaries.create(spec)
            assert adversary.outcomes(3).tolist() == [value] * 3
        assert mixture.mixture_step(module.own_step, module.own_step) is adversary.phases[0].step
    monkeypatch.delitem(sys.modules, file.stem)


def test_every_adversary_has_its_line_on_the_page():
    page = (ROOT / "docs" / "adversaries.md").read_text()
    lines = page.partition("\n## All of them\n")[2].partition("\n## ")[0].splitlines()
    for name, kind in adversaries.catalogue().items():
        (line,) = [line for line in lines if line.startswith(f"| `{name}` |")]
        for parameter in kind.parameters:
            assert f"`{parameter.name}`" in line, (name, parameter.name)
