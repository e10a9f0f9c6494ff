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

    On any T outcomes its predictions are at most T/m + m + 1 away from calibrated ones, a sum over rounds;
    that is 2√T + 1 for m = √T (Theorem 1). `alpha[i]` is m times the look-ahead bias of the point i/m.

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

    Its predictions on `outcomes`, of 0 and 1, are the look-ahead predictions of Algorithm 1 on the same grid,
    0, 1/`m`, ..., 1: an iterator with one for each outcome. Their expected calibration error is at most m +
    1, a sum over rounds (Theorem 2). Raises ValueError, when it is read, for any other outcome, and for an m
    that is no whole number of at least 1.
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

    It is a generator as that of Algorithm 1: send it each outcome, and it yields the next prediction. Raises
    ValueError, at the first `next` or the outcome, for what is out of range.
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
    """What the `forecaster` predicts before each of the `outcomes`: as many predictions, in their order.

    `forecaster` is a fresh generator, as of `almost_one_step_ahead(m)` or `SimplexForecaster(k, m).game()`;
    it is played on. Raises what it raises, a ValueError for what is no outcome.
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
        """A generator of predictions, lists of k probabilities.

        Send it the class that came, 0 to k - 1, and it yields the next prediction. Raises ValueError for
        any other outcome.
        """
        while True:
            outcome = yield [float(p) for p in self.barycentre()]
            self.observe(outcome)

    def barycentre(self) -> list[Fraction]:
        """The mean of the current cell's vertices, k fractions of sum 1: the next prediction."""
        return [Fraction(sum(column), self.k * self.m) for column in zip(*self.cell, strict=True)]

    def observe(self, outcome: int) -> Point:
        """Charge the vertex of the cell that carries the `outcome`, a class from 0 to k - 1, as its label.

        A round is settled so. Returns that vertex: the look-ahead prediction. Raises ValueError for any other
        outcome.
        """
        y = check_count(outcome, "outcome", self.k - 1, least=0)
        (look_ahead,) = [x for x in self.cell if self.label(x) == y]
        self.charge(look_ahead, y)
        return look_ahead

    def charge(self, x: Point, outcome: int) -> None:
        """Book the `outcome` at the point `x`; if that changes the label of a vertex, find a full cell."""
        before = self.label(x)
        self.counts.setdefault(x, [0] * self.k)[outcome] += 1
        self.labels[x] = self.earliest_deadline(x, outcome)
        if x in self.cell and self.labels[x] != before:
            nearby = self.doors(self.cell.index(x))
            self.cell, self.steps = nearby or self.walk(self.barycentre(), self.label)

    # section 3: the labels

    def label(self, x: Point) -> int:
        """The class that the point `x` carries as its label: its coordinate in `x` is positive (Lemma 4)."""
        return self.labels[x] if x in self.labels else self.earliest_deadline(x, None)

    def earliest_deadline(self, x: Point, last: int | None) -> int:
        """The class, 0 to k - 1, that Tijdeman's rule gives as label to the point `x` (Theorem 5).

        `x` is k whole numbers with sum m. The rule looks at how often x was charged with each class so far.
        `last` is the class with which x was charged last, None if it never was. Of classes with equal
        deadlines `last` wins, else the largest.
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
        """Find a full cell for these labels, from the anchor nearest to the `target`.

        Returns its k vertices and its k steps.

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
        """The artificial label of `x`: the first class c such that x has more in 0 to c than the `anchor`.

        Only the anchor's cell is full under these labels (Lemma 8).
        """
        return next(c for c in range(self.k) if sum(x[: c + 1]) > sum(anchor[: c + 1]))

    def anchor(self, target: list[Fraction]) -> list[int]:
        """The k whole numbers with sum m - 1 whose cell has its centre nearest to the `target`.

        They are found by the method of largest remainders.
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
        """A full cell near the current one, its vertices and its steps; None if the walks find none.

        The vertex number `changed` now has the label of another vertex. One walk begins by dropping the
        first of these two, another by dropping the second. The walks take turns.
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
    """One time step: the prediction of `group` for the class `class_number` moves to its frequency.

    After that the group predicts the k numbers `corrected`. It is merged with the group `other`, or with none
    if that is None.
    """

    group: Group
    class_number: int
    corrected: list[Fraction]
    other: Group | None


