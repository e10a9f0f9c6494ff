"""The papers' algorithms in plain Python, in the papers' order and words: lists, whole numbers and fractions.

They are here to be read, and the tests run them beside the code that is used: forecasters give the same
answers, recalibrators the same up to rounding. Each costs as much as its paper says, and no thought was spent
on speed.

Forecasters are generators. Ask one for its first prediction with `next`, and send it each outcome, 0 or 1: it
answers with the next prediction. `predictions` does this with a list of outcomes. What is no outcome, no
grid or no table raises a ValueError as soon as it is read, and a game ends with that.

The state of a generator is in its local variables, which nobody else sees. A `SimplexForecaster` has it in
its attributes: between two calls the vertices of `cell` carry all labels, and `charge` alone writes after the
start. The other functions keep nothing, and change no argument. Everything may be changed that leaves the
answers and the papers' words as they are.

References
----------
- The online paper: Arunachaleswaran, Collina, Roth & Shi, "An Elementary Predictor Obtaining 2√T + 1 Distance
  to Calibration" (2024).
- The l_p paper: Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p
  Error" (2025).
- The decision paper: Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import ceil, exp, floor, hypot, isinf
from operator import mul
from typing import Any, NamedTuple

from onlinecal.validation import check_count, check_open_unit, check_order, check_positive, outcome_of

__all__ = [
    "Correction",
    "DecisionCalibration",
    "MulticlassCalibration",
    "SimplexForecaster",
    "almost_one_step_ahead",
    "balanced",
    "hard",
    "hard_decision_calibration",
    "multiclass_calibration",
    "one_step_ahead",
    "predictions",
    "soft",
    "soft_decision_calibration",
    "worst_of",
]

Number = float | Fraction


def almost_one_step_ahead(m: int) -> Generator[float, int, None]:
    """Algorithm 1 of the online paper on the grid 0, 1/m, ..., 1, with `m` a whole number of at least 1.

    A generator: `next` gives the first prediction, and `send` with each outcome, 0 or 1, the next one. On any
    T outcomes the predictions are at most T/m + m + 1 away from calibrated ones, a sum over rounds; that is
    2√T + 1 for m = √T (Theorem 1). Raises ValueError, at `next` for another m, at `send` for another outcome,
    which ends the game.

    A prediction is the lower one of two adjacent points; the one of both that is nearer to the outcome is the
    look-ahead prediction. `alpha[i]` is m times the sum of (point - outcome) over the rounds that had the
    point i/m as that.

    The proof is in docs/tutorials/paper.md#why-the-proof. The compiled functions that play the same game are
    `propose` and `charge` of onlinecal/forecasters/binary/uniform.py, with the rule "sign".
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

    It returns an iterator with a prediction, a float, for each of the `outcomes`, 0 or 1. Before each outcome
    two adjacent points of the grid 0, 1/`m`, ..., 1 are fixed, and the prediction is the one of both that is
    nearer to the outcome: the look-ahead prediction of Algorithm 1. The expected calibration error, the sum
    over points of |sum of (point - outcome)|, is at most m + 1, a sum over rounds (Theorem 2). Raises
    ValueError, when it is read, for any other outcome, and for an m that is no whole number of at least 1.
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
    """Algorithm 1 of the online paper with the balanced rule of docs/theory.md, which halves its bound.

    A generator: `next` gives the first prediction, and `send` with each outcome, 0 or 1, the next one.
    Predictions are midpoints of two adjacent points of the grid with `m` cells. When the outcome is known the
    round counts at the one of both that is nearer to it, and the bias of a point is the sum of (point -
    outcome) over these rounds. Points are chosen such that no bias leaves [-`slack`, `slack`], with a slack
    of at least 1/2. On any T outcomes the predictions are at most T/(2m) + slack (m - 1) away from calibrated
    ones, a sum over rounds; that is less than √T for m = √T and slack 1/2 (Theorem 7).

    Raises ValueError, at `next` for another m or slack, at `send` for another outcome, which ends the game.
    """
    m, most = check_count(m, "m"), exact(slack, "slack")
    if most < Fraction(1, 2):
        raise ValueError(f"slack must be at least 1/2, got {slack}")
    alpha, i = [0] * (m + 1), (m - 1) // 2
    while True:
        # choose two adjacent points of which the lower one accepts 0 and the upper one accepts 1
        while alpha[i] + i > most * m:
            i -= 1
        while alpha[i + 1] + (i + 1) - m < -most * m:
            i += 1
        # predict the midpoint and observe the outcome
        y = outcome_of((yield (2 * i + 1) / (2 * m)))
        look_ahead = i + y
        alpha[look_ahead] += look_ahead - m * y


