"""Configurations: what cannot be is refused by the name of its setting, in Python and in files alike."""

import json
import re

import pytest

from onlinecal.engine import Engine, EngineConfig, KeyConfig, Match, read_config
from onlinecal.engine.config import PARAMETERS
from onlinecal.engine.turns import KeyTurns
from tests.engine.test_doors import OF_MSGSPEC

WRONG = "7d", "", -1, True, {}, {"a": 1}, [[1]], [True], 10**400
RIGHT = {"hints": [True], "steering": [True], "alarm": [True]}
BESIDE = {
    "expire_as": {"expire_after": 1.0},
    "classes": {"kind": "simplex"},
    "most_classes": {"kind": "simplex"},
}


def beside(field):
    """Settings with which another one makes sense."""
    [kind, *_] = [kind for kind, names in PARAMETERS.items() if field in names] or ["binary"]
    return {"kind": kind} if kind != "binary" else BESIDE.get(field, {})


def written(settings):
    """Settings in TOML, in which JSON's texts, numbers and lists mean the same."""

    def value(given):
        if isinstance(given, dict):
            return "{" + ", ".join(f"{name} = {value(one)}" for name, one in given.items()) + "}"
        return json.dumps(given)

    return "".join(f"{name} = {value(one)}\n" for name, one in settings.items())


def refusal(make):
    with pytest.raises(ValueError) as refused:
        make()
    return str(refused.value)


@pytest.mark.parametrize("field", KeyConfig.__struct_fields__)
def test_a_wrong_value_is_refused_with_its_setting_in_python_and_in_files(tmp_path, field):
    file = tmp_path / "keys.toml"
    for value in WRONG:
        if value in RIGHT.get(field, ()) and value is True:
            continue
        given = {**beside(field), field: value}
        told = refusal(lambda given=given: Engine(config=EngineConfig(KeyConfig(**given))))
        assert re.match(rf"{field}\b", told) or (field == "expire_as" and field in told)
        assert "must be" in told
        assert OF_MSGSPEC.search(told) is None
        file.write_text(written(given))
        assert refusal(lambda: read_config(file)) == f"{file}: {told}"
        file.write_text(f'[[keys]]\nmatch = "a*"\n{written(given)}')
        assert refusal(lambda: read_config(file)) == f"{file}: [[keys]] with match 'a*': {told}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "expire_afer = 1.0",
            "unknown setting 'expire_afer'; did you mean 'expire_after'? Known",
        ),
        (
            '[[keys]]\nmatch = "a"\nlens = 2',
            "match 'a': unknown setting 'lens'; did you mean 'lanes'",
        ),
        ("[key]\nlanes = 2", "unknown setting 'key'; did you mean 'keys'?"),
        ('kind = "simplx"', "kind must be one of binary, simplex, lp, got 'simplx'; did you mean 'simplex'?"),
        ('expire_after = "7d"', "expire_after must be a positive number of seconds, got '7d'"),
        ("keys = 3", "keys must be written as [[keys]] tables"),
        ("[[keys]]\nmatch = 3", '[[keys]] number 1 needs a match, such as "sport/*", got 3'),
        ("lanes =", "is not valid TOML"),
    ],
)
def test_a_file_says_what_is_wrong_and_where(tmp_path, text, words):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    told = refusal(lambda: read_config(file))
    assert told.startswith(str(file))
    assert words in told
    assert OF_MSGSPEC.search(told) is None


def test_files_of_windows_tools_are_read_or_refused_in_words(tmp_path):
    file = tmp_path / "keys.toml"
    file.write_bytes(b"\xef\xbb\xbflanes = 2\r\n")
    assert read_config(file) == read_config(str(file))
    assert read_config(file).default.lanes == 2
    file.write_text("lanes = 2\r\n", "utf-16")
    assert "is not valid TOML" in refusal(lambda: read_config(file))


@pytest.mark.parametrize(
    "make",
    [
        lambda: EngineConfig({"kind": "binary"}),
        lambda: EngineConfig(matches=("a*", KeyConfig())),
        lambda: EngineConfig(matches=Match("a*", KeyConfig())),
        lambda: Match(7, KeyConfig()),
        lambda: Match("", KeyConfig()),
        lambda: Match("a*", {"kind": "binary"}),
    ],
)
def test_what_is_no_configuration_is_refused_by_name(make):
    assert re.match(r"(default|matches|pattern|config) must be .* got", refusal(make))


def test_equal_numbers_are_one_configuration_however_they_are_written(tmp_path):
    """2 and 2.0, 1000 and 1e3: bytes kept under one are read under the other."""
    whole = KeyConfig(slack=2, expire_after=1_000, n_cells=10.0)
    parts = KeyConfig(slack=2.0, expire_after=1e3, n_cells=10)
    checksums = [KeyTurns(EngineConfig(one), 10)._config_checksums for one in (whole, parts)]
    assert checksums[0] == checksums[1]
    Engine(tmp_path / "a.ledger", EngineConfig(whole)).close()
    Engine(tmp_path / "a.ledger", EngineConfig(parts)).close()
