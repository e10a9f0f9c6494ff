"""The request to the verb `recalibrate`: a file, its columns, a method, its settings, which rows to fit.

A `Request` never changes. `check_owners` refuses options that do not go with its method, and `made` makes the
method's estimator of its settings; all others only read it. Names of methods and pictures are what users read
and type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

from onlinecal.catalogue import did_you_mean

PICTURES = "scoreboard", "levels", "rounds", "gaps", "losses", "groups", "patches", "reliability"
"""The pictures of a comparison and of all methods; each is written beside a CSV of its numbers."""


@dataclass(frozen=True)
class Request:
    """One request; an option that is None was not given.

    Attributes
    ----------
    file, apply
        The file that is fitted and tested, and a new file to recalibrate after a fit to all rows.
    probabilities, label
        The names of the probabilities of classes and of the labels: columns a,b,c or a pattern, an array of
        NPZ.
    forecast, outcome
        The columns of forecasts and outcomes of one event.
    group, features
        Columns whose values are groups; columns of features.
    losses
        A loss table of decision makers.
    choose
        The method to take from a comparison, by its name in the table.
    values
        The arguments of the method's constructor, by name.
    split, together
        Which rows are tested: a share, time, time:0.3, or a column that says so; and a column whose rows with
        one value stay together.
    seed
        The seed of the split and of the method's draws.
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
METHOD_NAMES = (*OF_CLASSES, *OF_EVENT)
"""The methods; `onlinecal.cli.recalibrating.methods` says what each is."""
CHOOSE = "choose"
"""The comparison of all methods, which is the default."""

METHODS_OF_OPTIONS = {
    "values": METHOD_NAMES,
    "probabilities": (*OF_CLASSES, CHOOSE),
    "label": (*OF_CLASSES, CHOOSE),
    "forecast": (*OF_EVENT, CHOOSE),
    "outcome": (*OF_EVENT, CHOOSE),
    "group": ("groups", CHOOSE),
    "features": ("boost", CHOOSE),
    "losses": ("decision",),
    "choose": (CHOOSE,),
}
"""For each option, by its name in `Request`, the methods that take it."""


def check_owners(method: str, asked: Request) -> None:
    """Refuse options that only other methods have."""
    for option, owners in METHODS_OF_OPTIONS.items():
        if getattr(asked, option) and method not in owners:
            named = [name for name in owners if name != CHOOSE]
            whose = f"--method {' and '.join(named)}" if named else "the comparison of all"
            here = "the comparison of all" if method == CHOOSE else f"--method {method}"
            flag = "set" if option == "values" else option
            instead = f"give --method {' or '.join(named)}" if named else "leave out --method"
            raise ValueError(f"--{flag} belongs to {whose}, not to {here}: leave out --{flag}, or {instead}")


def values_of(settings: Sequence[str]) -> dict[str, Any]:
    """The settings of --set, each NAME=VALUE; values are numbers, None, True and False, or texts."""
    values = {}
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier():
            raise ValueError(f"--set must be NAME=VALUE, like n_levels=5, got {text!r}")
        if name in values:
            raise ValueError(f"--set {name} is given twice: give it once")
        values[name] = _value(value)
    return values


def _value(text: str) -> Any:
    """A number, None, True or False, if the text is one; else the text."""
    words = {"None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


Estimator = TypeVar("Estimator")


def made(kind: Callable[..., Estimator], asked: Request, **more: Any) -> Estimator:
    """An unfitted estimator with the request's settings and `more`; ValueError for an unknown setting."""
    more["random_state"] = asked.seed
    known = [name for name in signature(kind).parameters if name not in more]
    for name in asked.values:
        if name not in known:
            raise ValueError(f"--set: there is no setting {name!r}{did_you_mean(name, known, 'There are')}")
    return kind(**asked.values, **more)
