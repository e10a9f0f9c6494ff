"""What the metrics share: how they read labels and answers, and what river wants to know of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from river import metrics

from onlinecal.validation import check_probability

ROUNDING = 1e-9
"""By so much a model's probability may lie outside [0, 1]: normalising leaves such crumbs."""


class ProbabilityMetric(metrics.base.BinaryMetric):
    """A metric of the probability of one label; subclasses say how a round counts, and how to forget it.

    Parameters
    ----------
    pos_val
        The label whose probability is looked at; all other labels count as the other outcome.

    Notes
    -----
    `update` and `revert` take a label and an answer: the probability itself, or a dictionary of labels and
    probabilities, in which a missing label has probability 0, as for `river.metrics.LogLoss`. They raise
    ValueError, and change nothing, when the probability is not a number in [0, 1].
    """

    _fmt = ".6f"

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(pos_val=pos_val)

    @property
    def bigger_is_better(self) -> bool:
        """False: these are errors."""
        return False

    @property
    def requires_labels(self) -> bool:
        """False: they are fed probabilities."""
        return False

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Count one round."""
        self._count(*self._read(y_true, y_pred), w)

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Take back one round that was counted, as rolling windows do."""
        self._uncount(*self._read(y_true, y_pred), w)

    @abstractmethod
    def _count(self, forecast: float, outcome: int, w: float) -> None:
        """Count a forecast and its outcome, w times."""

    @abstractmethod
    def _uncount(self, forecast: float, outcome: int, w: float) -> None:
        """Undo `_count`."""

    def _read(self, y_true: Any, y_pred: Any) -> tuple[float, int]:
        p = y_pred.get(self.pos_val, 0.0) if isinstance(y_pred, Mapping) else y_pred
        if isinstance(p, float) and -ROUNDING <= p <= 1.0 + ROUNDING:
            p = min(max(p, 0.0), 1.0)
        return check_probability(p, "y_pred"), int(y_true == self.pos_val)