def predictions(forecaster: Generator[Any, Any, None], outcomes: Iterable[Any]) -> list[Any]:
    """What the `forecaster` predicts before each of the `outcomes`: a list of as many, in their order.

    `forecaster` is a fresh generator, as of `almost_one_step_ahead(m)`, `balanced(m)` or
    `SimplexForecaster(k, m).game()`; it is used up. Without outcomes the list is empty. An error of the
    generator passes through, a ValueError for what is no outcome.
    """
    made = []
    prediction = next(forecaster)
    for outcome in outcomes:
        made.append(prediction)
        prediction = forecaster.send(outcome)
    return made


Point = tuple[int, ...]
"""A point x/m of the simplex: k whole numbers that sum to m."""


class SimplexForecaster:
    """Almost-One-Step-Ahead for `k` classes on the points x/`m` (docs/theory-simplex.md, sections 1 to 5).

    A point of the grid is a tuple `x` of k whole numbers with sum m, and stands for the probabilities x/m.
    Each point carries one class as its label. A cell is k neighbouring points, its vertices; it is full if
    these carry all k classes. Predictions are the means of the vertices of a full cell, and once the class is
    known the round is charged to the vertex that carries it. On any T outcomes the predictions' l1 distance
    to calibrated ones is at most r(k, m) T/m + B(k, m), a sum over rounds, with r and B as in Theorem 11
    there.

    `game` and `observe` play rounds. The other methods are their steps, and take for granted what these hand
    to them.

    Attributes
    ----------
    counts, labels
        Dicts by point, for those charged so far: how often with each class, a list of k numbers; and the
        class that the point carries now.
    cell, steps
        The k vertices of the current cell in cyclic order. Step i leads from vertex i to the next one: it
        moves a unit from class `steps[i]` to the class after it, the first one after the last.

    Raises
    ------
    ValueError
        Unless k and m are whole numbers of at least 1.
    """

    def __init__(self, k: int, m: int) -> None:
        self.k, self.m = check_count(k, "k"), check_count(m, "m")
        self.counts: dict[Point, list[int]] = {}
        self.labels: dict[Point, int] = {}
        self.cell, self.steps = self.walk([Fraction(1, k)] * k, self.label)

    # section 1: the game

    def game(self) -> Generator[list[float], int, None]:
        """A generator of predictions, lists of k probabilities: `next` gives the first one.

        `send` with the class that came, 0 to k - 1, gives the next one. It plays on this object, by
        `observe`. Raises ValueError for any other outcome, which ends the game.
        """
        while True:
            outcome = yield [float(p) for p in self.barycentre()]
            self.observe(outcome)

    def barycentre(self) -> list[Fraction]:
        """The mean of the current cell's k vertices, the coming prediction: k fractions with sum 1."""
        return [Fraction(sum(column), self.k * self.m) for column in zip(*self.cell, strict=True)]

    def observe(self, outcome: int) -> Point:
        """Settle a round with the `outcome`, the class that came, from 0 to k - 1.

        It charges the vertex of the current cell that carries this class as its label, and returns this
        vertex, the look-ahead prediction: k whole numbers with sum m. The cell may be another one then.
        Raises ValueError, and changes nothing, for any other outcome.
        """
        y = check_count(outcome, "outcome", self.k - 1, least=0)
        (look_ahead,) = [x for x in self.cell if self.label(x) == y]
        self.charge(look_ahead, y)
        return look_ahead

    def charge(self, x: Point, outcome: int) -> None:
        """Count a round with the class `outcome` at the point `x`, and give x the label that follows.

        If x is a vertex of the current cell and its label changes, another full cell becomes the current one:
        one nearby, as `doors` finds it, or else one found by `walk`.
        """
        before = self.label(x)
        self.counts.setdefault(x, [0] * self.k)[outcome] += 1
        self.labels[x] = self.earliest_deadline(x, outcome)
        if x in self.cell and self.labels[x] != before:
            nearby = self.doors(self.cell.index(x))
            self.cell, self.steps = nearby or self.walk(self.barycentre(), self.label)

    # section 3: the labels

    def label(self, x: Point) -> int:
        """The class, 0 to k - 1, that the point `x` carries as its label; its coordinate in `x` is positive.

        `x` is k whole numbers with sum m. Its label is the one that `charge` gave it last; a point that was
        never charged has that of `earliest_deadline` (Lemma 4).
        """
        return self.labels[x] if x in self.labels else self.earliest_deadline(x, None)

    def earliest_deadline(self, x: Point, last: int | None) -> int:
        """The class, 0 to k - 1, that Tijdeman's rule gives as label to the point `x` (Theorem 5).

        `x` is k whole numbers with sum m. The rule looks at how often x was charged with each class so far.
        Of the classes that may be charged next it takes the one with the earliest deadline: how many rounds x
        may have until, without a charge, the class's bias is too large. `last` is the class with which x was
        charged last, None if it never was. Of classes with equal deadlines `last` wins, else the largest.
        """
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
        """Find a full cell by a walk that begins near the `target`, k fractions with sum 1.

        `label` is a function from a point to the class that it carries. Returns the cell's k vertices and its
        k steps, in the form of the attributes `cell` and `steps`, which are not changed.

        The walk goes through a slab of two copies of the grid: on level 0 points have the labels of
        `artificial`, under which only the cell of the `anchor` is full, on level 1 those of `label`. Of the
        slab's vertices (point, level) k + 1 are a cell; its steps are those of a cell of the grid and one
        that goes up.
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
        """The artificial label of the point `x`, from which `walk` begins: a class from 0 to k - 1.

        It is the first class c such that `x` has more in the classes 0 to c together than the `anchor` has.
        Both are k whole numbers, with sums m and m - 1. Only the anchor's cell is full under these labels
        (Lemma 8).
        """
        return next(c for c in range(self.k) if sum(x[: c + 1]) > sum(anchor[: c + 1]))

    def anchor(self, target: list[Fraction]) -> list[int]:
        """The k whole numbers with sum m - 1 whose cell has its centre nearest to the `target`.

        The cell's vertices have one more in one of the classes. `target` is k fractions with sum 1. The
        numbers are found by the method of largest remainders.
        """
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
        """A full cell near the current one, its k vertices and its k steps; None if the walks find none.

        `changed` is the place in `cell`, from 0, of the vertex whose label has just become that of another
        vertex. One walk begins by dropping the first of these two, another by dropping the second; they take
        turns until one is at a full cell. `cell` and `steps` stay as they are.
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


