"""Lanes of kind "lp": hints are recalibrated under the l_p error, by `OnlineLp`.

`lanes.py` says what a lane is, who calls it, and in which order. A lane has three states, which `run` writes:
`error`, the l_p error of what was announced; `online`, the counts of hints and the map that was fitted to
them last; and `numbers`, the classes in the order in which they came. `next_fit` is the round after which a
new map is fitted. An outcome may change all of them. A query may change the map, which then gets columns of
zeros for new classes. Nothing else happens to it between two fits, so an answer depends on the hint, the
classes known and the last fit alone. `admits` writes `labels` and `label_bytes`. `take` writes all of this
once, before anything is run. What always holds between two calls: `error` and `online` count the same rounds.

`LpState`, `StoredMap` and `StoredEntry` are saved formats, whose fields are told apart by their order.
Whoever changes a field, or its place, raises STATE_FORMAT.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.engine.keys.lanes import ClassForecast, ClassLabels, Lane, LaneStep, shared_out
from onlinecal.forecasters.simplex.input import MOST_CLASSES, check_distributions, check_labels
from onlinecal.measures.lp.level_sets import RunningLpError
from onlinecal.recalibration.lp.online import FIRST_FIT, CountedLevelSet, OnlineLp, level_set_of
from onlinecal.recalibration.lp.recalibrator import EPSILON, N_LEVELS, LevelSetMap, LpRecalibrator, P, Within
from onlinecal.restoring import require
from onlinecal.texts import shown
from onlinecal.validation import check_count, check_number, check_open_unit

MOST_LEVELS = 1000
"""A key's `n_levels` may be at most this. A smaller number would refuse configurations that ledgers have."""
MOST_LP_ROUNDS = 1 << 31
"""Biases then fit 64 bits."""
MOST_LP_OPEN = 1 << 22
"""So many forecasts of a lane may be open."""
LevelPairs = list[tuple[int, int]]


class StoredEntry(Struct, array_like=True):
    """What is stored of a `CountedLevelSet`: the counts of one level set."""

    level_set: LevelPairs
    credit: float
    weight: float
    labels: dict[int, float]
    sums: dict[int, float]


class StoredMap(Struct, array_like=True):
    """What is stored of the map in use: for each level set what its forecasts become, or are shifted by."""

    width: int
    least: float
    level_sets: list[LevelPairs]
    values: list[list[float]]


class LpState(Struct, array_like=True):
    """All that is stored of a lane; its parameters are in the configuration.

    Attributes
    ----------
    labels
        The classes, in the order in which they came.
    rounds, fits, next_fit
        How many rounds were settled, how many maps were fitted, and after which round the next one is due.
    total, paid, unit, entries
        Of the counts (`LevelSetCounts`): their total, `paid`, the weight of the next round, and each level
        set that is kept.
    map
        The map in use, None before the first fit.
    rest, biases
        Of the error (`RunningLpError`).
    """

    labels: list[str]
    rounds: int
    fits: int
    next_fit: int
    total: float
    paid: float
    unit: float
    entries: list[StoredEntry]
    map: StoredMap | None
    rest: int
    biases: list[tuple[LevelPairs, dict[int, int]]]


