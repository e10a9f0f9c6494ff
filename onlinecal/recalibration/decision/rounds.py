"""Rounds of decision recalibration, how a fit goes on from one to the next, and where it ends.

A round adds `step[a]` to the probabilities in proportion to b_a(p) and projects on the simplex. On the rows
that were fitted with error E = Y - p, memberships b, D = E[b b^T] and R = E[b (Y - p)^T], the full step is
U = D^+ R. In the eigenvectors v of D, with values lambda, it takes |v R|^2 / lambda off the squared error for
each; a step s times as long takes s (2 - s) times as much, so none with 0 <= s <= 1 lets it rise. The full
step takes off at least (sum_a ||R_a||)^2: use trace(U^T R) = max over Z of 2 trace(Z^T R) - trace(Z^T D Z),
Z_a = s R_a / ||R_a||, and that the entries of D sum to 1.

A `Round` never changes. A `Descent` is written by `advance` alone, a round at a time: it searches, makes the
round, and moves the table. A `DescentFold` plays the same on its rows, and replays each round on the rows
that are held out, which no search ever sees. Equal seeds give equal rounds: the order in which `rng` is
asked, for halves and then for a search, and the numbers below decide them. Products over rows are taken in
the order of `measures/fixed_order.py`, and may not be left to BLAS, whose order depends on the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.decision.errors import (
    MAX_ITERATIONS,
    N_STARTS,
    WorstPartition,
    climb,
    improve,
    search,
    soft_errors,
)
from onlinecal.measures.decision.losses import Partition, error_of, loss_norms, residuals
from onlinecal.measures.fixed_order import by_columns, inner, product
from onlinecal.recalibration.flooring import project_rows
from onlinecal.recalibration.folds import DIGITS, divided, same_rows, single_rows
from onlinecal.recalibration.probability_recalibrator import weighted

Finder = Callable[[Floats, Floats, float, np.random.Generator], WorstPartition]
"""Finds the worst error and its partition, for a table (n, C), p - Y, epsilon and random numbers."""

QUICK_ITERATIONS = 30
"""Gradient steps per climb of a quick search."""
MOST_SEARCHED = 20_000
"""At most this many rows, drawn at random, are searched; the partition found is measured on all rows."""
SMALLEST_EIGENVALUE = 1e-9
"""Directions of b with less mass than this part of the largest are not corrected, as by a pseudo-inverse."""


@dataclass(frozen=True, eq=False)
class Round:
    """One correction: a partition of the present probabilities, and what is added in each region, (K, C)."""

    partition: Partition
    step: Floats

    def __call__(self, table: Floats) -> Floats:
        """The corrected rows, shape (n, C)."""
        return project_rows(table + product(by_columns(self.step), self.partition(table).T).T)


class RoundProgress(NamedTuple):
    """The error that a round found, and squared error and accuracy of the fitted rows before it."""

    error: float
    squared_error: float
    accuracy: float


class WorstOfAllLosses:
    """Finds the worst partition for all losses with K actions.

    A quick search is enough as long as it finds an error above epsilon. If it finds none, a thorough search
    follows. For soft partitions a search for hard ones, which are limits of soft ones, follows as well. Only
    if none of them finds more than epsilon is epsilon reached. Of many rows only some are searched, but
    errors are measured on all; a thorough search goes on in all rows.
    """

    def __init__(self, n_actions: int, hard: bool) -> None:
        self.n_actions, self.hard = n_actions, hard

    def __call__(
        self, table: Floats, residual: Floats, epsilon: float, rng: np.random.Generator
    ) -> WorstPartition:
        """Search; `residual` is p - Y."""
        tries = [(self.hard, 1, QUICK_ITERATIONS), (self.hard, N_STARTS, MAX_ITERATIONS)]
        few, wrong = table, residual
        if sampled := len(table) > MOST_SEARCHED:
            some = rng.choice(len(table), MOST_SEARCHED, replace=False)
            few, wrong = table[some], residual[some]
        if not self.hard:
            # the search for hard partitions sorts, which takes longer for many rows than all climbs
            tries.append((True, 1 if sampled else N_STARTS, MAX_ITERATIONS))
        for hard, n_starts, max_iterations in tries:
            # for two classes the worst hard partition is found exactly, and fast
            exact = hard and table.shape[1] == 2
            rows = (table, residual) if exact else (few, wrong)
            worst = search(*rows, self.n_actions, hard, rng, n_starts, max_iterations)
            if sampled and not exact:
                worst = WorstPartition(error_of(worst.partition(table), residual), worst.partition)
                if n_starts == N_STARTS and worst.error <= epsilon:
                    worst = _continued(worst, table, residual, rng)
            if worst.error > epsilon:
                break
        return worst


def _continued(
    worst_of_few: WorstPartition, table: Floats, residual: Floats, rng: np.random.Generator
) -> WorstPartition:
    """The result of a search of all rows that starts where the search of a few rows ended."""
    if worst_of_few.partition.hard:
        return improve(table, residual, worst_of_few.partition.weights, worst_of_few.error, rng)
    error, weights = climb(soft_errors(table, residual), worst_of_few.partition.weights, MAX_ITERATIONS)
    return WorstPartition(error, Partition(weights, hard=False))


class WorstOfGivenLosses:
    """Finds the loss table with the largest gap, and the regions of its Bayes decisions.

    Decisions are made by the forecasts that will be given, which are floored at `least`. The expected loss of
    an action under a floored forecast is the expected loss by `rules` under the forecast itself.
    """

    def __init__(self, losses: Floats, least: float = 0.0) -> None:
        norms = loss_norms(losses)
        self.losses = losses
        share = losses.shape[2] * least
        self.rules = (1.0 - share) * losses + least * losses.sum(axis=2, keepdims=True)
        self.norms = np.where(norms > 0.0, norms, 1.0)

    def __call__(
        self, table: Floats, residual: Floats, epsilon: float, rng: np.random.Generator
    ) -> WorstPartition:
        """Compute the gaps of all tables; `residual` is p - Y."""
        gaps = np.empty(len(self.losses))
        for i, (loss, rule) in enumerate(zip(self.losses, self.rules, strict=True)):
            biases = inner(Partition(-rule, hard=True)(table).T, residual) / len(table)
            gaps[i] = abs((biases * loss).sum()) / self.norms[i]
        worst = int(gaps.argmax())
        return WorstPartition(float(gaps[worst]), Partition(-self.rules[worst], hard=True))


def full_step(members: Floats, error: Floats, weights: Floats | None = None) -> Floats:
    """U = D^+ R, shape (K, C): the least squares correction by memberships (n, K) of errors Y - p (n, C)."""
    return _step(members, error, np.ones(len(error)) if weights is None else weights, lambda vector: 1.0)


def shrunk_step(
    members: Floats,
    error: Floats,
    fresh: Ints,
    length: float,
    weights: Floats | None = None,
    counts: tuple[Floats, Floats] | None = None,
) -> Floats:
    """The full step with each direction shortened by the part of it that is noise.

    The rows `fresh` must not have been used to choose the partition. In direction v their mean of v b (Y - p)
    has squared norm r. If p were right it would have mean square `noise` = average of (v b)^2 ||Y - p||^2 /
    rows. The positive James-Stein factor s = 1 - noise / r estimates which part of r other rows would show
    again. For all n rows instead of m fresh ones it becomes n s / (m + (n - m) s). A row of weight w counts
    as w rows. `counts` holds weights and blocks of the fresh rows, as in `Dealt`, where these rows have only
    parts of their weights: rows that were dealt whole are one observation, and add noise like one.
    """
    weights = np.ones(len(error)) if weights is None else weights
    fresh_weights, blocks = (weights[fresh], weights[fresh]) if counts is None else counts
    count = fresh_weights.sum()
    share = weights.sum() / count
    columns, fresh_error = by_columns(members[fresh]), error[fresh]
    sizes = (fresh_error**2).sum(axis=1)
    fresh_error = weighted(fresh_error, fresh_weights)

    def factor(vector: Floats) -> float:
        mixture = product(vector[None], columns)
        squared_mean = float(((inner(mixture, fresh_error) / len(fresh)) ** 2).sum())
        noise = float((mixture[0] ** 2 * sizes * fresh_weights * blocks).sum() / count**2)
        part = max(0.0, 1.0 - noise / squared_mean) if squared_mean > 0.0 else 0.0
        return length * share * part / (1.0 + (share - 1.0) * part)

    return _step(members, error, weights, factor)


def _step(members: Floats, error: Floats, weights: Floats, factor: Callable[[Floats], float]) -> Floats:
    n = len(members)
    eigenvalues, vectors = np.linalg.eigh(inner(members.T, weighted(members, weights)) / n)
    means = inner(members.T, weighted(error, weights)) / n
    step = np.zeros_like(means)
    for eigenvalue, vector in zip(eigenvalues, vectors.T, strict=True):
        if eigenvalue > SMALLEST_EIGENVALUE * eigenvalues[-1]:
            along = (vector[:, None] * means).sum(axis=0)
            step += factor(vector) / eigenvalue * np.outer(vector, along)
    return step


class Descent:
    """Rounds on one set of rows, played one at a time, from a table (n, C), labels (n,) and weights (n,).

    With length None the rounds are those of the paper's Algorithms 1 and 2: full steps from and for all rows.
    With a length the first round corrects the mean. Each later round chooses its partition on a random half
    of the rows; its step comes from all rows, and is shortened by this factor and by the noise that the other
    half shows.

    `table` always is the table after `rounds`; `reached` is true once a search has found no error above
    epsilon.
    """

    def __init__(
        self,
        table: Floats,
        labels: Ints,
        find: Finder,
        length: float | None,
        seed: int | list[int],
        weights: Floats,
    ) -> None:
        self.table, self.labels, self.weights = table, labels, weights
        self.find, self.length = find, length
        self.rng = np.random.default_rng(seed)
        self.rounds: list[Round] = []
        self.reached = False
        # sets are found before the first round: rounds may make different rows equal, which stay two sets
        self._sets = same_rows(table, digits=DIGITS)
        self._single = single_rows(self._sets, labels, weights, 2)
        self._blocks = np.where(self._single, np.minimum(weights, 1.0), weights)

    def _halves(self) -> tuple[Ints, Floats, Ints, tuple[Floats, Floats]]:
        """A random half of the rows and their weights; the other half, with weights and blocks.

        Equal rows are in the same half, unless they are dealt one by one. If the number of sets of equal rows
        is odd, the set in the middle is in both halves.
        """
        weights = self.weights
        n_sets = int(self._sets.max()) + 1
        order = self.rng.permutation(n_sets)
        chosen, fresh = order[: (n_sets + 1) // 2], order[n_sets // 2 :]
        if n_sets == len(self._sets):
            return chosen, weights[chosen], fresh, (weights[fresh], weights[fresh])
        place = np.empty(n_sets, np.int64)
        place[order] = np.arange(n_sets)
        chosen_weights = np.where(place[self._sets] < len(chosen), weights, 0.0)
        fresh_weights = np.where(place[self._sets] >= n_sets - len(fresh), weights, 0.0)
        if self._single.any():
            halves = divided(weights[self._single], np.array([0.5, 0.5]), self.rng)
            chosen_weights[self._single], fresh_weights[self._single] = halves.T
        chosen, fresh = np.flatnonzero(chosen_weights), np.flatnonzero(fresh_weights)
        blocks = np.where(self._single, np.minimum(fresh_weights, 1.0), fresh_weights)
        return chosen, chosen_weights[chosen], fresh, (fresh_weights[fresh], blocks[fresh])

    def progress(self, error: float = np.nan) -> RoundProgress:
        """Squared error and accuracy of the rows as they are, beside the error that was found."""
        squared = (residuals(self.table, self.labels) ** 2).sum(axis=1)
        hits = self.table.argmax(axis=1) == self.labels
        averages = (float(np.average(values, weights=self.weights)) for values in (squared, hits))
        return RoundProgress(error, *averages)

    def advance(self, epsilon: float) -> RoundProgress | None:
        """Play one round; once the error found is at most epsilon, do nothing and return None."""
        if self.reached:
            return None
        residual, (n, n_classes) = residuals(self.table, self.labels), self.table.shape
        length = self.length
        chosen = fresh = np.arange(n)
        chosen_weights, counts = self.weights, (self.weights, self._blocks)
        if length is not None and not self.rounds:
            length, whole = 1.0, Partition(np.zeros((1, n_classes)), hard=True)
            worst = WorstPartition(error_of(whole(self.table), weighted(residual, self.weights)), whole)
        else:
            if length is not None:
                chosen, chosen_weights, fresh, counts = self._halves()
            # the search takes unweighted averages
            weighted_residual = weighted(residual[chosen], chosen_weights)
            worst = self.find(self.table[chosen], weighted_residual, epsilon, self.rng)
            if worst.error <= epsilon:
                self.reached = True
                return None
        members = worst.partition(self.table)
        if length is None:
            step = full_step(members, -residual, self.weights)
        else:
            step = shrunk_step(members, -residual, fresh, length, self.weights, counts)
        progress = self.progress(worst.error)
        self.rounds.append(Round(worst.partition, step))
        self.table = self.rounds[-1](self.table)
        return progress


def replay(table: Floats, rounds: list[Round]) -> Iterator[Floats]:
    """Play the rounds on a table (n, C); yields the table at the start and after each round."""
    yield table
    for correction in rounds:
        table = correction(table)
        yield table


class HeldOut(NamedTuple):
    """Averages over folds of held-out rows, before any round and after each, each of shape (rounds + 1,)."""

    gap: Floats
    squared_error: Floats

    @property
    def best(self) -> int:
        """The number of rounds with the smallest gap, if its squared error is not above the start's."""
        allowed = self.squared_error <= self.squared_error[0]
        return int(np.argmin(np.where(allowed, self.gap, np.inf)))


