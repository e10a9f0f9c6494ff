"""Configurations of keys: read from a file, kept with the ledger, refused where they cannot be."""

import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Match, read_config


def test_a_configuration_is_read_from_toml_and_kept_with_the_ledger(tmp_path):
    file = tmp_path / "keys.toml"
    file.write_text(
        'slack = 1.0\nlanes = 4\n[[keys]]\nmatch = "w/*"\nkind = "simplex"\nclasses = ["sun", "rain"]\n'
    )
    config = read_config(file)
    wanted = KeyConfig(kind="simplex", classes=("sun", "rain"))
    assert config == EngineConfig(KeyConfig(slack=1.0, lanes=4), (Match("w/*", wanted),))
    Engine(tmp_path / "ledger", config).close()
    with Engine(tmp_path / "ledger") as engine:
        assert engine.config == config
    with pytest.raises(ValueError, match="another configuration"):
        Engine(tmp_path / "ledger", EngineConfig())
    Engine(tmp_path / "ledger", config).close()


@pytest.mark.parametrize(
    "text, told",
    [
        ("slack = 0.1", "slack"),
        ("lens = 2", "lens"),
        ('[[keys]]\nkind = "simplex"', "match"),
        ('[[keys]]\nmatch = "a"\nslack = 0.1', "slack"),
        ("lanes =", "Invalid value"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_name_and_the_entry(tmp_path, text, told):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=told) as refusal:
        read_config(file)
    assert "keys.toml" in str(refusal.value)


LP = {"kind": "lp"}
SIMPLEX = {"kind": "simplex"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n_cells": 0}, "n_cells"),
        ({"horizon": -5}, "horizon"),
        ({"rule": "guess"}, "rule"),
        ({"slack": 0.1}, "slack"),
        ({"window": 0}, "window"),
        ({"lanes": 0}, "lanes must be a whole number of at least 1, got 0"),
        ({"expire_after": -1.0}, "expire_after must be a positive number of seconds"),
        ({"max_jump": 0.0}, "max_jump must be a positive number of seconds"),
        ({"max_jump": float("inf")}, "max_jump must be a positive number of seconds"),
        ({"max_jump": float("nan")}, "max_jump must be a positive number of seconds"),
        ({"expire_as": 0}, "expire_as needs expire_after"),
        ({"expire_as": 0, "expire_after": 1.0, **SIMPLEX}, "expire_as needs expire_after and kind 'binary'"),
        ({"expire_as": 2, "expire_after": 1.0}, "expire_as must be None, 0 or 1, got 2"),
        ({"expire_as": True, "expire_after": 1.0}, "expire_as must be None, 0 or 1, got True"),
        ({"steering": "yes"}, "steering must be None, True or False, got 'yes'"),
        ({"steering": True, **LP}, "steering does not go with kind 'lp', got True"),
        ({"steering": False, **LP}, "steering does not go with kind 'lp', got False"),
        ({"hints": False, **LP}, "hints must be True with kind 'lp', got False"),
        ({"alarm": 0.0}, "alarm"),
        ({"alarm": 1.5}, "alarm"),
        ({"classes": ("a",)}, "classes does not go with kind 'binary'"),
        ({"grid": "nested", **SIMPLEX}, "grid does not go with kind 'simplex'"),
        ({"fading": 0.5, **SIMPLEX}, "fading does not go with kind 'simplex', got 0.5"),
        ({"window": 9, **SIMPLEX}, "window needs classes with kind 'simplex' .* got 9 and none"),
        ({"most_classes": 7}, "most_classes is for classes that are discovered"),
        ({"most_classes": 7, "classes": ("a", "b"), **SIMPLEX}, "most_classes is for classes that are disc"),
        ({"most_classes": 1025, **SIMPLEX}, "most_classes"),
        ({"p": 1.0, **LP}, "p must be a number above 1, at most 100, got 1.0"),
        ({"p": float("inf"), **LP}, "p must be a number above 1, at most 100, got inf"),
        ({"n_levels": 0, **LP}, "n_levels must be"),
        ({"within": "both", **LP}, "within must be one of"),
        ({"epsilon": 2.0, **LP}, "epsilon must be"),
        ({"fading": 1.0, **LP}, "fading must be"),
        ({"lanes": 2, **LP}, "lanes must be 1 with kind 'lp', got 2"),
        ({"slack": 1.0, **LP}, "slack does not go with kind 'lp', got 1.0"),
    ],
)
def test_what_cannot_be_is_refused_before_a_ledger_is_made(tmp_path, given, told):
    with pytest.raises(ValueError, match=told):
        Engine(tmp_path / "ledger", EngineConfig(KeyConfig(**given)))
    assert list(tmp_path.iterdir()) == []