# Probability-weighted l_p calibration


LevelSet = tuple[int, ...]
"""The lower corner v of a level set: k whole numbers, in units of 1/lambda."""

Group = frozenset[LevelSet]
"""A group S of bins, which share one prediction."""

Errors = dict[Group, list[Fraction]]
"""For each group of G the errors of its k classes, averages over all rows."""


class Correction(NamedTuple):
    """One time step of `multiclass_calibration`: the prediction of a group for one class is corrected.

    Attributes
    ----------
    group
        The group whose prediction was corrected, a frozenset of bins. A bin is the tuple of floor(n_levels *
        q) for the k probabilities q of a row.
    class_number
        The class, 0 to k - 1, whose prediction moved to the class's frequency in the group.
    corrected
        What the group predicts then, k fractions: the nearest ones to that with sum 1.
    other
        The group that it was merged with then, since both predicted in the same bin; None if there was none.
    """

    group: Group
    class_number: int
    corrected: list[Fraction]
    other: Group | None


class MulticlassCalibration(NamedTuple):
    """What `multiclass_calibration` returns: a calibrated predictor, and how it came about.

    Attributes
    ----------
    h
        The calibrated predictor, a function from a row of k probabilities to the k fractions that the group
        of its bin predicts. A row whose bin is in no group gets, of the distributions in that bin, the
        nearest to its lower corner.
    pred
        A dict: the last prediction of each group, k fractions. A group is a frozenset of bins, and a bin is
        the tuple of floor(n_levels * q) for the k probabilities q of a row.
    steps
        The `Correction` of each time step, a list in their order.
    """

    h: Callable[[Sequence[Number]], list[Fraction]]
    pred: dict[Group, list[Fraction]]
    steps: list[Correction]


