"""What settled forecasts are worth, beside the hints that came with their queries: averages over rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from onlinecal.measures.scores import BesideConstants


class Scores(BesideConstants, Struct, frozen=True):
    """Averages over settled rounds; of several classes the Brier score is a sum over classes.

    Attributes
    ----------
    rounds
        How many: those with a hint, if any has one, else all.
    brier_hint, log_loss_hint
        Of the hints; None if there are none.
    brier, log_loss
        Of the forecasts.
    brier_constant, log_loss_constant
        Of the best constant in hindsight, one for each key.
    """

    rounds: int
    brier_hint: float | None
    log_loss_hint: float | None
    brier: float
    log_loss: float
    brier_constant: float
    log_loss_constant: float

    @property
    def hints(self) -> dict[str, float] | None:
        """Of the hints; None if there are none."""
        if self.brier_hint is None or self.log_loss_hint is None:
            return None
        return {"Brier score": self.brier_hint, "log loss": self.log_loss_hint}


def scores_of_all(every: Iterable[Scores]) -> Scores | None:
    """All keys together, only those with hints if there are any; each round weighs the same. None of none."""
    listed = list(every)
    listed = [one for one in listed if one.hints is not None] or listed
    if not listed:
        return None
    rounds = sum(one.rounds for one in listed)

    def mean(name: str) -> float:
        return math.fsum(one.rounds * getattr(one, name) for one in listed) / rounds

    told = listed[0].hints is not None
    return Scores(
        rounds,
        mean("brier_hint") if told else None,
        mean("log_loss_hint") if told else None,
        mean("brier"),
        mean("log_loss"),
        mean("brier_constant"),
        mean("log_loss_constant"),
    )
