"""What the verb `recalibrate` was asked: columns, a method's settings, and which rows are fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from onlinecal.catalogue import did_you_mean

RANDOM, TIME = "random", "time"


@dataclass(frozen=True)
class Rows:
    """Which rows are fitted, and which others are tested or recalibrated.

    Attributes
    ----------
    test_share
        Share of the rows to test on; None: a half.
    seed
        Of the split and of the method's draws.
    apply
        A new file to recalibrate, after a fit to all rows.
    split
        "random", "time" for the first rows of the file, or a column that says fit or test.
    together
        A column; rows with one value in it stay together.
    """

    test_share: float | None = None
    seed: int = 0
    apply: Path | None = None
    split: str | None = None
    together: str | None = None

    @property
    def share(self) -> float:
        """The share to test on."""
        return 0.5 if self.test_share is None else self.test_share


def split_of(text: str | None) -> tuple[str | None, float | None]:
    """The rule and the share to test on that --split says: 0.3, time, time:0.3, or a column's name."""
    if text is None:
        return None, None
    rule, colon, share = text.rpartition(":")
    if not colon and is_number(text):
        return RANDOM, float(text)
    if rule in (RANDOM, TIME) and is_number(share):
        return rule, float(share)
    return text, None


@dataclass(frozen=True)
class Settings:
    """The columns of a file, and what a method is made with.

    Attributes
    ----------
    probabilities, label
        Where the probabilities of classes and the labels stand: columns a,b,c or a pattern, an array of NPZ.
    forecast, outcome
        The columns of forecasts and outcomes of one event.
    group, features
        Columns whose values are groups; columns of features, with commas between them.
    losses
        A loss table of decision makers.
    choose
        The method to take from a comparison, by its name in the table.
    values
        What the method's constructor is given, by the names of its parameters.
    """

    probabilities: str | None = None
    label: str | None = None
    forecast: str | None = None
    outcome: str | None = None
    group: Sequence[str] = ()
    features: str | None = None
    losses: Path | None = None
    choose: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


OF_CLASSES, OF_EVENT = ("lp", "decision"), ("groups", "boost")
METHODS = (*OF_CLASSES, *OF_EVENT)
"""The methods; the module of `onlinecal.cli.recalibrating` with a method's name carries it out."""
CHOOSE = "choose"
"""The module that compares all of them, which is meant where no method is named."""

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


def estimator(kind: Callable[..., Estimator], settings: Settings, **more: Any) -> Estimator:
    """An unfitted estimator with these settings and `more`; ValueError for a name that it does not know."""
    known = [name for name in signature(kind).parameters if name not in more]
    for name in settings.values:
        if name not in known:
            raise ValueError(f"--set: no setting {name!r}{did_you_mean(name, known, 'There are')}")
    return kind(**settings.values, **more)
