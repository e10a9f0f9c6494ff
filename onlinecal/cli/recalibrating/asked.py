"""What the verb `recalibrate` is asked: a file, its columns, a method, its settings, which rows to fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from onlinecal.catalogue import did_you_mean


@dataclass(frozen=True)
class Asked:
    """One request; what is None was not said.

    Attributes
    ----------
    file, apply
        What is fitted and tested, and a new file to recalibrate after a fit to all rows.
    probabilities, label
        Where the probabilities of classes and the labels stand: columns a,b,c or a pattern, an array of NPZ.
    forecast, outcome
        The columns of forecasts and outcomes of one event.
    group, features
        Columns whose values are groups; columns of features.
    losses
        A loss table of decision makers.
    choose
        The method to take from a comparison, by its name in the table.
    values
        What the method's constructor is given, by the names of its parameters.
    split, together
        Which rows are tested: a share, time, time:0.3, or a column that says so; a column, and rows with one
        value in it stay together.
    seed
        Of the split and of the method's draws.
    """

    file: Path
    apply: Path | None = None
    probabilities: str | None = None
    label: str | None = None
    forecast: str | None = None
    outcome: str | None = None
    group: Sequence[str] = ()
    features: Sequence[str] | None = None
    losses: Path | None = None
    choose: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None
    together: str | None = None
    seed: int = 0


OF_CLASSES, OF_EVENT = ("lp", "decision"), ("groups", "boost")
METHODS = (*OF_CLASSES, *OF_EVENT)
"""The methods; the module of `onlinecal.cli.recalibrating` with a method's name says what it is."""
CHOOSE = "choose"
"""The comparison of all of them, which is meant where no method is named."""

OWNERS = {
    "set": METHODS,
    "probabilities": (*OF_CLASSES, CHOOSE),
    "label": (*OF_CLASSES, CHOOSE),
    "forecast": (*OF_EVENT, CHOOSE),
    "outcome": (*OF_EVENT, CHOOSE),
    "group": ("groups", CHOOSE),
    "features": ("boost", CHOOSE),
    "losses": ("decision",),
    "choose": (CHOOSE,),
}
"""Which methods each option belongs to."""


def check_owners(method: str, given: Mapping[str, Any]) -> None:
    """Refuse options, by their names, that only other methods have."""
    for option, value in given.items():
        owners = [name for name in OWNERS[option] if name != CHOOSE]
        if value and method not in OWNERS[option]:
            here = "the comparison of all" if method == CHOOSE else f"--method {method}"
            whose = f"--method {' and '.join(owners)}" if owners else "the comparison of all"
            raise ValueError(f"--{option} belongs to {whose}, not to {here}")


WORDS = {"None": None, "True": True, "False": False}


def values_of(settings: Sequence[str]) -> dict[str, Any]:
    """What --set says: from NAME=VALUE each to numbers, None, True and False, or texts."""
    values = {}
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier():
            raise ValueError(f"--set must be NAME=VALUE, like n_levels=5, got {text!r}")
        if name in values:
            raise ValueError(f"--set {name} is given twice")
        whole = value.lstrip("+-").isdecimal()
        values[name] = WORDS.get(value, int(value) if whole else float(value) if is_number(value) else value)
    return values


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


Estimator = TypeVar("Estimator")


def made(kind: Callable[..., Estimator], asked: Asked, **more: Any) -> Estimator:
    """An unfitted estimator with the settings asked for and `more`; ValueError for one that it has not."""
    more["seed"] = asked.seed
    known = [name for name in signature(kind).parameters if name not in more]
    for name in asked.values:
        if name not in known:
            raise ValueError(f"--set: no setting {name!r}{did_you_mean(name, known, 'There are')}")
    return kind(**asked.values, **more)
