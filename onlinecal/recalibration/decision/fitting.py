"""A fit of decision recalibration: what rounds search for, where they start from, how many there are."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, Protocol

import numpy as np

from onlinecal.measures.decision.errors import PartitionKind, decision_loss_gap
from onlinecal.measures.decision.partitions import Floats, Ints, residuals
from onlinecal.recalibration.classical.temperature import best_inverse_temperature, tempered
from onlinecal.recalibration.decision.rounds import (
    Descent,
    Finder,
    Progress,
    Round,
    WorstOfAllLosses,
    WorstOfGivenLosses,
    replay,
)

Start = Literal["temperature", "none"]
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


class Fitting:
    """The rows of a fit together with its parameters.

    Parameters
    ----------
    parameters
        Checked.
    table, labels
        Probabilities (n, C) and class numbers (n,).
    losses
        Given tables (n_losses, K, C); None: all losses with n_actions actions.
    least
        The least probability of the result.
    earlier
        Inverse temperature and rounds of the fit before, which this one adds to; None: there are none.
    """

    def __init__(
        self,
        parameters: Parameters,
        table: Floats,
        labels: Ints,
        losses: Floats | None,
        least: float,
        earlier: tuple[float, list[Round]] | None,
    ) -> None:
        self.parameters = parameters
        self.table = table
        self.labels = labels
        self.losses = losses
        self.earlier = earlier
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
        """What rounds do to held-out rows: all folds advance together, until none improves.

        (scikit-learn's KFold would deal other rows to the folds for the same seed, and so change models.)
        """
        asked, watched = self.parameters, self.losses
        if watched is None:
            shape = (N_WATCHED, max(2, asked.n_actions), self.table.shape[1])
            watched = np.random.default_rng([asked.seed, 1]).standard_normal(shape)
        rng = np.random.default_rng([asked.seed, 2])
        fold_of = rng.permutation(np.arange(len(self.labels)) % asked.n_folds)
        descents, tables, labels = [], [], []
        for fold in range(asked.n_folds):
            out = fold_of == fold
            rows = np.flatnonzero(~out)
            _, begun = self._begin(rows)
            descents.append(self._descent(begun[rows], self.labels[rows], 1))
            tables.append(begun[out])
            labels.append(self.labels[out])
        course = [_score(tables, labels, watched)]
        most = self.most_rounds
        while len(course) <= most:
            moved = False
            for fold, descent in enumerate(descents):
                if descent.advance(asked.epsilon) is not None:
                    tables[fold] = descent.rounds[-1](tables[fold])
                    moved = True
            if not moved:
                break
            course.append(_score(tables, labels, watched))
            if len(course) - 1 - int(np.argmin([gap for gap, _ in course])) >= PATIENCE:
                break
        return HeldOut(*np.array(course).T)

    def run(self, most: int) -> tuple[float, Descent, list[Progress], bool]:
        """Up to so many rounds on all rows.

        The inverse temperature, the rounds, what each of them saw (and the end), and whether nothing above
        epsilon was left.
        """
        beta, begun = self._begin(np.arange(len(self.table)))
        descent = self._descent(begun, self.labels, 0)
        history: list[Progress] = []
        while len(descent.rounds) < most:
            progress = descent.advance(self.parameters.epsilon)
            if progress is None:
                return beta, descent, [*history, descent.progress()], True
            history.append(progress)
        return beta, descent, [*history, descent.progress()], False

    def _begin(self, rows: Ints) -> tuple[float, Floats]:
        """Where the rounds start from, for all rows, when only some are fitted: beta and the table."""
        beta, rounds = (1.0, []) if self.earlier is None else self.earlier
        if self.earlier is None and self.parameters.start == "temperature":
            table, labels = self.table[rows], self.labels[rows]
            found = best_inverse_temperature(table, labels)
            cooled = residuals(tempered(table, found), labels)
            if (cooled**2).sum() <= (residuals(table, labels) ** 2).sum():
                beta = found
        *_, begun = replay(self.table, beta, rounds)
        return beta, begun

    def _descent(self, table: Floats, labels: Ints, stream: int) -> Descent:
        length = STEP_LENGTH if self.parameters.step == "shrunk" else None
        return Descent(table, labels, self.find, length, [self.parameters.seed, 3, stream])


def _score(tables: list[Floats], labels: list[Ints], losses: Floats) -> tuple[float, float]:
    """Root mean square gap and mean squared error, over folds."""
    pairs = list(zip(tables, labels, strict=True))
    gaps = [(decision_loss_gap(table, mine, losses) ** 2).mean() for table, mine in pairs]
    squared = [(residuals(table, mine) ** 2).sum(axis=1).mean() for table, mine in pairs]
    return float(np.sqrt(np.mean(gaps))), float(np.mean(squared))
