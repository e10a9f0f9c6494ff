"""What the settled forecasts of a ledger are worth, beside the hints that came with their queries."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from onlinecal.engine.keys.class_labels import parts_of
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.records import loaded, loaded_outcome
from onlinecal.engine.watch.scores import Scores
from onlinecal.measures.scores import CLIP

SETTLED = (
    "SELECT k.name, q.hint, q.probability, c.value FROM closings AS c JOIN queries AS q ON q.number = c.query"
    " JOIN keys AS k ON k.number = q.key WHERE c.value IS NOT NULL ORDER BY c.number"
)


@dataclass
class _Sums:
    """Sums over rounds that all have a hint, or all have none."""

    rounds: int = 0
    given: list[float] = field(default_factory=lambda: [0.0, 0.0])
    hinted: list[float] = field(default_factory=lambda: [0.0, 0.0])
    outcomes: Counter[Any] = field(default_factory=Counter)
    """How often each outcome came; with classes as (label, probability)."""
    has_classes: bool = False

    def add(self, hint: Any, probability: Any, value: Any) -> None:
        self.rounds += 1
        self.has_classes = isinstance(probability, dict)
        came = parts_of(value) if self.has_classes else value
        self.outcomes[tuple(came.items()) if self.has_classes else came] += 1
        for sums, forecast in ((self.given, probability), (self.hinted, hint)):
            if forecast is not None:
                brier, log_loss = round_scores(forecast, came)
                sums[0] += brier
                sums[1] += log_loss


def read_scores(ledger: Ledger) -> dict[str, Scores]:
    """The scores of every key that has settled rounds, by its name; a few seconds a million rounds."""
    sums: dict[str, tuple[_Sums, _Sums]] = {}
    with ledger.content_errors():
        for key, hint, probability, value in ledger.connection.execute(SETTLED):
            if key not in sums:
                sums[key] = _Sums(), _Sums()
            sums[key][hint is not None].add(loaded(hint), loaded(probability), loaded_outcome(value))
        return {key: _averages(*both) for key, both in sums.items()}


def round_scores(forecast: Any, value: Any) -> tuple[float, float]:
    """Squared error and log loss of a probability of 1, or of probabilities by class, after this outcome.

    With classes that is a distribution, too.
    """
    if not isinstance(forecast, dict):
        p, y = float(forecast), float(value)
        return (p - y) ** 2, y * _log_cost(p) + (1.0 - y) * _log_cost(1.0 - p)
    given = sum(y * forecast.get(label, 0.0) for label, y in value.items())
    brier = sum(p * p for p in forecast.values()) - 2.0 * given + sum(y * y for y in value.values())
    return brier, sum(y * _log_cost(forecast.get(label, 0.0)) for label, y in value.items())


def _log_cost(given: float) -> float:
    return -math.log(max(given, CLIP))


def _averages(unhinted: _Sums, hinted: _Sums) -> Scores:
    sums = hinted if hinted.rounds else unhinted
    n = sums.rounds
    best: Any
    if sums.has_classes:
        best = dict[str, float]()
        for value, count in sums.outcomes.items():
            for label, y in value:
                best[label] = best.get(label, 0.0) + y * count / n
    else:
        best = sum(value * count for value, count in sums.outcomes.items()) / n
    constants = [0.0, 0.0]
    for value, count in sums.outcomes.items():
        brier, log_loss = round_scores(best, dict(value) if sums.has_classes else value)
        constants = [constants[0] + count / n * brier, constants[1] + count / n * log_loss]
    told = [one / n for one in sums.hinted] if hinted.rounds else [None, None]
    return Scores(n, *told, *(one / n for one in sums.given), *constants)
