"""Specs and catalogues: one grammar, one reading of parameters, one search for names."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onlinecal.catalogue import Catalogue, CatalogueEntry, Parameter, did_you_mean, join_spec, split_spec


@dataclass(frozen=True)
class Animal(CatalogueEntry):
    build: object
    parameters: tuple[Parameter, ...] = ()

    @property
    def _made_by(self) -> object:
        return self.build


LEGS = Parameter("legs", 4, "to walk on", low=0, high=1000, form="whole")
SPEED = Parameter("speed", 1.0, "in m/s", low=0.0)
SOUND = Parameter("sound", "low", "how it calls", form=("high", "low"))
TAG = Parameter("tag", None, "what is on its ear", form="text", required=True)
PREY = Parameter("prey", "cow:tag=x", "what it eats", form="adversary")


def build(settings): ...


def other(settings): ...


COW = Animal("cow", "eats grass", build, (LEGS, TAG))
CAT = Animal("cat", "eats others", build, (SPEED, SOUND, PREY))


@pytest.fixture
def animals():
    return Catalogue("animal", (COW, CAT))


def test_what_is_joined_is_split_again_and_numbers_are_as_short_as_they_are():
    for settings in (
        {},
        {"a": "1"},
        {"a": "x,y=2", "b": "[x]"},
        {"a": "[x],[y]", "b": "p"},
        {"a": "n:b=[m:c=1,d=2],e=3"},
    ):
        assert split_spec(join_spec("n", settings), "animal") == ("n", settings)
    assert split_spec("n:a=[x]y,b=[[z]]", "animal") == ("n", {"a": "[x]y", "b": "[z]"})
    assert join_spec("n", {"a": 1.0, "b": 0.25, "c": 10**9}) == "n:a=1,b=0.25,c=1000000000"


def test_a_spec_gives_every_parameter_its_value_and_is_written_back(animals):
    entry, values = animals.read(" cat : sound = high, prey = [cow:tag=a,legs=3.0] ")
    assert entry is CAT
    assert values == {"speed": 1.0, "sound": "high", "prey": "cow:legs=3,tag=a"}
    assert entry._spec_of(values) == "cat:sound=high,prey=[cow:legs=3,tag=a]"
    assert animals.read(entry._spec_of(values)) == (entry, values)
    assert CAT._settings_text == "speed=1, sound=low|high, prey=cow:tag=x"
    assert COW._settings_text == "legs=4, tag=(required)"


@pytest.mark.parametrize(
    "spec, message",
    [
        (3, "the animal's spec must be a string, got 3"),
        ("kat", "unknown animal 'kat'; did you mean 'cat'? Known: cat, cow"),
        ("cow", "cow needs tag: write cow:tag=..."),
        ("cow:tag=a,ears=2", "cow has no parameter 'ears'; it takes legs, tag"),
        ("cow:tag=a,legs=2.5", "cow: legs must be a whole number in [0, 1000], got '2.5'"),
        ("cow:tag=", "expected key=value after the colon in animal 'cow:tag=', got 'tag='"),
        ("cow:tag=a,tag=b", "tag is given twice in animal 'cow:tag=a,tag=b'"),
        ("cow:tag=[a", "each [ must have its ] in animal 'cow:tag=[a'"),
        ("cat:speed=inf", "cat: speed must be a number of at least 0, got 'inf'"),
        ("cat:sound=1", "cat: sound must be one of high, low, got '1'"),
        ("cat:prey=cow", "cow needs tag: write cow:tag=..."),
    ],
)
def test_a_wrong_spec_is_refused_in_these_words(animals, spec, message):
    with pytest.raises(ValueError) as refusal:
        animals.read(spec)
    assert str(refusal.value) == message


def test_ones_own_is_replaced_from_the_same_place_only(animals):
    again = Animal("dog", "barks louder", build)
    for animal in (Animal("dog", "barks", build), COW, again):
        animals.add(animal)
    assert animals.find("dog") is again
    for animal, message in (
        (Animal("dog", "barks", other), "the name 'dog' is taken by another animal: barks louder"),
        (Animal("cow", "barks", build), "the name 'cow' is taken by another animal: eats grass"),
        (Animal("Dog 2", "barks", build), "joined by hyphens like early-stopped-coin, got 'Dog 2'"),
    ):
        with pytest.raises(ValueError, match=message):
            animals.add(animal)
    assert list(animals.entries) == ["cow", "cat", "dog"]
    assert animals.own_names == {"cow", "cat"}


def test_a_parameter_reads_texts_alone_and_no_spec_of_another():
    with pytest.raises(ValueError, match="cat: prey is the spec of an adversary, which create reads"):
        PREY.read("cow:tag=x", "cat")
    with pytest.raises(ValueError, match="cow: legs must be given as a text, got 4"):
        LEGS.read(4, "cow")


def test_the_nearest_name_is_suggested_if_there_is_one():
    assert did_you_mean("p_", ["p", "q"], "Its columns") == "; did you mean 'p'? Its columns: p, q"
    assert did_you_mean(None, iter(["p"])) == ". Known: p"