def multiclass_calibration(
    table: Sequence[Sequence[Number]],
    labels: Sequence[int],
    p: float = 2.0,
    epsilon: float = 0.1,
    *,
    n_levels: int | None = None,
    tolerance: Number | None = None,
    start: Callable[[LevelSet], list[Fraction]] | None = None,
    select: Callable[[Errors], tuple[Group, int]] | None = None,
) -> MulticlassCalibration:
    """Algorithm 2 of the l_p paper, of which Algorithm 1 is the outline, in exact fractions.

    Rows are put into bins, by their probabilities rounded down to levels, and bins into groups that share a
    prediction. The error of a group and class is |(share of all rows in the group) * prediction - share of
    all rows that are in it and have the class|. While one is above the tolerance, that prediction moves to
    the class's frequency in the group, and the groups' predictions stay probabilities. On the rows that it
    was given the l_p calibration error of the answer is then at most epsilon (Lemma 15): the l_p norm, over
    the level sets of its predictions and the classes, of |sum of (prediction - y)| / n, with y 1 if the class
    came and 0 if not. Every estimate is made from all rows, where the paper has fresh rows for each size of a
    group.

    Parameters
    ----------
    table, labels
        The predictions, n rows of k probabilities with sum 1 within 1e-6, and the n classes that came, 0 to k
        - 1. A float is what it is to the last bit: 0.7 is a little less than the level 7/10.
    p, epsilon
        The order of the error, above 1 or inf, and how much of it may be left, between 0 and 1.
    n_levels
        How many levels a class has, at least 1. None: as many as the paper has for p and epsilon.
    tolerance
        The largest error of a group and class that is not corrected, between 0 and 1. None: the paper's, for
        p and epsilon. With another one, epsilon promises nothing.
    start
        A function from a bin, k whole numbers that count levels, to what it predicts at first, k fractions.
        None: of the distributions in the bin, the nearest to its lower corner.
    select
        A function from a dict, by group its k errors, to the group and the class to correct next. None: those
        with the largest error, of equal ones the first.

    Returns
    -------
    MulticlassCalibration
        The calibrated predictor h, the groups with their predictions, and the steps.

    Raises
    ------
    ValueError
        For p, epsilon, n_levels or tolerance out of range, for a table without rows or with rows that are not
        probabilities, and for labels of another number or out of range.
    """
    rows, k = checked_rows(table, labels)
    n = len(rows)
    # set beta and lambda, and with them the discretization R and the canonical distributions rho
    order, error = check_order(p, above_one=True), check_open_unit(epsilon, "epsilon")
    if tolerance is not None and not 0 < exact(tolerance, "tolerance") < 1:
        raise ValueError(f"tolerance must be a number between 0 and 1, got {tolerance}")
    power = 0.0 if isinf(order) else 1 / (order - 1)
    beta = Fraction(error * (error / 2) ** power) if tolerance is None else 2 * Fraction(tolerance)
    lam = ceil(1 / beta) if n_levels is None else check_count(n_levels, "n_levels")

    def R(u: list[Fraction]) -> LevelSet:
        return tuple(floor(q * lam) for q in u)

    def rho(v: LevelSet) -> list[Fraction]:
        return [Fraction(c, lam) + Fraction(lam - sum(v), lam * k) for c in v]

    # discretize the prediction space into bins and identify the high-probability bins B
    bins = [R(row) for row in rows]
    B = [v for v in dict.fromkeys(bins) if Fraction(bins.count(v), n) >= beta / 6]

    def estimate(S: Group) -> tuple[Fraction, list[Fraction]]:
        inside = [y for v, y in zip(bins, labels, strict=True) if v in S]
        return Fraction(len(inside), n), [Fraction(inside.count(j), n) for j in range(k)]

    # M tracks statistics of groups of bins, G their predictions and errors: one group per bin of B in both
    M = {frozenset([v]): estimate(frozenset([v])) for v in B}
    pred = {frozenset([v]): (start or rho)(v) for v in B}

    def sums(S: Group) -> tuple[Fraction, list[Fraction]]:
        parts = [statistics for part, statistics in M.items() if part <= S]
        return sum((P for P, _ in parts), Fraction(0)), [
            sum(E, Fraction(0)) for E in zip(*(E for _, E in parts), strict=True)
        ]

    def errors(S: Group) -> list[Fraction]:
        P, E = sums(S)
        return [abs(P * pred[S][j] - E[j]) for j in range(k)]

    G, steps = {S: errors(S) for S in pred}, []
    # while there is a group with a large error for some class
    while any(max(of_group) > beta / 2 for of_group in G.values()):
        # select such a group and class
        S, j = (select or largest)(G)
        # correct the prediction
        P, E = sums(S)
        z = list(pred[S])
        z[j] = min(E[j] / P, Fraction(1))
        pred[S] = corrected = projected(z)
        # merge with the group that has a prediction in the same level set, if there is one
        other = next((T for T in G if T != S and R(pred[T]) == R(pred[S])), None)
        steps.append(Correction(S, j, corrected, other))
        if other is not None:
            prediction = pred[other] if sums(S)[0] <= sums(other)[0] else pred[S]
            for old in (S, other):
                del G[old], pred[old]
            S = S | other
            pred[S] = prediction
            # update M: groups of the same size are merged, and what was merged is estimated anew
            while twins := next(same_size(part for part in M if part <= S), None):
                S1, S2 = twins
                del M[S1], M[S2]
                M[S1 | S2] = estimate(S1 | S2)
        G[S] = errors(S)

    def h(u: Sequence[Number]) -> list[Fraction]:
        v = R([Fraction(q) for q in u])
        return next((list(prediction) for S, prediction in pred.items() if v in S), rho(v))

    return MulticlassCalibration(h, pred, steps)