class LpLane(Lane):
    """One map, which is fitted again and again; to settle a forecast it needs only its probabilities."""

    def __init__(self, kind: LpKind) -> None:
        self.next_fit = kind.first_fit
        self.numbers: dict[str, int] = {label: number for number, label in enumerate(kind.known)}
        super().__init__(self.numbers, kind)
        self.online = OnlineLp(kind.settings, None, kind.fading)
        self.error = RunningLpError(kind.p)

    @property
    def most_open(self) -> int:
        """How many forecasts may be open."""
        return MOST_LP_OPEN

    @property
    def size(self) -> int:
        """An upper estimate of the bytes that it takes of a state: counts, map and biases."""
        used, counted = self.online.map, len(self.online.counts[0].entries) + len(self.error.biases)
        return 512 + (counted + (0 if used is None else len(used.values))) * (64 + 24 * len(self.numbers))

    @property
    def rounds_left(self) -> int:
        """How many more rounds its integers bear, whatever the outcomes."""
        return MOST_LP_ROUNDS - self.rounds

    @property
    def rounds(self) -> int:
        """How many rounds were settled."""
        return self.error.rounds

    @property
    def certificate(self) -> float:
        """The l_p calibration error of the settled rounds, or a bound on it, times their number."""
        return self.error.value

    @property
    def guarantee(self) -> float:
        """What no forecasts can exceed; docs/theory-tables.md shows that no smaller bound holds."""
        return self.rounds * 2.0 ** (1.0 / self.kind.p)

    def check_open(self, waiting: list[ClassForecast]) -> None:
        """ValueError unless each has probabilities of known classes, or none at all."""
        for forecast in waiting:
            announced = forecast.probability
            require(isinstance(announced, dict) and announced.keys() <= self.numbers.keys(), "its forecasts")
            if announced:
                check_distributions(list(announced.values()), (len(announced),), "its forecasts")
            self.kind.hint_of(forecast.hint)

    def run(self, steps: list[LaneStep]) -> list[float]:
        """Take the steps one by one; returns the certificate after each."""
        certificates = []
        for forecast, outcome, hint, _ in steps:
            if outcome is None:
                known = self.numbers
                answer = self.online.answer(shared_out(hint or {}, known)) if known else np.empty(0)
                forecast.probability = dict(zip(self.numbers, answer.tolist(), strict=False))
            else:
                self._settle(forecast, self.numbers.setdefault(outcome, len(self.numbers)))
            certificates.append(self.certificate)
        return certificates

    def _settle(self, forecast: ClassForecast, number: int) -> None:
        probabilities = {self.numbers[label]: u for label, u in forecast.probability.items()}
        announced = np.zeros(len(self.numbers))
        announced[list(probabilities)] = list(probabilities.values())
        self.error.add(level_set_of(announced, self.kind.n_levels), probabilities, number)
        self.online.keep(shared_out(forecast.hint or {}, self.numbers), number)
        if self.rounds >= self.next_fit:
            self.online.fit(list(self.numbers))
            self.next_fit = self.rounds + self.online.rounds_to_next()

    def dump(self) -> bytes:
        """The state in bytes: counts, map and biases."""
        [counts] = self.online.counts
        entries = [
            StoredEntry(list(key), each.credit, each.weights[0], each.labels[0], each.sums)
            for key, each in counts.entries.items()
        ]
        used, error = self.online.map, self.error
        stored = None
        if used is not None:
            level_sets = [
                [(j, level) for j, level in enumerate(row) if level] for row in used.levels.tolist()
            ]
            stored = StoredMap(used.levels.shape[1], float(used.least), level_sets, used.values.tolist())
        biases = [(list(key), each) for key, each in error.biases.items()]
        return msgspec.msgpack.encode(
            LpState(
                list(self.numbers), error.rounds, self.online.fits, self.next_fit, counts.totals[0],
                counts.paid, counts.weight, entries, stored, error.rest, biases,
            )
        )  # fmt: skip

    def take(self, data: bytes) -> None:
        """Take up what was dumped; ValueError if it makes no sense."""
        state = msgspec.msgpack.decode(data, type=LpState)
        k, kind = len(state.labels), self.kind
        require(not kind.known or list(kind.known) == state.labels, "its classes")
        self.numbers = kind.numbered(state.labels)
        self.know(self.numbers)
        online, error, [counts] = self.online, self.error, self.online.counts
        online.rounds, online.fits, self.next_fit = state.rounds, state.fits, state.next_fit
        require(len(state.entries) <= counts.capacity and state.unit > 0.0, "its level sets")
        counts.totals, counts.paid, counts.weight = [state.total], state.paid, state.unit
        for stored in state.entries:
            values = [stored.credit, stored.weight, *stored.labels.values(), *stored.sums.values()]
            require(all(isfinite(each) and each >= 0.0 for each in values), "its weights")
            require(all(0 <= j < k for j in (*stored.labels, *stored.sums)), "its level sets")
            entry = CountedLevelSet(stored.credit, 1)
            entry.weights, entry.labels, entry.sums = [stored.weight], [stored.labels], stored.sums
            counts.entries[self._level_set(stored.level_set, k)] = entry
        online.map = None if state.map is None else self._taken_map(state.map)
        error.rounds, error.rest, error.classes = state.rounds, state.rest, k
        for level_set, biases in state.biases:
            require(all(0 <= j < k for j in biases), "its biases")
            error.restore(self._level_set(level_set, k), biases)

    def _taken_map(self, stored: StoredMap) -> LevelSetMap:
        width, n_levels = stored.width, self.kind.n_levels
        require(2 <= width <= len(self.numbers) and 0.0 <= stored.least <= 1.0 / width, "its map")
        levels = np.zeros((len(stored.values), width), np.int64)
        for row, level_set in zip(levels, stored.level_sets, strict=True):
            for j, level in self._level_set(level_set, width):
                row[j] = level
        values = np.array(stored.values, np.float64).reshape(levels.shape)
        require(bool(np.isfinite(values).all()), "its map")
        return LevelSetMap(levels, values, n_levels, self.kind.settings.within_ == "shift", stored.least)

    def _level_set(self, pairs: LevelPairs, width: int) -> tuple[tuple[int, int], ...]:
        """A level set: classes below `width`, in order, with a level each; ValueError if it is none."""
        classes = [j for j, _ in pairs]
        is_sound = classes == sorted(set(classes)) and all(0 <= j < width for j in classes)
        require(is_sound and all(1 <= level <= self.kind.n_levels for _, level in pairs), "its level sets")
        return tuple(pairs)


class LpKind(ClassLabels):
    """Makes lanes of kind "lp", and checks their hints and outcomes; parameters are as in `KeyConfig`."""

    lane = LpLane

    def __init__(
        self,
        classes: tuple[str, ...] | None,
        most: int = MOST_CLASSES,
        p: float = P,
        epsilon: float = EPSILON,
        n_levels: int = N_LEVELS,
        tolerance: float | None = None,
        within: Within | None = None,
        first_fit: int = FIRST_FIT,
        fading: float | None = None,
    ) -> None:
        super().__init__(classes, most)
        self.known = () if classes is None else check_labels(list(classes), "classes")
        self.p = float(check_number(p, "p", 1.0, 100.0, "(]", "a number above 1, at most 100"))
        self.first_fit = check_count(first_fit, "first_fit")
        self.fading = None if fading is None else check_open_unit(fading, "fading")
        n_levels = check_count(n_levels, "n_levels", most=MOST_LEVELS)
        self.settings = LpRecalibrator.as_in_paper(
            self.p, epsilon, n_levels=n_levels, tolerance=tolerance, within=within
        )
        self.settings._settings_for(2)
        self.n_levels = n_levels

    def outcome_of(self, value: Any) -> str:
        """A class label, checked; ValueError for anything else, also for a soft label."""
        if isinstance(value, dict):
            raise ValueError(
                f"value must be a class label with kind 'lp', got {shown(value)}: soft labels go with kind "
                "'simplex'"
            )
        return self.label_of(value, "value")
