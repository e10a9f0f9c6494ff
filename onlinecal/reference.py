"""The papers' algorithms in plain Python, in the papers' order and words: lists, whole numbers and fractions.

They are here to be read, and the tests run them beside the compiled code, which gives the same answers. Each
costs as much as its paper says, and no thought was spent on speed.

Forecasters are generators. Ask one for its first prediction with `next`, and send it each outcome, 0 or 1: it
answers with the next prediction. `predictions` does this with a list of outcomes. What is no outcome, no
grid or no table raises a ValueError as soon as it is read, and a game ends with that.

References
----------
- *Online*: Arunachaleswaran, Collina, Roth & Shi, "An Elementary Predictor Obtaining 2√T + 1 Distance to
  Calibration" (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from fractions import Fraction
from math import floor
from typing import Any

from onlinecal.validation import check_count, outcome_of

__all__ = ["Simplex", "almost_one_step_ahead", "balanced", "one_step_ahead", "predictions"]


def almost_one_step_ahead(m: int) -> Generator[float, int, None]:
    """Algorithm 1 of the online paper on the grid 0, 1/m, ..., 1, with `m` a whole number of at least 1.

    On any T outcomes its predictions are at most T/m + m + 1 away from calibrated ones, a sum over rounds;
    that is 2√T + 1 for m = √T (Theorem 1). `alpha[i]` is m times the look-ahead bias of the point i/m.
    """
    m = check_count(m, "m")
    alpha, i = [0] * (m + 1), (m - 1) // 2
    while True:
        # choose two adjacent points p_i, p_(i+1) with alpha(p_i) <= 0 and alpha(p_(i+1)) >= 0
        while alpha[i] > 0:
            i -= 1
        while alpha[i + 1] < 0:
            i += 1
        # arbitrarily predict p_i or p_(i+1), here the lower one, and observe the outcome
        y = outcome_of((yield i / m))
        # the look-ahead prediction is the one of both that is nearer to the outcome
        look_ahead = i + y
        alpha[look_ahead] += look_ahead - m * y


def one_step_ahead(m: int, outcomes: Iterable[int]) -> Iterator[float]:
    """One-Step-Ahead of the online paper (section 3), which no one can play: it predicts after the outcome.

    Its predictions on `outcomes`, of 0 and 1, are the look-ahead predictions of Algorithm 1 on the same grid,
    0, 1/`m`, ..., 1. Their expected calibration error is at most m + 1, a sum over rounds (Theorem 2).
    """
    m = check_count(m, "m")
    alpha, i = [0] * (m + 1), (m - 1) // 2
    for outcome in outcomes:
        # before the outcome is seen: fix p_i, p_(i+1) with alpha(p_i) <= 0 and alpha(p_(i+1)) >= 0
        while alpha[i] > 0:
            i -= 1
        while alpha[i + 1] < 0:
            i += 1
        # after it: output the one of both that is nearer to the outcome
        y = outcome_of(outcome)
        prediction = i + y
        alpha[prediction] += prediction - m * y
        yield prediction / m


def balanced(m: int, slack: Fraction | float = Fraction(1, 2)) -> Generator[float, int, None]:
    """Algorithm 1 with the balanced rule of docs/theory.md (section 2), which halves its bound.

    A point accepts an outcome if that brings its bias not beyond `slack`, which is at least 1/2. Predictions
    are midpoints of the grid with `m` cells. On any T outcomes they are at most T/(2m) + slack (m - 1) away
    from calibrated ones, a sum over rounds; that is less than √T for m = √T and slack 1/2 (Theorem 7).
    """
    m, slack = check_count(m, "m"), Fraction(slack)
    if slack < Fraction(1, 2):
        raise ValueError(f"slack must be at least 1/2, got {slack}")
    alpha, i = [0] * (m + 1), (m - 1) // 2
    while True:
        # choose two adjacent points of which the lower one accepts 0 and the upper one accepts 1
        while alpha[i] + i > slack * m:
            i -= 1
        while alpha[i + 1] + (i + 1) - m < -slack * m:
            i += 1
        # predict the midpoint and observe the outcome
        y = outcome_of((yield (2 * i + 1) / (2 * m)))
        look_ahead = i + y
        alpha[look_ahead] += look_ahead - m * y


def predictions(forecaster: Generator[Any, Any, None], outcomes: Iterable[Any]) -> list[Any]:
    """What the `forecaster` predicts before each of the `outcomes`: as many predictions, in their order."""
    made = []
    prediction = next(forecaster)
    for outcome in outcomes:
        made.append(prediction)
        prediction = forecaster.send(outcome)
    return made


Point = tuple[int, ...]
"""A point x/m of the simplex: k whole numbers that sum to m."""


class Simplex:
    """Almost-One-Step-Ahead for `k` classes on the points x/`m` (docs/theory-simplex.md, sections 1 to 5).

    Each point carries one class as its label. Predictions are barycentres of a full cell, whose k vertices
    carry all labels. On any T outcomes their l1 distance to calibrated ones is at most r(k, m) T/m + B(k, m),
    a sum over rounds (Theorem 11).

    Attributes
    ----------
    counts, labels
        For each charged point how often it was charged with each class, k numbers, and its label.
    cell, steps
        The k vertices of the current cell in cyclic order. Step i leads from vertex i to the next one: it
        moves a unit from class `steps[i]` to the class after it, the first one after the last.
    """

    def __init__(self, k: int, m: int) -> None:
        self.k, self.m = check_count(k, "k"), check_count(m, "m")
        self.counts: dict[Point, list[int]] = {}
        self.labels: dict[Point, int] = {}
        self.cell, self.steps = self.walk([Fraction(1, k)] * k, self.label)

    # section 1: the game

    def game(self) -> Generator[list[float], int, None]:
        """Predictions, lists of k probabilities; each is answered with the class that came, 0 to k - 1."""
        while True:
            outcome = yield [float(p) for p in self.barycentre()]
            self.observe(outcome)

    def barycentre(self) -> list[Fraction]:
        """The mean of the current cell's vertices: the next prediction."""
        return [Fraction(sum(column), self.k * self.m) for column in zip(*self.cell, strict=True)]

    def observe(self, outcome: int) -> Point:
        """The vertex labelled with the `outcome`, which is charged: the look-ahead prediction."""
        y = check_count(outcome, "outcome", self.k - 1, least=0)
        (look_ahead,) = [x for x in self.cell if self.label(x) == y]
        self.charge(look_ahead, y)
        return look_ahead

    def charge(self, x: Point, outcome: int) -> None:
        """Book the `outcome` at the point `x`, and if that changes a label of the cell, find a full one."""
        before = self.label(x)
        self.counts.setdefault(x, [0] * self.k)[outcome] += 1
        self.labels[x] = self.earliest_deadline(x, outcome)
        if x in self.cell and self.labels[x] != before:
            nearby = self.doors(self.cell.index(x))
            self.cell, self.steps = nearby or self.walk(self.barycentre(), self.label)

    # section 3: the labels

    def label(self, x: Point) -> int:
        """The class that the point `x` carries; one of those with weight there (Lemma 4)."""
        return self.labels[x] if x in self.labels else self.earliest_deadline(x, None)

    def earliest_deadline(self, x: Point, last: int | None) -> int:
        """Tijdeman's rule for the point `x`, most recently charged with `last` (Theorem 5)."""
        support = [j for j in range(self.k) if x[j] > 0]
        if len(support) == 1:
            return support[0]
        counts = self.counts.get(x, [0] * self.k)
        n, v, h = sum(counts), [Fraction(c, self.m) for c in x], Fraction(1, 2 * len(support) - 2)
        # class j is eligible if alpha_j + v_j >= h, with the bias alpha_j = n v_j - n_j
        eligible = [j for j in support if (n * v[j] - counts[j]) + v[j] >= h]
        # its deadline is the n beyond which alpha_j exceeds 1 - h
        deadlines = {j: (1 - h + counts[j]) / v[j] for j in eligible}
        earliest = [j for j in eligible if deadlines[j] == min(deadlines.values())]
        return last if last in earliest else max(earliest)

    # section 4: a full cell always exists, and the walk through the slab finds one

    def walk(self, target: list[Fraction], label: Callable[[Point], int]) -> tuple[list[Point], list[int]]:
        """A full cell for these labels, from the anchor nearest to the `target`: its vertices and its steps.

        The slab has two copies of the grid, at level 0 with artificial labels and at level 1 with those of
        `label`. Of the slab's vertices (point, level) k + 1 are a cell; its steps are those of a cell of the
        grid and one that goes UP.
        """
        k, anchor, up = self.k, self.anchor(target), -1
        full = [tuple(a + (c == j) for c, a in enumerate(anchor)) for j in range(k)]
        word, steps = [*((x, 0) for x in full), (full[-1], 1)], [*range(k - 1), up, k - 1]
        newest = k
        while True:
            # the newest vertex has the label of one older vertex: drop that one
            labels = [label(x) if level else self.artificial(x, anchor) for x, level in word]
            (drop,) = [i for i in range(k + 1) if labels[i] == labels[newest] and i != newest]
            if all(level == 1 for i, (_, level) in enumerate(word) if i != drop):
                # what is left is a full cell on level 1
                return [x for x, _ in word[drop + 1 :] + word[:drop]], steps[drop + 1 :] + steps[:drop]
            # the neighbour through the facet opposite it has the two steps around it exchanged (Lemma 2)
            steps[drop - 1], steps[drop] = steps[drop], steps[drop - 1]
            (x, level), step = word[drop - 1], steps[drop - 1]
            # the last step goes back down
            word[drop] = (x, 1) if step == up else (moved(x, step), level - (step == k - 1))
            newest = drop

    def artificial(self, x: Point, anchor: list[int]) -> int:
        """The first class up to which `x` has more than the `anchor`, whose cell alone is full (Lemma 8)."""
        return next(c for c in range(self.k) if sum(x[: c + 1]) > sum(anchor[: c + 1]))

    def anchor(self, target: list[Fraction]) -> list[int]:
        """k whole numbers of sum m - 1, whose cell is centred nearest to the `target`: largest remainders."""
        anchor = [max(0, floor(self.m * u - Fraction(1, self.k))) for u in target]
        while sum(anchor) < self.m - 1:
            missing = [self.m * u - a for u, a in zip(target, anchor, strict=True)]
            anchor[missing.index(max(missing))] += 1
        while sum(anchor) > self.m - 1:
            beyond = [a - self.m * u if a else Fraction(-self.m) for u, a in zip(target, anchor, strict=True)]
            anchor[beyond.index(max(beyond))] -= 1
        return anchor

    # section 5: staying near, through two doors

    def doors(self, changed: int) -> tuple[list[Point], list[int]] | None:
        """A full cell near the current one, whose vertex `changed` now has another's label; or None.

        Of the twins that have one label, either may be dropped: one walk begins with each, a pivot in turn.
        """
        labels = [self.label(x) for x in self.cell]
        (twin,) = [i for i in range(self.k) if labels[i] == labels[changed] and i != changed]
        walks = [(list(self.cell), list(self.steps)), (list(self.cell), list(self.steps))]
        dropped: list[int | None] = [changed, twin]
        while dropped != [None, None]:
            for i, (cell, steps) in enumerate(walks):
                drop = dropped[i]
                if drop is None:
                    continue
                x = moved(cell[drop - 1], steps[drop])
                if min(x) < 0:
                    # this walk has left the simplex
                    dropped[i] = None
                    continue
                steps[drop - 1], steps[drop] = steps[drop], steps[drop - 1]
                cell[drop] = x
                labels = [self.label(x) for x in cell]
                if len(set(labels)) == self.k:
                    return cell, steps
                (dropped[i],) = [j for j in range(self.k) if labels[j] == labels[drop] and j != drop]
                if None not in dropped and set(walks[0][0]) == set(walks[1][0]):
                    # the walks have met: they went round a cycle
                    return None
        return None


def moved(x: Point, step: int) -> Point:
    """The point after a step from `x`: a unit moves from the class `step` to the next, cyclically."""
    y = list(x)
    y[step] -= 1
    y[(step + 1) % len(x)] += 1
    return tuple(y)
