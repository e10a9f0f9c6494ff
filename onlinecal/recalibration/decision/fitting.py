"""A fit of decision recalibration: what rounds search for, where they start from, how many there are.

What the parameters of a DecisionRecalibrator may be.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.decision.errors import PARTITIONS, PartitionKind, loss_gaps
from onlinecal.measures.decision.losses import mean_losses
from onlinecal.measures.decision.partitions import residuals
from onlinecal.recalibration.decision.rounds import (
    Descent,
    Finder,
    Progress,
    Round,
    WorstOfAllLosses,
    WorstOfGivenLosses,
    replay,
)
from onlinecal.recalibration.flooring import floored
from onlinecal.recalibration.mixing import Rows, chosen_mixture, moments_of, told_mixture
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.starting import (
    Start,
    deciding_folds,
    fitted_start,
    start_model,
    started,
)
from onlinecal.recalibration.weights import Weights, counts_of, mean, part
from onlinecal.validation import check_choice, check_count, check_positive

if TYPE_CHECKING:
    from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator


Begun = ProbabilityRecalibrator | None
"""A fitted start, None for none."""
Step = Literal["shrunk", "full"]
N_WATCHED = 200
"""Random decision makers watched on held-out rows."""
STEP_LENGTH = 0.5
MOST_CAUTIOUS_ROUNDS = 32
QUICK_ITERATIONS = 30
"""Gradient steps per climb while more than epsilon is found."""
PATIENCE = 8
"""Rounds without a better held-out gap before the folds stop."""


class HeldOut(NamedTuple):
    """Averages over folds of held-out rows, before any round and after each, each of shape (rounds + 1,)."""

    gap: Floats
    squared_error: Floats

    @property
    def best(self) -> int:
        """Rounds with the smallest gap, among those with a squared error not above the start's."""
        allowed = self.squared_error <= self.squared_error[0]
        return int(np.argmin(np.where(allowed, self.gap, np.inf)))


class Parameters(Protocol):
    """What a fit asks of `DecisionRecalibrator`, which says what each means."""

    n_actions: int
    epsilon: float
    partition: PartitionKind
    max_rounds: int | None
    seed: int
    start: Start
    step: Step
    n_folds: int
    n_starts: int
    share: float | None
    keep: float
    limit: float | None