ROUNDS_WITHOUT_LOWER_GAP = 8
"""Folds stop after this many rounds without a lower held-out gap."""


class DescentFold:
    """Rounds on some rows, and their effect on rows that are held out: a table (n, C), labels and weights.

    `begun` is the held-out table after the start, `table` the table with which the rounds begin, which
    includes earlier rounds of a warm start. `blocks` are as in `Dealt`.
    """

    def __init__(
        self,
        descent: Descent,
        begun: Floats,
        table: Floats,
        labels: Ints,
        weights: Floats,
        blocks: Floats | None = None,
    ) -> None:
        self.descent, self.begun = descent, begun
        self.labels, self.weights = labels, weights
        self.blocks = weights if blocks is None else blocks
        self.first = self.table = table

    def advance(self, epsilon: float) -> bool:
        """Play one round on both parts; False, and nothing done, if the descent has ended."""
        if self.descent.advance(epsilon) is None:
            return False
        self.table = self.descent.rounds[-1](self.table)
        return True

    def after(self, n_rounds: int) -> Floats:
        """The held-out table after this many rounds."""
        *_, table = replay(self.first, self.descent.rounds[:n_rounds])
        return table


def course_of(
    folds: list[DescentFold], epsilon: float, most: int, error: Callable[[Floats, Ints, Floats], float]
) -> HeldOut:
    """Errors of held-out rows after each round, when all folds advance together.

    They stop after `most` rounds, when no fold can advance, or when the gap no longer becomes lower. `error`
    is the mean square gap of a table with its labels and weights.
    """

    def score() -> tuple[float, float]:
        squared = [
            np.average((residuals(fold.table, fold.labels) ** 2).sum(axis=1), weights=fold.weights)
            for fold in folds
        ]
        gaps = [error(fold.table, fold.labels, fold.weights) for fold in folds]
        return float(np.sqrt(np.mean(gaps))), float(np.mean(squared))

    course = [score()]
    while len(course) <= most and any([fold.advance(epsilon) for fold in folds]):
        course.append(score())
        if len(course) - 1 - int(np.argmin([gap for gap, _ in course])) >= ROUNDS_WITHOUT_LOWER_GAP:
            break
    return HeldOut(*np.array(course).T)