def largest(errors: Errors) -> tuple[Group, int]:
    """The group and the class with the largest error; of equal ones the first."""
    S = max(errors, key=lambda S: max(errors[S]))
    return S, errors[S].index(max(errors[S]))


def same_size(groups: Iterable[Group]) -> Iterator[tuple[Group, Group]]:
    """The pairs of groups with equally many bins."""
    return ((S1, S2) for S1, S2 in combinations(groups, 2) if len(S1) == len(S2))


def projected(z: Sequence[Any]) -> list[Any]:
    """The projection pi: the point of the simplex nearest to `z` in l2, k numbers; fractions of fractions."""
    total: Any = 0
    shift: Any = 0
    for count, value in enumerate(sorted(z, reverse=True), start=1):
        total += value
        # the largest numbers stay above 0, as many as do when all are lowered alike to the sum 1
        if value > (total - 1) / count:
            shift = (total - 1) / count
    return [value - shift if value > shift else 0 * value for value in z]


def exact(value: Any, name: str) -> Fraction:
    """A number as a fraction, to the last bit."""
    try:
        return Fraction(value)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a finite number, got {value!r}") from error


def checked_rows(
    table: Sequence[Sequence[Number]], labels: Sequence[int]
) -> tuple[list[list[Fraction]], int]:
    """Rows of probabilities as fractions, and how many classes they have."""
    rows = [
        [exact(q, f"class {c} in row {t} of table") for c, q in enumerate(row)] for t, row in enumerate(table)
    ]
    if not rows:
        raise ValueError("table must have at least one row, got none")
    if len(labels) != len(rows):
        raise ValueError(
            f"labels must be one for each row of table, got {len(labels)} labels for {len(rows)} rows"
        )
    k = len(rows[0])
    for t, (row, label) in enumerate(zip(rows, labels, strict=True)):
        if (
            len(row) != k
            or not all(q >= 0 for q in row)
            or abs(sum(row, Fraction(0)) - 1) > Fraction(1, 10**6)
        ):
            got = list(map(float, row))
            raise ValueError(f"row {t} of table must be {k} probabilities with sum 1, got {got}")
        check_count(label, f"labels at row {t}", k - 1, least=0)
    return rows, k


# Decision calibration


Row = list[float]
Assignment = Callable[[Row], Row]
"""From a row q of C probabilities to b_a(q) for each of K actions, K numbers of sum 1."""

Maximizer = Callable[[list[Row], list[Row]], Assignment]
"""From the rows p(x) and Y - p(x), n of C numbers, to the partition with the largest error."""


class DecisionCalibration(NamedTuple):
    """What a decision calibration returns: a calibrated predictor, and how it came about.

    Attributes
    ----------
    predict
        The calibrated prediction function: from a row of C probabilities to C others, floats with sum 1.
    rounds
        A pair for each round, a list in their order. First the partition: a function from a row of C
        probabilities to K numbers with sum 1, how far it belongs to each of K regions. Then what was added on
        these regions, K rows of C numbers.
    """

    predict: Callable[[Sequence[float]], Row]
    rounds: list[tuple[Assignment, list[Row]]]


