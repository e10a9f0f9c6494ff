"""What kind of forecaster each key gets: a default, and others for keys whose names match a pattern.

Configurations never change once they are made, and are checked when they are made. The ledger keeps one as
JSON, by the names of its fields: a new field needs a default that means what was done before. Values that
equal a default are not stored, so whoever changes a default raises STATE_FORMAT. Turns (`engine/turns.py`)
keep a checksum of the values of a key's `KeyConfig`, without `max_jump`, in the order of the fields, so
whoever adds, moves or takes away a field of it raises STATE_FORMAT, too.

A field that is None means the default of the forecaster, which is not stored either: whoever changes one of
those changes what old configurations mean. The names in PARAMETERS, but for `classes` and `steering`, are
keywords of the class of that kind, to which `settings.kind_of` passes them. The place of a configuration
among the exceptions is kept with each key (`_at`, `_place_for`), so their order is part of a ledger.
"""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from onlinecal.catalogue import did_you_mean
from onlinecal.engine.fields import LONGEST_NAME, is_name
from onlinecal.forecasters.simplex.input import MOST_CLASSES
from onlinecal.texts import shown
from onlinecal.validation import as_whole, check_count, check_finite, check_number

MAX_JUMP = 1e10
"""Seconds, some 300 years: a clock that counts seconds stays below, one that counts milliseconds does not."""

DISCOVERED = 100
"""How many classes a key may discover, unless another number is set."""

Kind = Literal["binary", "simplex", "lp"]
PARAMETERS: dict[Kind, tuple[str, ...]] = {
    "binary": ("horizon", "n_cells", "grid", "rule", "slack", "report", "window", "steering"),
    "simplex": ("classes", "horizon", "n_cells", "slack", "report", "window", "steering"),
    "lp": ("classes", "p", "epsilon", "n_levels", "tolerance", "within", "first_fit", "fading"),
}
"""The parameters of each kind of key."""
COUNT_PARAMETERS = "most_classes", "horizon", "n_cells", "n_levels", "window", "first_fit", "lanes"
"""Those that are whole numbers."""
NUMBER_PARAMETERS = "slack", "p", "epsilon", "tolerance", "fading"
"""Those that are other numbers."""
WORD_PARAMETERS = {"grid": "nested", "rule": "balanced", "report": "hint", "within": "shift"}
"""Those that are words, each with one that it may be."""
MOST_COUNT = 1 << 53
"""No count may be more: whole numbers up to it are exact as floats."""


class KeyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How the outcomes of a key are forecast. By default they are 0 or 1, and forecasts follow hints.

    Attributes
    ----------
    kind
        "binary": outcomes are 0, 1 or numbers between, forecast by `AlmostOneStepAhead`. "simplex": outcomes
        are labels of classes, forecast by `SimplexAlmostOneStepAhead`. "lp": outcomes are labels of classes,
        and forecasts are the queries' hints, recalibrated as by `LpCalibratedClassifier`; the certificate is
        then no bound but the l_p error of the forecasts, times the settled rounds.
    classes
        The labels of the classes, of kinds "simplex" and "lp": 1 to 1,024 different texts. None: they are
        discovered as they come.
    most_classes
        How many classes a key of kind "simplex" or "lp" without `classes` may discover, 1 to 1,024. An event
        that names more labels, or one label more, is rejected.
    horizon, n_cells, slack, report
        Of kinds "binary" and "simplex", and explained at their forecasters: how many rounds each lane will
        play, the number of cells of a uniform grid of forecasts, how far a bias may go to follow hints, and
        which point of a cell is announced. None: the forecaster's default.
    grid, rule
        Of kind "binary" only, and explained at its forecaster: the names of the grid of forecasts and of the
        rule that chooses a cell of it. None: the forecaster's default.
    window
        Of kind "binary", and of kind "simplex" with `classes`: keep a certificate of the key's last so many
        settled rounds, too; the key's state then holds these rounds. It also chooses the grid, unless
        `horizon`, `n_cells` or `grid` does. None: no such certificate.
    hints
        Whether queries may have hints, a model's probabilities, which forecasts follow as far as calibration
        allows. False: a query with a hint is rejected, and the guarantee, a bound, is smaller and so better.
        Kind "lp" needs True.
    p, epsilon, n_levels, tolerance, within, first_fit, fading
        Of kind "lp" only, and explained at `LpCalibratedClassifier`: the order of the error (above 1, here at
        most 100), the error to reach, levels per class, the largest error that is not corrected, how it is
        corrected, rounds before the first correction, and by what factor earlier rounds count less with each
        round. None: the default there.
    lanes
        How many forecasters share a key, 1 to 65,536; of kind "lp" 1. A query goes to one of them that has no
        open forecast, if there is one. So with as many lanes as forecasts are ever open at once, each
        forecaster has its labels in time, and keeps the guarantee of its own rounds. The key's certificate
        and guarantee are the sums over its lanes.
    expire_after
        How many seconds a forecast waits for its outcome. It expires once the key's clock, the latest time of
        its accepted events, is more than that past the query's time; a later outcome is rejected as
        "expired". None: it waits for ever.
    expire_as
        The outcome, 0 or 1, that a forecast gets when it expires; of kind "binary", and only with
        `expire_after`. It is then settled as any other. This is for logs of clicks, fraud or churn, where
        only what happened is reported and silence means no. None: it gets no outcome and counts in no
        certificate; where only one outcome is ever reported, forecasts then go to that one.
    steering
        Whether hints are steered before forecasters follow them: mapped to better ones by what followed the
        key's hints so far. Their squared errors never add up to more than those of the hints themselves plus
        1/10 (kind "simplex": summed over the classes, 1/5), if labels come in time. None and True: yes,
        except for keys without hints. False: hints are followed as they are. Kind "lp" accepts only None, and
        steers nothing.
    max_jump
        Of keys with `expire_after`: how many seconds an event's time may be ahead of the key's clock. An
        event with more is rejected as "invalid", and the clock stays where it is. A key's first time may be
        as far from 0 as that, or as 1e10 if that is more. Choose it longer than any silence of a key. It says
        what is accepted from now on, not how it is forecast, so it may be changed at any time, also for an
        old ledger.
    alarm
        How often alarms about the key's forecasts may be false: at most once in 1/alarm forecasts, on
        average, as long as they are calibrated (docs/alarms.md). The same holds for its hints. Between 0 and
        1; None and True: 1e-4; False: no alarms.

    Raises
    ------
    ValueError
        For a parameter of the wrong type or out of range, and for one that does not go with `kind` or with
        another; the message names it and the value. What only a forecaster knows, as the range of `slack` or
        the names of grids, is not checked here, but by `Engine` and `read_config`.
    """

    kind: Kind = "binary"
    classes: tuple[str, ...] | None = None
    most_classes: int = DISCOVERED
    horizon: int | None = None
    n_cells: int | None = None
    grid: str | None = None
    rule: str | None = None
    slack: float | None = None
    report: str | None = None
    window: int | None = None
    hints: bool = True
    p: float | None = None
    epsilon: float | None = None
    n_levels: int | None = None
    tolerance: float | None = None
    within: str | None = None
    first_fit: int | None = None
    fading: float | None = None
    lanes: int = 1
    expire_after: float | None = None
    expire_as: int | None = None
    steering: bool | None = None
    max_jump: float = MAX_JUMP
    alarm: float | bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in PARAMETERS:
            near = did_you_mean(self.kind, PARAMETERS) if isinstance(self.kind, str) else ""
            raise ValueError(f"kind must be one of {', '.join(PARAMETERS)}, got {shown(self.kind)}{near}")
        self._check_kinds()
        check_count(self.lanes, "lanes", most=1 << 16)
        if self.expire_as is not None:
            if isinstance(self.expire_as, bool) or self.expire_as not in (0, 1):
                raise ValueError(f"expire_as must be None, 0 or 1, got {shown(self.expire_as)}")
            if self.expire_after is None or self.kind != "binary":
                raise ValueError(
                    f"expire_as needs expire_after and kind 'binary', got expire_as={self.expire_as!r} with "
                    f"expire_after={self.expire_after!r} and kind {self.kind!r}: leave expire_as "
                    "out, or set the other two"
                )
        if self.steering is not None and not isinstance(self.steering, bool):
            raise ValueError(f"steering must be None, True or False, got {shown(self.steering)}")
        if not isinstance(self.hints, bool) or (self.kind == "lp" and not self.hints):
            wanted = "True with kind 'lp', which recalibrates hints" if self.kind == "lp" else "True or False"
            raise ValueError(f"hints must be {wanted}, got {shown(self.hints)}")
        if self.alarm is not None and not isinstance(self.alarm, bool):
            allowed = "None, True, False or a rate of false alarms between 0 and 1, as 0.0001"
            check_number(self.alarm, "alarm", 0.0, 1.0, "()", allowed)
        if self.kind == "lp" and self.lanes > 1:
            raise ValueError(
                f"lanes must be 1 with kind 'lp', which late labels do not harm, got {self.lanes!r}: leave "
                "it out"
            )
        if self.kind == "simplex" and self.window is not None and self.classes is None:
            raise ValueError(
                f"window={self.window!r} needs classes=[...] with kind 'simplex', since a class that is "
                "discovered changes the grid, and then no bound on windows is proven: list the classes, or "
                "leave window out"
            )
        check_count(self.most_classes, "most_classes", most=MOST_CLASSES)
        if self.most_classes != DISCOVERED and (self.kind == "binary" or self.classes is not None):
            beside = "kind 'binary'" if self.kind == "binary" else f"classes={shown(self.classes)}"
            raise ValueError(
                "most_classes is for classes that are discovered, by kinds 'simplex' and 'lp' without "
                f"classes, got {self.most_classes!r} with {beside}: leave it out"
            )
        named = dict.fromkeys(name for names in PARAMETERS.values() for name in names)
        for name in named:
            if name not in PARAMETERS[self.kind] and getattr(self, name) is not None:
                kinds = " or ".join(repr(kind) for kind, names in PARAMETERS.items() if name in names)
                raise ValueError(
                    f"{name} does not go with kind {self.kind!r}, got {shown(getattr(self, name))}: leave it "
                    f"out, or set kind to {kinds}"
                )

    def _check_kinds(self) -> None:
        """Refuse values of wrong kinds, and keep equal ones in one way: 1e6 and 1_000_000, 2 and 2.0."""
        for name in COUNT_PARAMETERS:
            value = getattr(self, name)
            if value is not None:
                force_setattr(self, name, as_whole(value))
                check_count(value, name, most=MOST_COUNT)
        for name in NUMBER_PARAMETERS:
            if getattr(self, name) is not None:
                force_setattr(self, name, check_finite(getattr(self, name), name))
        for name in ("max_jump",) if self.expire_after is None else ("expire_after", "max_jump"):
            words = "a positive number of seconds"
            force_setattr(self, name, check_number(getattr(self, name), name, 0.0, math.inf, "()", words))
        for name, word in WORD_PARAMETERS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name} must be a text, such as {word!r}, got {shown(value)}")
        if self.classes is not None:
            force_setattr(self, "classes", checked_classes(self.classes))


def checked_classes(classes: Any) -> tuple[str, ...]:
    """The labels of classes; ValueError if they are none, or one comes twice."""
    if not isinstance(classes, (list, tuple)):
        raise ValueError(f"classes must be a list of labels, such as ['sun', 'rain'], got {shown(classes)}")
    for label in classes:
        if not is_name(label):
            raise ValueError(
                f"classes must be texts of 1 to {LONGEST_NAME} characters without NUL, got {shown(label)}"
            )
        if classes.count(label) > 1:
            raise ValueError(f"classes must be different from each other, got {label!r} twice")
    if not 0 < len(classes) <= MOST_CLASSES:
        raise ValueError(f"classes must be 1 to {MOST_CLASSES} labels, got {len(classes)}")
    return tuple(classes)


class Match(Struct, frozen=True, forbid_unknown_fields=True):
    """An exception in an `EngineConfig`: the keys whose names match a pattern, and their configuration.

    Attributes
    ----------
    pattern
        A text in which `*` stands for any characters, `/` included, `?` for one, and `[...]` for one of those
        named, as in a shell. It has to fit the whole name; capital letters are not small ones.
    config
        The `KeyConfig` of these keys. What it leaves out has the defaults of `KeyConfig`.

    Raises
    ------
    ValueError
        If the pattern is no text or empty, or config is no `KeyConfig`.
    """

    pattern: str
    config: KeyConfig

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern:
            raise ValueError(f'pattern must be a text such as "sport/*", got {shown(self.pattern)}')
        if not isinstance(self.config, KeyConfig):
            raise ValueError(f"config must be a KeyConfig, got {shown(self.config)}")


class EngineConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What forecasters the keys get, and whether outcomes may come before their queries.

    Attributes
    ----------
    default
        The `KeyConfig` of keys whose names match no exception.
    matches
        A list of `Match`, the exceptions. The first whose pattern fits a key's name holds for it.
    park
        What becomes of an outcome that comes before its query. 0: it is rejected as "unknown". N: it is
        parked, that is, it waits for its query, for at most N accepted events of whatever keys; at most N
        outcomes wait at a time. It may be changed at any time, also for an old ledger.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value. The values in a `KeyConfig` that only its
        forecaster can check are refused by `Engine` and `read_config`.
    """

    default: KeyConfig = KeyConfig()
    matches: tuple[Match, ...] = ()
    park: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.default, KeyConfig):
            raise ValueError(f"default must be a KeyConfig, got {shown(self.default)}")
        if not isinstance(self.matches, (list, tuple)) or not all(
            isinstance(match, Match) for match in self.matches
        ):
            raise ValueError(
                'matches must be a list of Match, as [Match("sport/*", KeyConfig())], got '
                f"{shown(self.matches)}"
            )
        force_setattr(self, "matches", tuple(self.matches))
        force_setattr(self, "park", check_count(self.park, "park", MOST_COUNT, least=0))

    def _place_for(self, key: str) -> int:
        """Which configuration a key gets: its number among the exceptions, or -1 for the default."""
        for place, match in enumerate(self.matches):
            if fnmatchcase(key, match.pattern):
                return place
        return -1

    def _without_bounds(self) -> EngineConfig:
        """What forecasts depend on: the configuration with the defaults for `max_jump` and `park`."""
        matches = [replace(match, config=replace(match.config, max_jump=MAX_JUMP)) for match in self.matches]
        return replace(self, default=replace(self.default, max_jump=MAX_JUMP), matches=tuple(matches), park=0)

    def _at(self, place: int) -> KeyConfig:
        """The configuration with the number `place`; the default for -1."""
        return self.default if place < 0 else self.matches[place].config
