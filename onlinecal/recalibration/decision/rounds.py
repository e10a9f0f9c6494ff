"""Rounds of decision recalibration, how a fit goes on from one to the next, and where it ends.

A round adds `step[a]` to the probabilities in proportion to b_a(p) and projects on the simplex. On the rows
that were fitted with error E = Y - p, memberships b, D = E[b b^T] and R = E[b (Y - p)^T], the full step is
U = D^+ R. In the eigenvectors v of D, with values lambda, it takes |v R|^2 / lambda off the squared error for
each; a step s times as long takes s (2 - s) times as much, so none with 0 <= s <= 1 lets it rise. The full
step takes off at least (sum_a ||R_a||)^2: use trace(U^T R) = max over Z of 2 trace(Z^T R) - trace(Z^T D Z),
Z_a = s R_a / ||R_a||, and that the entries of D sum to 1.
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
    Found,
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

Finder = Callable[[Floats, Floats, float, np.random.Generator], Found]
"""From a table (n, C), p - Y and epsilon: the worst error found, and its partition."""

QUICK_ITERATIONS = 30
"""Gradient steps per climb while more than epsilon is found."""
MOST_SEARCHED = 20_000
"""Of more rows so many, drawn at random, are searched; what is found is measured on all."""
SMALLEST_EIGENVALUE = 1e-9
"""Directions of b with less mass than this, relative to the most, are not corrected: the pseudo-inverse."""


@dataclass(frozen=True, eq=False)
class Round:
    """One correction: a partition of the probabilities as they stand, what is added on its regions (K, C)."""

    partition: Partition
    step: Floats

    def __call__(self, table: Floats) -> Floats:
        """The corrected rows, shape (n, C)."""
        return project_rows(table + product(by_columns(self.step), self.partition(table).T).T)


class Progress(NamedTuple):
    """What a round found and what the fitted rows looked like before it."""

    error: float
    squared_error: float
    accuracy: float


class WorstOfAllLosses:
    """The worst partition for all losses with K actions.

    A quick search does as long as it finds an error above epsilon. If it does not, a thorough one is made,
    and for soft partitions a hard one too, which are limits of soft ones: only then is epsilon reached.
    Of many rows some are searched, and errors are those of all; a thorough search goes on in all of them.
    """

    def __init__(self, n_actions: int, hard: bool, n_starts: int) -> None:
        self.n_actions, self.hard, self.n_starts = n_actions, hard, n_starts

    def __call__(self, table: Floats, residual: Floats, epsilon: float, rng: np.random.Generator) -> Found:
        """Search; `residual` is p - Y."""
        tries = [(self.hard, self.n_starts, QUICK_ITERATIONS), (self.hard, N_STARTS, MAX_ITERATIONS)]
        few, wrong = table, residual
        if sampled := len(table) > MOST_SEARCHED:
            some = rng.choice(len(table), MOST_SEARCHED, replace=False)
            few, wrong = table[some], residual[some]
        if not self.hard:
            # to sort many rows takes longer than all climbs
            tries.append((True, 1 if sampled else N_STARTS, MAX_ITERATIONS))
        for hard, n_starts, max_iterations in tries:
            # regions of two classes are found exactly, and fast
            exact = hard and table.shape[1] == 2
            rows = (table, residual) if exact else (few, wrong)
            found = search(*rows, self.n_actions, hard, rng, n_starts, max_iterations)
            if sampled and not exact:
                found = Found(error_of(found.partition(table), residual), found.partition)
                if n_starts == N_STARTS and found.error <= epsilon:
                    found = _continued(found, table, residual, rng)
            if found.error > epsilon:
                break
        return found


def _continued(found: Found, table: Floats, residual: Floats, rng: np.random.Generator) -> Found:
    """Where the search of a few rows ended, the one of all goes on."""
    if found.partition.hard:
        return improve(table, residual, found.partition.weights, found.error, rng)
    error, weights = climb(soft_errors(table, residual), found.partition.weights, MAX_ITERATIONS)
    return Found(error, Partition(weights, hard=False))


class WorstOfGivenLosses:
    """The loss table with the largest gap, and the regions of its Bayes decisions.

    Decisions are those of the forecasts that will be given: of probabilities floored at `least`, for which
    the expected loss of an action is that of `rules` for the probabilities themselves.
    """

    def __init__(self, losses: Floats, least: float = 0.0) -> None:
        norms = loss_norms(losses)
        self.losses = losses
        share = losses.shape[2] * least
        self.rules = (1.0 - share) * losses + least * losses.sum(axis=2, keepdims=True)
        self.norms = np.where(norms > 0.0, norms, 1.0)

    def __call__(self, table: Floats, residual: Floats, epsilon: float, rng: np.random.Generator) -> Found:
        """Try all, exactly; `residual` is p - Y."""
        gaps = np.empty(len(self.losses))
        for i, (loss, rule) in enumerate(zip(self.losses, self.rules, strict=True)):
            biases = inner(Partition(-rule, hard=True)(table).T, residual) / len(table)
            gaps[i] = abs((biases * loss).sum()) / self.norms[i]
        worst = int(gaps.argmax())
        return Found(float(gaps[worst]), Partition(-self.rules[worst], hard=True))


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
    """The full step, each direction shortened by how much of it is noise.

    The rows `fresh` must not have been used to choose the partition. In direction v their mean of v b (Y - p)
    has squared norm r and, if p were right, mean square `noise` = average of (v b)^2 ||Y - p||^2 / rows. The
    positive James-Stein factor 1 - noise / r estimates which part of it would be found again; among all
    rows, as many as there are, it is n s / (m + (n - m) s) for a part s among m. A row of weight w counts as
    w rows; `counts` are the weights of the fresh rows, if they have parts of them, and their blocks, as of
    `Dealt`: rows that were dealt whole are one observation, and add noise like one.
    """
    weights = np.ones(len(error)) if weights is None else weights
    mine, blocks = (weights[fresh], weights[fresh]) if counts is None else counts
    count = mine.sum()
    share = weights.sum() / count
    columns, rest = by_columns(members[fresh]), error[fresh]
    sizes = (rest**2).sum(axis=1)
    rest = weighted(rest, mine)

    def factor(vector: Floats) -> float:
        mixture = product(vector[None], columns)
        seen = float(((inner(mixture, rest) / len(fresh)) ** 2).sum())
        noise = float((mixture[0] ** 2 * sizes * mine * blocks).sum() / count**2)
        part = max(0.0, 1.0 - noise / seen) if seen > 0.0 else 0.0
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
    """Rounds on one set of rows, one at a time: from a table (n, C), labels (n,) and weights (n,).

    With length None they are Algorithms 1 and 2 as in the paper, full steps from and for all rows. Else each
    round's partition is chosen on a random half of the rows, its step comes from all rows, shortened by this
    factor and by what the other half says is noise; and the first round corrects the mean.
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
        # once for all rounds: different rows may come to be equal, and would be dealt as if they were one
        self._sets = same_rows(table, digits=DIGITS)
        self._single = single_rows(self._sets, labels, weights, 2)
        self._blocks = np.where(self._single, np.minimum(weights, 1.0), weights)

    def _halves(self) -> tuple[Ints, Floats, Ints, tuple[Floats, Floats]]:
        """A random half of the rows and their weights; the other half, their weights and their blocks.

        Equal rows are in the same half, unless they are dealt one by one. Of an odd number of sets the one in
        the middle is in both.
        """
        weights = self.weights
        n_sets = int(self._sets.max()) + 1
        order = self.rng.permutation(n_sets)
        chosen, fresh = order[: (n_sets + 1) // 2], order[n_sets // 2 :]
        if n_sets == len(self._sets):
            return chosen, weights[chosen], fresh, (weights[fresh], weights[fresh])
        place = np.empty(n_sets, np.int64)
        place[order] = np.arange(n_sets)
        mine = np.where(place[self._sets] < len(chosen), weights, 0.0)
        rest = np.where(place[self._sets] >= n_sets - len(fresh), weights, 0.0)
        if self._single.any():
            halves = divided(weights[self._single], np.array([0.5, 0.5]), self.rng)
            mine[self._single], rest[self._single] = halves.T
        chosen, fresh = np.flatnonzero(mine), np.flatnonzero(rest)
        blocks = np.where(self._single, np.minimum(rest, 1.0), rest)
        return chosen, mine[chosen], fresh, (rest[fresh], blocks[fresh])

    def progress(self, error: float = np.nan) -> Progress:
        """The present state of the rows."""
        squared = (residuals(self.table, self.labels) ** 2).sum(axis=1)
        hits = self.table.argmax(axis=1) == self.labels
        return Progress(error, *(float(np.average(one, weights=self.weights)) for one in (squared, hits)))

    def advance(self, epsilon: float) -> Progress | None:
        """Play one round; None, and nothing done, once what was found is at most epsilon."""
        if self.reached:
            return None
        residual, (n, n_classes) = residuals(self.table, self.labels), self.table.shape
        length = self.length
        chosen = fresh = np.arange(n)
        mine, counts = self.weights, (self.weights, self._blocks)
        if length is not None and not self.rounds:
            length, whole = 1.0, Partition(np.zeros((1, n_classes)), hard=True)
            found = Found(error_of(whole(self.table), weighted(residual, self.weights)), whole)
        else:
            if length is not None:
                chosen, mine, fresh, counts = self._halves()
            # the search averages plainly
            seen = weighted(residual[chosen], mine)
            found = self.find(self.table[chosen], seen, epsilon, self.rng)
            if found.error <= epsilon:
                self.reached = True
                return None
        members = found.partition(self.table)
        if length is None:
            step = full_step(members, -residual, self.weights)
        else:
            step = shrunk_step(members, -residual, fresh, length, self.weights, counts)
        progress = self.progress(found.error)
        self.rounds.append(Round(found.partition, step))
        self.table = self.rounds[-1](self.table)
        return progress


def replay(table: Floats, rounds: list[Round]) -> Iterator[Floats]:
    """Play the rounds on a table (n, C): the table at the start and after each."""
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
        """Rounds with the smallest gap, among those with a squared error not above the start's."""
        allowed = self.squared_error <= self.squared_error[0]
        return int(np.argmin(np.where(allowed, self.gap, np.inf)))


PATIENCE = 8
"""Rounds without a better held-out gap before the folds stop."""


class Fold:
    """Rounds on some rows, and what they make of rows that are held out: their table (n, C), labels, weights.

    `begun` is what the start makes of these, the rounds begin with `table`; `blocks` are as of `Dealt`.
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
        self.descent, self.begun, self.labels, self.weights = descent, begun, labels, weights
        self.blocks = weights if blocks is None else blocks
        self.first = self.table = table

    def advance(self, epsilon: float) -> bool:
        """Play one round, if there is one."""
        if self.descent.advance(epsilon) is None:
            return False
        self.table = self.descent.rounds[-1](self.table)
        return True

    def after(self, n_rounds: int) -> Floats:
        """The table after so many rounds."""
        *_, table = replay(self.first, self.descent.rounds[:n_rounds])
        return table


def course_of(
    folds: list[Fold], epsilon: float, most: int, error: Callable[[Floats, Ints, Floats], float]
) -> HeldOut:
    """What rounds do to held-out rows: all folds advance together, until none improves, at most so often.

    `error` is the mean square gap of a table with its labels and weights.
    """

    def score() -> tuple[float, float]:
        squared = [
            np.average((residuals(one.table, one.labels) ** 2).sum(axis=1), weights=one.weights)
            for one in folds
        ]
        gaps = [error(one.table, one.labels, one.weights) for one in folds]
        return float(np.sqrt(np.mean(gaps))), float(np.mean(squared))

    course = [score()]
    while len(course) <= most and any([one.advance(epsilon) for one in folds]):
        course.append(score())
        if len(course) - 1 - int(np.argmin([gap for gap, _ in course])) >= PATIENCE:
            break
    return HeldOut(*np.array(course).T)