class MulticlassCalibration(NamedTuple):
    """The end of `multiclass_calibration`.

    Attributes
    ----------
    h
        The calibrated predictor: from a row of k probabilities to k others, the prediction of its bin's
        group. Rows of a bin that is in no group get the canonical distribution of their bin.
    pred
        The last prediction, k fractions, of each group. A group is a frozenset of bins, and a bin is the
        tuple of floor(lambda q) for the k probabilities q of a row, with lambda the number of levels.
    steps
        The `Correction` of each time step, in order.
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

    On the rows that it was given, the probability-weighted l_p calibration error of the answer, an average
    over rows, is at most epsilon (Lemma 15). Every estimate is made from all rows, where the paper has fresh
    rows for each size of a group.

    Parameters
    ----------
    table, labels
        The predictions f(x), n rows of k probabilities, and the n classes that came, 0 to k - 1. A float is
        what it is to the last bit: 0.7 is a little less than the level 7/10.
    p, epsilon
        The order of the error, above 1 or inf, and how much of it may be left, between 0 and 1.
    n_levels, tolerance
        How many levels a class has, and the largest error that is not corrected, between 0 and 1; in place of
        the paper's lambda and beta/2. None: those.
    start
        What a bin predicts at first. None: rho, the distribution that is nearest to its corner.
    select
        Which group and class is corrected, where several have large errors. None: the largest error.

    Returns
    -------
    MulticlassCalibration
        The calibrated predictor h, the groups with their predictions, and the steps.

    Raises
    ------
    ValueError
        For p, epsilon, n_levels or tolerance out of range, for a table without rows or with rows that are not
        probabilities, and for another number of labels.
    """
    rows, k = checked_rows(table, labels)
    n = len(rows)
    # set beta and lambda, and with them the discretization R and the canonical distributions rho
    order, error = check_order(p, above_one=True), check_open_unit(epsilon, "epsilon")
    if tolerance is not None and not 0 < tolerance < 1:
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


def checked_rows(
    table: Sequence[Sequence[Number]], labels: Sequence[int]
) -> tuple[list[list[Fraction]], int]:
    """Rows of probabilities as fractions, and how many classes they have."""
    rows = [[Fraction(q) for q in row] for row in table]
    if not rows or len(labels) != len(rows):
        raise ValueError(
            f"labels must be one for each row of table, at least one, got {len(labels)} for {len(rows)} rows"
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
    """The end of a decision calibration.

    Attributes
    ----------
    predict
        The calibrated prediction function: from a row of C probabilities to C others.
    rounds
        Of each round the partition b and what is added on its regions: K rows of C numbers.
    """

    predict: Callable[[Sequence[float]], Row]
    rounds: list[tuple[Assignment, list[Row]]]


def hard_decision_calibration(
    table: Sequence[Sequence[float]], labels: Sequence[int], search: Maximizer, epsilon: float
) -> DecisionCalibration:
    """Algorithm 1 of the decision paper: correct on hard partitions until the error is at most `epsilon`.

    The `table` has n rows of C probabilities, `labels` the n classes that came, 0 to C - 1. In each round
    `search` gets the rows and what is left of the outcomes, and returns the partition to correct on. The
    paper does not say how to find the best of all partitions; `worst_of` tries those of a list. On these
    rows every round lowers the mean squared error by at least epsilon^2/K, for K actions (Theorem 2.2). The
    error is an average over rows. Raises ValueError unless epsilon is positive, and for a bad table.
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

    It differs from Algorithm 1 in the correction and in the end. The corrections U of the K regions, which
    overlap, are found together: they solve D U = R with R_a = E[(Y - p) b_a] and D_aa' = E[b_a b_a']. If D
    has no inverse, any solution is taken: on the rows of the `table` all of them say the same. The algorithm
    ends before the first round with sum_a |R_a|^2 < epsilon^2/K, a round that the paper still plays. Then
    sum_a |R_a| < epsilon, for every partition if `search` finds the one with the largest sum.

    The `table` has n rows of C probabilities, `labels` the n classes that came, 0 to C - 1. These, `search`
    and `epsilon` are as for `hard_decision_calibration`. On these rows every round lowers the mean squared
    error by at least epsilon^2/K (Theorem 2.2'). Raises ValueError unless epsilon is positive, and for a bad
    table.
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

    Returns a function from a row of C probabilities to K numbers: 1 for the action with the largest score, of
    equals the first, and 0 for the others.
    """

    def b(q: Row) -> Row:
        scores = [sum(map(mul, q, w_a)) for w_a in w]
        return [float(a == scores.index(max(scores))) for a in range(len(w))]

    return b


def soft(w: Sequence[Sequence[float]]) -> Assignment:
    """The partition by the softmax of K linear scores with weights `w`, K rows of C numbers (section 4.4).

    Returns a function from a row of C probabilities to K numbers of sum 1, one for each action.
    """

    def b(q: Row) -> Row:
        scores = [sum(map(mul, q, w_a)) for w_a in w]
        powers = [exp(score - max(scores)) for score in scores]
        return [power / sum(powers) for power in powers]

    return b


def worst_of(partitions: Sequence[Assignment]) -> Maximizer:
    """A `search` for `hard_decision_calibration` and `soft_decision_calibration`, by brute force.

    It returns the one of these `partitions`, as of `hard` or `soft`, that has the largest sum of errors over
    actions; of equal ones the first.
    """

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
