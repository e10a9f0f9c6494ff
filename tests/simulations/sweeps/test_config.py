"""Sweep files: what is right is read, what is wrong is named."""

import pytest

import adversaries
from simulations.games.players import FAMILIES
from simulations.sweeps.results import check_config, find_config, read_config

SMALL = {"forecasters": ["sign"], "adversaries": ["coin"], "rounds": [10]}


def test_specs_become_canonical_and_rounds_ascend():
    config = check_config(
        {"forecasters": ["balanced:slack=0.5"], "adversaries": ["coin:bias=0.50"], "rounds": [20, 10]}
    )
    assert config.forecasters == ("balanced",)
    assert config.adversaries == ("coin",)
    assert config.rounds == (10, 20)
    assert config.seeds == (0,)


@pytest.mark.parametrize(
    "change,message",
    [
        ({"forcasters": []}, "unknown key 'forcasters'; did you mean 'forecasters'"),
        ({"forecasters": "sign"}, "forecasters must be a list"),
        ({"forecasters": []}, "forecasters must be a list with at least one entry"),
        ({"forecasters": ["sing"]}, r"forecasters\[0\]: unknown forecaster 'sing'; did you mean 'sign'"),
        ({"adversaries": ["coin", 3]}, r"adversaries\[1\] must be a string, got 3"),
        ({"adversaries": ["coins"]}, r"adversaries\[0\]: unknown adversary 'coins'"),
        ({"adversaries": ["two-phase"], "rounds": [1]}, r"adversaries\[0\]: two-phase needs a horizon"),
        ({"adversaries": ["coin", "coin:bias=0.5"]}, "adversaries: 'coin' is listed twice"),
        ({"rounds": [0]}, r"rounds\[0\] must be a whole number of at least 1, got 0"),
        ({"rounds": [True]}, r"rounds\[0\] must be a whole number"),
        ({"rounds": [10.0]}, r"rounds\[0\] must be a whole number"),
        ({"rounds": [10, 10]}, "rounds: 10 is listed twice"),
        ({"rounds": [10**10]}, r"rounds\[0\] must be at most 1000000000, got 10000000000"),
        ({"seeds": [-1]}, r"seeds\[0\] must be a whole number of at least 0, got -1"),
        ({"budget": 0}, "budget must be a positive number, got 0"),
        ({"budget": float("inf")}, "budget must be a positive number"),
        ({"checkpoints": "many"}, "checkpoints must be a whole number"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        check_config(SMALL | change)


@pytest.mark.parametrize("key", SMALL)
def test_missing_keys_are_named(key):
    with pytest.raises(ValueError, match=f"the key '{key}' is missing"):
        check_config({name: value for name, value in SMALL.items() if name != key})


def test_file_that_is_no_toml_is_refused_with_its_name(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("rounds = ")
    with pytest.raises(ValueError, match=r"bad\.toml is not valid TOML"):
        read_config(path)


def test_the_arena_has_every_forecaster_of_the_catalogue(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = read_config(find_config("arena"))
    assert {spec.partition(":")[0] for spec in config.forecasters} == {family.name for family in FAMILIES}
    powers = {adversaries.catalogue()[spec.partition(":")[0]].power for spec in config.adversaries}
    assert powers == {"oblivious", "adaptive", "internal", "mixed"}
    assert len(config.seeds) >= 5
    assert config.rounds[-1] >= 300 * config.rounds[0]


def test_the_demo_comes_with_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = read_config(find_config("demo"))
    assert set(config.forecasters) == {"sign", "balanced", "nested", "adaptive"}
    assert config.rounds == (1000, 10_000, 100_000, 1_000_000)
    assert any(spec.startswith("two-phase") for spec in config.adversaries)
