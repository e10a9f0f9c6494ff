"""Remarks on columns that can be read but are hardly meant as they are.

The checks in `onlinecal.validation` and `onlinecal.tables.columns` refuse values. These functions look at
whole columns and only remark: a column of labels may be something else, columns of probabilities may be in
another order, an outcome may have been confused with its opposite. Such columns can be read, and make every
number that follows meaningless.

Functions that end in `_remarks` look and answer with sentences, and `warn_of` says them. None changes what it
looks at, and none keeps anything: a caller who wants to remark only once remembers that it has. Thresholds
and words may change freely; no number depends on them.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, pieces

CLASSES_NAMED = 5
"""A remark names so many of the missing classes."""
STANDARD_ERRORS = 2.0
"""An accuracy is below chance if it is so many standard errors below it."""
WORSE_SHARE = 1e-3
"""A score is worse than another if it is larger by this share of it."""
LEAST_ROUNDS = 20
"""With fewer rounds scores are not compared with those of the best constant in hindsight."""
RUN_FACTOR = 3.0
"""Outcomes come in runs if they change less often than independent ones by this factor."""
LEAST_FORECASTS = 3
"""With fewer forecasts it is no sign of an error that no outcome is known before the last."""
LEAST_CHANGES = 30.0
"""Runs are not looked for if independent outcomes would change less often."""
PACKAGES_BETWEEN = {"onlinecal", "river", "sklearn"}
"""Packages that may stand between a user's program and a remark."""


CERTAIN_COST = -math.log(1e-15)
"""The log loss of an outcome whose probability was 0, which counts as 1e-15."""


class LabelWarning(UserWarning):
    """The category of warnings about labels or outcomes that can be read but are hardly meant as they are.

    Recalibrators give them when they are fitted, for example if a class never comes. Wrappers give them if a
    model's labels are not those that come, if a label comes for which no forecast waits, and if many
    forecasts wait and no label has come. `recalibrate_stream` and `combine_forecasts` give one for each
    remark of their report, also that the result scores worse than what was given, or than a constant.
    Computations go on as if nothing had been said. `warnings.simplefilter("ignore", onlinecal.LabelWarning)`
    silences them.
    """


class GuaranteeWarning(UserWarning):
    """The category of warnings about guarantees that hold but say nothing, as too few rounds are to come.

    The bound is then no less than that of the same probability for each class, forecast in every round.
    Forecasters of more than two classes warn if they are made with a `horizon`, the number of rounds to come;
    wrappers that use one when they know the classes. The forecasts are as good as without the warning.
    `warnings.simplefilter("ignore", onlinecal.GuaranteeWarning)` silences them.
    """


def label_remarks(
    table: Floats, labels: NDArray[Any], classes: Iterable[Any] | None = None, name: str = "the labels"
) -> list[str]:
    """Remarks on probabilities of shape (n, k) and class numbers of shape (n,); none if all is well.

    There are remarks on classes that never come, and on an accuracy below chance by more than two standard
    errors. Chance is 1/k, or the agreement that independent forecasts and labels would have, whichever is
    larger. `classes` are the names of the k columns.
    """
    k = table.shape[1]
    called = [str(label) for label in (range(k) if classes is None else classes)]
    counts = np.bincount(labels, minlength=k)
    missing = [called[number] for number in np.flatnonzero(counts == 0)]
    remarks = []
    if missing:
        dots = ", ..." if len(missing) > CLASSES_NAMED else ""
        numbers = " (0 and 1 are read as class numbers)" if k > 2 and not counts[2:].any() else ""
        remarks.append(
            f"{len(missing)} of the {k} classes ({', '.join(missing[:CLASSES_NAMED])}{dots}) never come in "
            f"{name}, so that nothing can be learnt about them: is another column meant{numbers}?"
        )
    accuracy, chance = agreement(table, counts, labels)
    if _below(accuracy, chance, len(labels)):
        remarks.append(
            f"the most probable class agrees with {name} in {_percent(accuracy)} of the rows, less than by "
            f"chance ({_percent(chance)}): are the columns of probabilities in the order of the classes, or "
            f"is another column meant than {name}?"
        )
    return remarks


def outcome_remarks(
    outcomes: NDArray[Any],
    forecasts: Floats | None = None,
    outcome: str = "the outcome",
    forecast: str = "the forecast",
) -> list[str]:
    """Remarks on outcomes and forecasts of them, both of shape (n,); none if all is well.

    There are remarks on several outcomes that are all the same, and, if all outcomes are 0 and 1, on
    forecasts that are on the wrong side of 1/2 more often than by chance.
    """
    remarks = []
    if len(outcomes) > 1 and np.all(outcomes == outcomes[0]):
        value = f"{float(outcomes[0]):g} in all {len(outcomes):,} rounds"
        remarks.append(f"{outcome} is {value}: is it the column of outcomes?")
    if forecasts is not None and bool(np.all((outcomes == 0) | (outcomes == 1))):
        labels = np.asarray(outcomes, dtype=np.int64)
        counts = np.bincount(labels, minlength=2)
        accuracy, chance = agreement(np.column_stack([1.0 - forecasts, forecasts]), counts, labels)
        if _below(accuracy, chance, len(outcomes)):
            remarks.append(
                f"{forecast} is on the right side of 1/2 in {_percent(accuracy)} of the rounds, less than by "
                f"chance ({_percent(chance)}): is {outcome} what was forecast, or its opposite?"
            )
    return remarks