def hard_decision_calibration(
    table: Sequence[Sequence[float]], labels: Sequence[int], search: Maximizer, epsilon: float
) -> DecisionCalibration:
    """Algorithm 1 of the decision paper: correct on hard partitions until the error is at most `epsilon`.

    A partition is a function from a row of C probabilities to K numbers with sum 1: how far the row belongs
    to each of K regions, one for each action. The residual of a row is C numbers, 1 for the class that came
    and 0 for the others, minus the row. A region's error is the length of a vector, the average over all rows
    of membership * residual. Each round takes a partition from `search`, and adds to the rows of each region
    their mean residual. It ends when the regions' errors have a sum of at most epsilon. On the rows of the
    table every round lowers the mean squared error by at least epsilon^2/K (Theorem 2.2).

    Parameters
    ----------
    table, labels
        n rows of C probabilities with sum 1 within 1e-6, and the n classes that came, 0 to C - 1.
    search
        A function from the n rows, as they are then, and their n residuals to the partition to correct on.
        The paper does not say how to find the worst of all partitions; `worst_of` tries those of a list.
    epsilon
        The sum of the regions' errors, averages over rows, at which it ends, above 0.

    Returns
    -------
    DecisionCalibration
        The calibrated prediction function, and of each round what it added.

    Raises
    ------
    ValueError
        Unless epsilon is positive, and for a table or labels that are not as above.
    """
    (rows, _), epsilon = checked_rows(table, labels), check_positive(epsilon, "epsilon")
    p = [[float(q) for q in row] for row in rows]
    rounds: list[tuple[Assignment, list[Row]]] = []
    while True:
        wrong = residuals(p, labels)
        # find b that maximizes the sum over actions of |E[(Y - p(X)) b(p(X), a)]|
        b = search(p, wrong)
        members = [b(q) for q in p]
        R = biases(members, wrong)
        if sum(hypot(*R_a) for R_a in R) <= epsilon:
            return DecisionCalibration(lambda q: replayed(q, rounds), rounds)
        # compute the adjustments d_a = E[(Y - p(X)) b(p(X), a)] / E[b(p(X), a)]
        masses = [sum(column) / len(p) for column in zip(*members, strict=True)]
        d = [[r / mass if mass else 0.0 for r in R_a] for R_a, mass in zip(R, masses, strict=True)]
        # set p to x -> p(x) + the sum over actions of b(p(x), a) d_a, projected
        rounds.append((b, d))
        p = [adjusted(q, b, d) for q in p]


def soft_decision_calibration(
    table: Sequence[Sequence[float]], labels: Sequence[int], search: Maximizer, epsilon: float
) -> DecisionCalibration:
    """Algorithm 2 of the decision paper (Appendix A): correct on soft partitions, all K regions together.

    A partition b is a function from a row of C probabilities to K numbers b_a with sum 1: how far the row
    belongs to each of K regions, one for each action a. The residual of a row p is Y - p, with Y 1 for the
    class that came and 0 for the others. Each round takes a partition from `search`. The corrections U of its
    regions, K rows of C numbers, are found together, since regions overlap: D U = R with R_a = E[(Y - p) b_a]
    and D_aa' = E[b_a b_a'], averages over rows. If D has no inverse, any solution is taken: on the rows of
    the table all of them say the same.

    It ends before the first round with sum_a |R_a|^2 < epsilon^2/K, a round that the paper still plays. Then
    sum_a |R_a| < epsilon, for every partition if `search` finds the one with the largest sum of squares. On
    the rows of the table every round lowers the mean squared error by at least epsilon^2/K (Theorem 2.2').

    Parameters
    ----------
    table, labels
        n rows of C probabilities with sum 1 within 1e-6, and the n classes that came, 0 to C - 1.
    search
        A function from the n rows, as they are then, and their n residuals to the partition to correct on.
        The paper does not say how to find the worst of all partitions; `worst_of` tries those of a list.
    epsilon
        How large the sum of the regions' errors |R_a|, averages over rows, may be at the end, above 0.

    Returns
    -------
    DecisionCalibration
        The calibrated prediction function, and of each round what it added.

    Raises
    ------
    ValueError
        Unless epsilon is positive, and for a table or labels that are not as above.
    """
    (rows, _), epsilon = checked_rows(table, labels), check_positive(epsilon, "epsilon")
    p = [[float(q) for q in row] for row in rows]
    rounds: list[tuple[Assignment, list[Row]]] = []
    while True:
        wrong = residuals(p, labels)
        # find b that maximizes v, the sum over actions of |E[(Y - p(X)) b_a(X)]|^2
        b = search(p, wrong)
        members = [b(q) for q in p]
        # compute D with D_aa' = E[b_a(X) b_a'(X)] and R with R_a = E[(Y - p(X)) b_a(X)]
        D, R = biases(members, members), biases(members, wrong)
        if sum(hypot(*R_a) ** 2 for R_a in R) < epsilon**2 / len(R):
            return DecisionCalibration(lambda q: replayed(q, rounds), rounds)
        # set p to x -> pi(p(x) + R^T D^-1 b(x))
        rounds.append((b, solved(D, R)))
        p = [adjusted(q, *rounds[-1]) for q in p]


