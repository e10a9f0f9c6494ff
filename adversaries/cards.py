"""A catalogue of adversaries: cards by name, and the way from a spec string to a card with its values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypedDict, TypeVar

from adversaries.protocol import POWERS, Card, Parameter
from adversaries.specs import join_spec, split_spec

_KEBAB_CASE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

C = TypeVar("C", bound=Card)


class Row(TypedDict):
    """What `describe` says about one adversary."""

    name: str
    power: str
    parameters: str
    needs_horizon: bool
    summary: str
    source: str


class Catalogue(Generic[C]):
    """Cards by name.

    Parameters
    ----------
    noun
        What error messages call an entry.
    own
        The library's cards, whose names nobody else can take.

    Attributes
    ----------
    cards
        All cards by name, the library's first and sorted by power.
    own_names
        The names of the library's cards.
    """

    def __init__(self, noun: str, own: Iterable[C]) -> None:
        self.noun = noun
        self.cards: dict[str, C] = {
            card.name: card for card in sorted(own, key=lambda card: POWERS.index(card.power))
        }
        self.own_names = frozenset(self.cards)

    def rows(self) -> list[Row]:
        """One row per card for a table."""
        return [
            Row(
                name=card.name,
                power=card.power,
                parameters=", ".join(_with_default(parameter) for parameter in card.parameters),
                needs_horizon=card.needs_horizon,
                summary=card.summary,
                source=card.source,
            )
            for card in self.cards.values()
        ]

    def add(self, card: C) -> None:
        """Enter a card, or replace one that came from the same place; ValueError if it may not."""
        if not isinstance(card.name, str) or not _KEBAB_CASE.fullmatch(card.name):
            raise ValueError(
                f"an adversary's name must be in kebab-case, like early-stopped-coin, got {card.name!r}"
            )
        if card.power not in POWERS:
            raise ValueError(f"{card.name}: power must be one of {', '.join(POWERS)}, got {card.power!r}")
        if card.horizon_unless is not None:
            card.parameter(card.horizon_unless)
        present = self.cards.get(card.name, card)
        if present != card and (card.name in self.own_names or _origin(present) != _origin(card)):
            raise ValueError(f"the name {card.name!r} is taken by another adversary: {present.summary}")
        self.cards[card.name] = card

    def find(self, name: str) -> C:
        """The card of that name; ValueError lists those there are."""
        if name in self.cards:
            return self.cards[name]
        close = difflib.get_close_matches(name, self.cards, n=1)
        suggestion = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"unknown {self.noun} {name!r}{suggestion} Known: {', '.join(sorted(self.cards))}")

    def read(self, spec: str) -> tuple[C, dict[str, Any]]:
        """The card that a spec names, and the value of each of its parameters; ValueError if it is wrong."""
        name, settings = split_spec(spec)
        card = self.find(name)
        values: dict[str, Any] = {parameter.name: parameter.default for parameter in card.parameters}
        for key, text in settings.items():
            parameter = card.parameter(key)
            if parameter.form == "adversary":
                values[key] = canonical(*self.read(text))
            else:
                values[key] = parameter.read(text, card.name)
        for parameter in card.parameters:
            if parameter.required and parameter.name not in settings:
                raise ValueError(f"{card.name} needs {parameter.name}: {card.name}:{parameter.name}=...")
        return card, values


def canonical(card: Card, values: Mapping[str, Any]) -> str:
    """The spec in canonical form: the settings that differ from the defaults, in the card's order."""
    changed = {
        parameter.name: values[parameter.name]
        for parameter in card.parameters
        if values[parameter.name] != parameter.default
    }
    return join_spec(card.name, changed)


def _origin(card: Card) -> tuple[object, object]:
    played = getattr(card, "compose", None) or getattr(card, "step", None)
    return getattr(played, "__module__", None), getattr(played, "__qualname__", None)


def _with_default(parameter: Parameter) -> str:
    if parameter.default is None:
        return f"{parameter.name}=({'required' if parameter.required else 'not set'})"
    default = parameter.default
    return f"{parameter.name}={default:.4g}" if isinstance(default, float) else f"{parameter.name}={default}"