def certain_remarks(outcomes: NDArray[Any], forecasts: Floats, forecast: str = "the forecast") -> list[str]:
    """A remark on forecasts of exactly 0 or 1 that were wrong, both of shape (n,); none if none was."""
    wrong = ((forecasts == 0.0) & (outcomes > 0.0)) | ((forecasts == 1.0) & (outcomes < 1.0))
    if not wrong.any():
        return []
    return [
        f"{forecast} is exactly 0 or 1, and wrong, in {int(wrong.sum()):,} of {len(outcomes):,} rounds: the "
        f"log loss of each would be infinite, and counts as {CERTAIN_COST:.1f}"
    ]


def silence_remarks(settled: int, without: int, advice: str) -> list[str]:
    """A remark on so many outcomes that are all the same, beside forecasts that have none."""
    if settled < LEAST_ROUNDS or without < LEAST_ROUNDS:
        return []
    return [
        f"all {settled:,} outcomes that came are the same, and {without:,} forecasts have none: if only what "
        f"happened is ever reported, forecasts go to that outcome; {advice}"
    ]


def unlearnt_remarks(known: NDArray[Any], n_rows: int, said: str) -> list[str]:
    """A remark if no outcome is known before the last of so many forecasts.

    `known` has for each outcome the first row that knows it, shape (n,); `said` is what tells that.
    """
    if n_rows < LEAST_FORECASTS or not len(known) or (known < n_rows).any():
        return []
    return [
        f"no outcome is known before the last forecast, so that nothing is learnt from any: is {said} in the "
        "units of the forecasts' times?"
    ]


def run_remarks(outcomes: NDArray[Any], forecasts: Floats, outcome: str, advice: str) -> list[str]:
    """A remark if outcomes, shape (T,), change much less often than independent ones with these chances.

    Those that never change have a remark of their own.
    """
    changes = int((outcomes[1:] != outcomes[:-1]).sum())
    p, q = forecasts[1:], forecasts[:-1]
    expected = float((p * (1.0 - q) + q * (1.0 - p)).sum())
    if expected < LEAST_CHANGES or changes == 0 or changes * RUN_FACTOR >= expected:
        return []
    return [
        f"{outcome} changes {changes:,} times from row to row, independent outcomes would about "
        f"{round(expected):,} times: do rows share an outcome, as those of one match do{advice}"
    ]


def constant_remarks(
    name: str, rounds: float, scores: Mapping[str, float], constants: Mapping[str, float], numbers: int = 1
) -> list[str]:
    """A remark if forecasts of so many rounds score worse than the best constant in hindsight.

    Both are average scores by name. What learning the constant costs, about log(T)/2 in all for each of its
    numbers, is allowed for.
    """
    if rounds < LEAST_ROUNDS:
        return []
    return input_remarks(name, "a constant", scores, constants, numbers * math.log(rounds + 1) / 2 / rounds)


def input_remarks(
    name: str, than: str, scores: Mapping[str, float], others: Mapping[str, float], margin: float = 0.0
) -> list[str]:
    """A remark if forecasts score worse than others, those that came in, by more than a margin on average."""
    texts = [
        f"{score} {own:.4f} instead of {others[score]:.4f}"
        for score, own in scores.items()
        if own > others[score] * (1.0 + WORSE_SHARE) + margin
    ]
    return [f"{name}: worse than {than}, {', '.join(texts)}"] if texts else []


def vacuous_remarks(guarantee: float, trivial: float, n_classes: int, rounds: int) -> list[str]:
    """A remark if a guarantee for the vectors of so many classes and rounds is no less than the trivial one.

    Both are sums over the rounds; the trivial one is what the same probability for each class has.
    """
    if guarantee < trivial:
        return []
    return [
        f"in {rounds:,} rounds of {n_classes} classes the guarantee for all together is worth nothing: "
        f"{guarantee / rounds:.2f} a round, where equal probabilities have {trivial / rounds:.2f}. The "
        "strategies 'classwise', 'tree' and 'top-label' of CalibratedClassifier guarantee more: of each "
        "class, of halves of the classes, and of the most probable one"
    ]


def agreement(table: Floats, counts: NDArray[np.int64], labels: NDArray[np.int64]) -> tuple[float, float]:
    """Accuracy of the most probable class, and what chance alone would give; ties are shared evenly."""
    n, k = table.shape
    right, often = 0.0, np.zeros(k)
    for rows in pieces(table):
        top = table[rows] == table[rows].max(axis=1, keepdims=True)
        shares = top / top.sum(axis=1, keepdims=True)
        right += float(shares[np.arange(len(top)), labels[rows]].sum())
        often += shares.sum(axis=0)
    return right / n, max(1.0 / k, float(often / n @ counts) / n)


def warn_of(remarks: Iterable[str], category: type[Warning] = LabelWarning) -> None:
    """A warning for each, at the line of the user's program that led here."""
    for text in remarks:
        warnings.warn(text, category, stacklevel=_users_level())


def _users_level() -> int:
    """How many frames above the caller the user's program is: the first that is neither ours nor river's."""
    frame, level = sys._getframe(1), 1
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PACKAGES_BETWEEN
    ):
        frame, level = frame.f_back, level + 1
    return level


def _below(accuracy: float, chance: float, n: int) -> bool:
    return accuracy + STANDARD_ERRORS * math.sqrt(chance * (1.0 - chance) / n) < chance


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"