def hard(w: Sequence[Sequence[float]]) -> Assignment:
    """The partition by the largest of K linear scores with the weights `w`, K rows of C numbers (Eq. 6).

    A function from a row of C probabilities to K floats: 1.0 for the action with the largest score, of equals
    the first, and 0.0 for the others. The score of an action is the sum of weight times probability.
    """

    def b(q: Row) -> Row:
        scores = [sum(map(mul, q, w_a)) for w_a in w]
        return [float(a == scores.index(max(scores))) for a in range(len(w))]

    return b


def soft(w: Sequence[Sequence[float]]) -> Assignment:
    """The partition by the softmax of K linear scores with weights `w`, K rows of C numbers (section 4.4).

    A function from a row of C probabilities to K floats with sum 1, one for each action. The score of an
    action is the sum of weight times probability.
    """

    def b(q: Row) -> Row:
        scores = [sum(map(mul, q, w_a)) for w_a in w]
        powers = [exp(score - max(scores)) for score in scores]
        return [power / sum(powers) for power in powers]

    return b


def worst_of(partitions: Sequence[Assignment]) -> Maximizer:
    """A `search` for `hard_decision_calibration` and `soft_decision_calibration`, by brute force.

    It is a function that gets n rows of C probabilities and their n residuals, and returns the one of these
    `partitions`, at least one, as of `hard` or `soft`, whose regions' errors have the largest sum; of equal
    ones the first. Raises ValueError if there are no partitions.
    """
    if not partitions:
        raise ValueError("partitions must be at least one, got none")

    def search(p: list[Row], wrong: list[Row]) -> Assignment:
        return max(partitions, key=lambda b: sum(hypot(*R_a) for R_a in biases([b(q) for q in p], wrong)))

    return search


def residuals(p: list[Row], labels: Sequence[int]) -> list[Row]:
    """Y - p for each row, with Y the corner of its label."""
    return [[(c == y) - q for c, q in enumerate(row)] for row, y in zip(p, labels, strict=True)]


def biases(members: list[Row], values: list[Row]) -> list[Row]:
    """E[b_a values_c] for each action a and column c, averages over the rows."""
    columns = list(zip(*values, strict=True))
    return [
        [sum(map(mul, b_a, value)) / len(values) for value in columns] for b_a in zip(*members, strict=True)
    ]


def adjusted(q: Row, b: Assignment, d: list[Row]) -> Row:
    """The row `q`, and on each region of `b` what is added there, projected on the simplex."""
    b_q = b(q)
    return projected(
        [q_c + sum(map(mul, b_q, d_c)) for q_c, d_c in zip(q, zip(*d, strict=True), strict=True)]
    )


def replayed(q: Sequence[float], rounds: list[tuple[Assignment, list[Row]]]) -> Row:
    """What the rounds make of a row `q`."""
    row = [float(value) for value in q]
    for b, d in rounds:
        row = adjusted(row, b, d)
    return row


def solved(D: list[Row], R: list[Row]) -> list[Row]:
    """U with `D` U = `R`, by elimination from the largest diagonal entry on; what depends on others is 0."""
    K, least = len(D), 1e-9 * max(D[a][a] for a in range(len(D)))
    rows, left = [D_a + R_a for D_a, R_a in zip(D, R, strict=True)], set(range(len(D)))
    while left and rows[a := max(left, key=lambda i: rows[i][i])][a] > least:
        left.remove(a)
        rows[a] = [value / rows[a][a] for value in rows[a]]
        for i in set(range(K)) - {a}:
            rows[i] = [x - rows[i][a] * y for x, y in zip(rows[i], rows[a], strict=True)]
    return [[0.0] * len(R[a]) if a in left else rows[a][K:] for a in range(K)]
