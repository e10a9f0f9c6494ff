"""One's own adversaries in the catalogue, and the page that shows how."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest
from numba.extending import register_jitable

import adversaries
from adversaries import Kind, Parameter, Phase, registry
from adversaries.kinds import mixture
from adversaries.streams import replay_step
from tests import ROOT
from tests.adversaries.play import play_compiled, play_plainly, scripted_game

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


def test_registering_again_replaces_ones_own_adversary_only():
    adversaries.register(ECHO)
    adversaries.register(ECHO)
    again = replace(ECHO, summary="the same step, another kind")
    adversaries.register(again)
    assert adversaries.catalogue()["late-coin"] is again
    with pytest.raises(ValueError, match="'late-coin' is taken by another adversary: the same step"):
        adversaries.register(replace(ECHO, step=replay_step))
    assert adversaries.catalogue()["late-coin"] is again
    coin = adversaries.catalogue()["coin"]
    adversaries.register(coin)
    for taker in (replace(ECHO, name="coin"), replace(coin, parameters=())):
        with pytest.raises(
            ValueError, match="the name 'coin' is taken by another adversary: independent tosses"
        ):
            adversaries.register(taker)
    assert adversaries.catalogue()["coin"] is coin


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"name": "LateCoin"}, "must be in kebab-case, like early-stopped-coin, got 'LateCoin'"),
        ({"name": "late_coin"}, "kebab-case"),
        ({"name": "late-coin\n"}, "kebab-case"),
        ({"name": "-coin"}, "kebab-case"),
        ({"name": "late--coin"}, "kebab-case"),
        ({"name": "2-coins"}, "kebab-case"),
        ({"name": ""}, "kebab-case"),
        ({"name": None}, "kebab-case"),
        ({"step": None}, "late-coin: step must be callable, got None"),
        ({"step": 3}, "late-coin: step must be callable, got 3"),
        ({"initial": None}, "late-coin: initial must be callable, got None"),
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


def test_only_kinds_are_registered():
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