class Fitting:
    """The rows of a fit together with its parameters.

    Parameters
    ----------
    parameters
        Checked.
    table, labels, weights
        Probabilities (n, C), class numbers (n,) and weights (n,) or None.
    losses
        Given tables (n_losses, K, C); None: all losses with n_actions actions.
    least
        The least probability of the corrected ones.
    earlier
        Start and rounds of the fit before, which this one adds to; None: there are none.
    """

    def __init__(
        self,
        parameters: Parameters,
        table: Floats,
        labels: Ints,
        weights: Weights,
        losses: Floats | None,
        least: float,
        earlier: tuple[Begun, list[Round]] | None,
    ) -> None:
        self.parameters = parameters
        self.table, self.labels, self.weights = table, labels, weights
        self.losses = losses
        shape = (N_WATCHED, max(2, parameters.n_actions), table.shape[1])
        drawn = np.random.default_rng([parameters.seed, 1]).standard_normal(shape)
        self.watched = drawn if losses is None else losses
        self.least = least
        self.earlier = earlier
        asked = parameters.start, parameters.n_folds, parameters.seed
        self.model = None if earlier is not None else start_model(*asked, table, labels, weights)
        # per fold, of `held_out`: its rows, the start's table of all rows, the rounds
        self.folds: list[tuple[Ints, Floats, Descent]] = []
        self.find: Finder = (
            WorstOfAllLosses(
                parameters.n_actions,
                parameters.partition == "hard",
                parameters.n_starts,
                QUICK_ITERATIONS,
            )
            if losses is None
            else WorstOfGivenLosses(losses, least)
        )

    @property
    def most_rounds(self) -> int:
        """How many rounds there can be, whatever held-out rows say."""
        if self.parameters.max_rounds is not None:
            return self.parameters.max_rounds
        n_actions = max(2, self.parameters.n_actions if self.losses is None else self.losses.shape[1])
        proven = math.ceil(n_actions / self.parameters.epsilon**2)
        return min(proven, MOST_CAUTIOUS_ROUNDS) if self.parameters.n_folds else proven

    def held_out(self) -> HeldOut:
        """What rounds do to held-out rows: all folds advance together, until none improves."""
        asked = self.parameters
        tables = []
        for rows, out in deciding_folds(len(self.labels), asked.n_folds, asked.seed):
            start, fitted = self._start(rows)
            begun = started(start, self.table[out])
            self.folds.append((out, begun, self._descent(self._corrected(fitted), rows, 1)))
            tables.append(self._corrected(begun))
        course = [self._score(tables)]
        most = self.most_rounds
        while len(course) <= most:
            moved = False
            for fold, (*_, descent) in enumerate(self.folds):
                if descent.advance(asked.epsilon) is not None:
                    tables[fold] = descent.rounds[-1](tables[fold])
                    moved = True
            if not moved:
                break
            course.append(self._score(tables))
            if len(course) - 1 - int(np.argmin([gap for gap, _ in course])) >= PATIENCE:
                break
        return HeldOut(*np.array(course).T)

    def run(self, most: int) -> tuple[Begun, Floats, Descent, list[Progress], bool]:
        """Up to so many rounds on all rows.

        The start and its table, the rounds, what each of them saw (and the end), and whether nothing above
        epsilon was left.
        """
        rows = np.arange(len(self.table))
        start, begun = self._start(rows)
        descent = self._descent(self._corrected(begun), rows, 0)
        history: list[Progress] = []
        while len(descent.rounds) < most:
            progress = descent.advance(self.parameters.epsilon)
            if progress is None:
                return start, begun, descent, [*history, descent.progress()], True
            history.append(progress)
        return start, begun, descent, [*history, descent.progress()], False

    def mixture(self, most: int, begun: Floats, corrected: Floats) -> tuple[float, float]:
        """The share of the corrected table (n, C) and its limit: as told or by folds.

        The folds' tables are those after so many rounds.
        """
        asked = self.parameters
        if asked.share is not None or not asked.n_folds:
            return told_mixture(asked.share, asked.limit)
        held_out = []
        for out, mine, descent in self.folds:
            *_, table = replay(self._corrected(mine), descent.rounds[:most])
            weights = part(self.weights, out)
            held_out.append(Rows(mine, floored(table, self.least), self.labels[out], weights))
        rows = Rows(begun, corrected, self.labels, self.weights)
        return chosen_mixture(
            held_out,
            lambda width: moments_of([rows], asked.keep, width),
            asked.keep,
            asked.limit,
            self._error,
        )

    def _error(self, table: Floats, labels: Ints, weights: Weights) -> float:
        """The mean square gap of the decision makers that are watched."""
        return float((_gaps(table, labels, weights, self.watched) ** 2).mean())

    def _start(self, rows: Ints) -> tuple[Begun, Floats]:
        """The start when only some rows are fitted, and what it makes of them."""
        if self.earlier is not None:
            return self.earlier[0], started(self.earlier[0], self.table[rows])
        return fitted_start(self.model, self.table[rows], self.labels[rows], part(self.weights, rows))

    def _corrected(self, begun: Floats) -> Floats:
        """What earlier rounds make of a start's table."""
        *_, table = replay(begun, [] if self.earlier is None else self.earlier[1])
        return table

    def _descent(self, table: Floats, rows: Ints, stream: int) -> Descent:
        length = STEP_LENGTH if self.parameters.step == "shrunk" else None
        seed = [self.parameters.seed, 3, stream]
        return Descent(table, self.labels[rows], self.find, length, seed, part(self.weights, rows))

    def _score(self, tables: list[Floats]) -> tuple[float, float]:
        """Root mean square gap and mean squared error, over folds."""
        gaps, squared = [], []
        for (out, *_), table in zip(self.folds, tables, strict=True):
            labels, weights = self.labels[out], part(self.weights, out)
            gaps.append(self._error(table, labels, weights))
            squared.append(mean((residuals(table, labels) ** 2).sum(axis=1), weights))
        return float(np.sqrt(np.mean(gaps))), float(np.mean(squared))


def _gaps(table: Floats, labels: Ints, weights: Weights, losses: Floats) -> Floats:
    """`decision_loss_gap` of checked rows with weights."""
    predicted, true = mean_losses(table, labels, losses, counts_of(labels, weights))
    return loss_gaps(predicted, true, losses)


STEPS: tuple[Step, ...] = get_args(Step)


def check_settings(model: DecisionRecalibrator) -> None:
    """Refuse bad ones of its own; the message names the parameter and the value."""
    check_count(model.n_actions, "n_actions")
    check_positive(model.epsilon, "epsilon")
    check_choice(model.partition, PARTITIONS, "partition")
    check_choice(model.step, STEPS, "step")
    if not isinstance(model.floor, (bool, np.bool_)):
        raise ValueError(f"floor must be True or False, got {model.floor!r}")
    check_count(model.n_starts, "n_starts")
    if model.max_rounds is not None:
        check_count(model.max_rounds, "max_rounds")
