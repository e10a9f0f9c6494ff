"""Which labels there are, which of two counts as outcome 1, and answers over them that sum to 1.

A wrapper has one `Labels`, and is the only one that calls `meet`: for each new label of an outcome at least.
`DecisionCalibratedClassifier` also calls it for the labels that it is given as classes, so they count as met.
`meet` only ever adds: a label that is known stays, and once `pair` is set it stays what it is. `_names`,
`_own`, `_misleads` and `direct_pair` follow from `known` and `pair`, and are written with them. All other
methods read (`named` also remembers texts, and that it has warned). Columns have a `Labels` of declared ones
for each group.

Which of two labels is positive decides what every certificate is of. The order of `known` is that in which
strategies name labels, and of sums over them. `completed` is part of answers, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled
from onlinecal.elementary import in_turn
from onlinecal.forecasters.simplex.input import check_label, check_labels, class_of, is_soft, plain
from onlinecal.recalibration.flooring import spread_rest
from onlinecal.remarks import warn_of
from onlinecal.tables.columns import ROW_TOLERANCE
from onlinecal.texts import shown
from onlinecal.validation import check_open_unit

Label = Any
Prior = tuple[Any, Any]
"""The share of the second of two classes, or by class those of all: in training, and in the stream."""


def refuse_weight(keywords: Mapping[str, Any]) -> None:
    """ValueError for a weight `w` other than 1 among the keywords of the wrapped model."""
    weight = keywords.get("w", 1)
    if not (isinstance(weight, Real) and weight == 1):
        raise ValueError(
            f"w must be left out, got {weight!r}: only the wrapped model would learn of it, while the "
            "forecast counts as one round. Learn the row several times, or weigh in the model's own loss"
        )


class Labels:
    """The labels of a stream: those that came, in order, or those that were declared. None is made up.

    Of two labels the positive one is True, or 1, or the greater of two numbers; of others the one that came
    first; of declared ones the second. Once there are two, `pair` is (negative, positive).
    """

    declared = False
    direct_pair: tuple[Label, Label] | None = None
    """`pair`, if probabilities of these labels may be looked up in a model's answer under their own names."""
    _misleads = False
    """Whether False or True equals one of two numbers, and stands for the other: of -1 and 0, of 1 and 2."""
    _strange = False
    """Whether it was said that the model names none of the labels."""

    def __init__(self, declared: Sequence[Label] = ()) -> None:
        self.known: dict[Label, int] = {}
        """By label: 1 for the positive one, 0 for the others."""
        self.positive: Label | None = None
        """None while no label came. While a single one came that is 0 or 1, this is 1."""
        self.pair: tuple[Label, Label] | None = None
        self._by_text: dict[str, Label | None] = {}
        """By the text of a name that is no label: the label with that text, if there is one."""
        if len(declared):
            self.declared, self.positive = True, declared[1]
            self.known = {label: int(label == self.positive) for label in declared}
            self.pair = (declared[0], declared[1]) if len(declared) == 2 else None
        self._settle_names()

    def read_label(self, y: Any, name: str = "y") -> Label:
        """The label of an outcome; ValueError if it is none, or none of those that were declared."""
        try:
            if y in self._own:
                return self._own[y]
        except TypeError:  # nothing without a hash is a label, which is said in words
            pass
        label = checked_label(y, name)
        if self.declared:
            class_of(label, self.known, name)
        return label

    def meet(self, label: Label) -> None:
        """Take note of the label of an outcome, one that `read_label` has let pass."""
        label = plain(label)
        if label in self.known:
            return
        came = [*self.known, label]
        if len(came) == 1:
            self.positive = _like(label, 1) if _is_number(label) and label in (0, 1) else label
        elif len(came) == 2:
            self.positive = max(came, key=_order) if all(map(_is_number, came)) else came[0]
            self.pair = (came[1], came[0]) if self.positive == came[0] else (came[0], came[1])
        self.known = {known: int(known == self.positive) for known in came}
        self._by_text = {}
        self._settle_names()

    def _settle_names(self) -> None:
        self._names = tuple(self.known)
        self._own = {label: label for label in self.known}
        """By what equals a known label, a numpy scalar perhaps: the label."""
        ranked = sorted(self.known, key=_order) if all(map(_is_plain_number, self.known)) else ()
        self._misleads = len(ranked) == 2 and (ranked[0] == 1 or ranked[1] == 0)
        self.direct_pair = None if self._misleads else self.pair

    def named(self, answer: Mapping[Label, float]) -> Mapping[Label, float]:
        """A model's answer by the labels of the stream, which the model may call otherwise.

        False and True alone, where two numbers came that are no booleans, stand for the smaller and the
        greater one; while a single such number came, it is not known yet for which. Other names stand for the
        label of the same text. What is no label is a name of its own, and is left out where all labels were
        declared.
        """
        known = self.known
        if not known or not answer or (answer.keys() <= known.keys() and not self._misleads):
            return answer
        if all(map(_is_boolean, answer)) and len(known) <= 2 and all(map(_is_plain_number, known)):
            sides = self._sides()
            return {sides[bool(name)]: p for name, p in answer.items()} if sides else {}
        by_label: dict[Label, float] = {}
        for name, p in answer.items():
            label = name if name in known else self._label_like(name)
            if label in known or not self.declared:
                # a model that has learnt from rows and from batches names a label in two ways
                by_label[label] = by_label[label] + p if label in by_label else p
        if len(known) > 1 and not self._strange and not known.keys() & by_label.keys():
            self._strange = True
            said, came = (", ".join(map(repr, labels)) for labels in (answer, known))
            text = f"labels {said}, and none of them has come; those that have are {came}"
            warn_of([f"classifier answers with the {text}"])
        return by_label

    def _sides(self) -> dict[bool, Label] | None:
        """Which numbers False and True stand for; None if that is not known yet."""
        first, *others = self.known
        if others:
            return {False: min(self.known, key=_order), True: max(self.known, key=_order)}
        return {False: _like(first, 0), True: _like(first, 1)} if first in (0, 1) else None

    def _label_like(self, name: Label) -> Label:
        """The only label with the text of a name, else the name."""
        text = str(name)
        if text not in self._by_text:
            booleans = (False, True) if any(map(_is_boolean, self.known)) else ()
            alike = [label for label in {*self.known, *booleans} if str(label) == text]
            self._by_text[text] = alike[0] if len(alike) == 1 else None
        label = self._by_text[text]
        return plain(name) if label is None else label

    def names(self, answer: Mapping[Label, float]) -> tuple[Label, ...]:
        """The labels over which one event is forecast: those that came, or while fewer than two did, also
        those of the model's answer, which is `named`; none if there are none.
        """
        if self.positive is None:
            # 0 and 1 are False and True, and may be two of many
            return (False, True) if answer and answer.keys() <= {False, True} else ()
        return self._names if self.pair is not None else tuple({**self.known, **dict.fromkeys(answer)})

    def event(self, names: Collection[Label]) -> Label:
        """The label whose probability is forecast in an answer over two names or more."""
        if self.pair is not None:
            return self.pair[1]
        if self.positive is None:
            return True
        if len(names) == 2 and all(map(_is_number, names)):
            return max(names, key=_order)
        return self.positive if self.positive in names else next(iter(self.known))

    def probability(self, event: Label, answer: Mapping[Label, float]) -> float:
        """What a model's answer, which is `named`, says of a label; 1/2 if it says nothing."""
        if event in answer:
            return answer[event]
        if not self.known.keys() & answer.keys():
            return 0.5
        try:
            return 1.0 - in_turn(answer.values())
        except TypeError:
            raise no_probability(dict(answer)) from None

    def read(self, answer: Mapping[Label, float]) -> float:
        """What a model's answer says of the positive one of two labels."""
        if self.direct_pair is not None and self.positive in answer:
            return answer[self.positive]
        return self.probability(self.event(()), self.named(answer))

    def question(self, answer: Mapping[Label, float]) -> tuple[tuple[Label, ...], Label, float]:
        """What is forecast after a model's answer: over which labels, of which of them, and what that says.

        Fewer than two labels leave nothing to be forecast; of a single one the model says something still.
        """
        if self.pair is not None:
            return self._names, self.positive, self.read(answer)
        answer = self.named(answer)
        names = self.names(answer)
        event = self.event(names) if len(names) > 1 else self.positive
        return names, event, self.probability(event, answer)


def check_pair(classes: Any) -> tuple[Label, ...]:
    """The two labels of a stream; ValueError if these are not two."""
    declared = check_labels(classes, "classes")
    if len(declared) != 2:
        advice = ": for more there is CalibratedClassifier" if len(declared) > 2 else ""
        raise ValueError(f"classes must hold 2 class labels, got {len(declared)}{advice}")
    return declared


def over(names: Collection[Label], event: Label, p: float) -> dict[Label, float]:
    """An answer over at least two names: p for the label that is forecast, equal shares for the others."""
    others = (1.0 - p) / (len(names) - 1)
    return {label: p if label == event else others for label in names}


def _is_number(label: Label) -> bool:
    return isinstance(label, Real | Decimal)


def _is_plain_number(label: Label) -> bool:
    return _is_number(label) and not _is_boolean(label)


def _is_boolean(label: Label) -> bool:
    return isinstance(label, bool | np.bool_)


def _order(number: Label) -> Label:
    """By which numbers of all kinds can be compared: decimals know no fractions."""
    return Fraction(number) if isinstance(number, Decimal) else number


def _like(label: Label, number: int) -> Label:
    """0 or 1 beside a label that is the other one; not in its own type, as an enumeration may lack it."""
    return bool(number) if _is_boolean(label) else number


def _called(place: int | None) -> str:
    """What errors call a wrapped model: the only one, or that at a place among several."""
    return "classifier" if place is None else f"classifiers[{place}]"


def read_answer(answer: Any, place: int | None = None) -> Mapping[Label, float]:
    """A model's answer itself; ValueError if it is no mapping, as those of river's active learning.

    `place` is that of the model among several, for errors.
    """
    # most are dicts, and to ask an abstract class takes long
    if type(answer) is not dict and not isinstance(answer, Mapping):
        raise ValueError(
            f"{_called(place)} must answer with a dict of probabilities by label, got "
            f"{type(answer).__name__}: of a model that answers with more, as river's active.EntropySampler, "
            "wrap the classifier inside, EntropySampler(CalibratedClassifier(...))"
        )
    return answer


def read_numbers(answer: Any, place: int | None = None) -> Mapping[Label, float]:
    """A model's answer itself; ValueError if it is no mapping, or has what is no number as a probability.

    `place` is that of the model among several, for errors.
    """
    answer = read_answer(answer, place)
    for p in answer.values():
        if type(p) is not float and not isinstance(p, Real):
            raise no_probability(p, place)
    return answer


def no_probability(said: Any, place: int | None = None) -> ValueError:
    """The error for what a model says in place of a probability."""
    return ValueError(f"{_called(place)} must answer with numbers as probabilities, got {shown(said)}")


def checked_label(y: Any, name: str = "y") -> Label:
    """The label of a round; ValueError if it is none, or a share or soft label: no model learns from it."""
    is_share = isinstance(y, (float, np.floating)) and math.isfinite(y) and not float(y).is_integer()
    if is_share or is_soft(y):
        raise ValueError(
            f"{name} must be a class label, got {y!r}: models learn from labels. For a share use "
            "AlmostOneStepAhead, for soft labels SimplexAlmostOneStepAhead, with a model's probabilities as "
            "hints"
        )
    return check_label(y, name)


def spread_top(masses: dict[Label, float], best: Label, p: float) -> dict[Label, float]:
    """The probability p for the best label, the rest shared by the others as `spread_rest` does."""
    others = {label: min(max(0.0, mass), 1.0) for label, mass in masses.items() if label != best}
    return {best: p, **dict(zip(others, spread_rest(list(others.values()), p), strict=True))}


def normalised(masses: dict[Label, float]) -> dict[Label, float]:
    """Non-negative masses divided by their sum; equal shares if all are zero."""
    total = in_turn(masses.values())
    if total <= 0.0:
        return {label: 1.0 / len(masses) for label in masses}
    return {label: mass / total for label, mass in masses.items()}


def normalised_rows(masses: Floats) -> Floats:
    """The same for masses of shape (T, k), to the bit."""
    total = np.cumsum(masses, axis=1)[:, -1:]  # from left to right
    equal = np.full_like(masses, 1.0 / masses.shape[1])
    return np.divide(masses, total, out=equal, where=total > 0.0)


@compiled
def completed(masses: Floats, hints: Floats) -> Floats:
    """Masses in [0, 1], shape (T, k), moved to the sum 1 towards hints, whose sum is 1: all up, or all down.

    No distribution is nearer to the masses in l1: what is moved in all is how far their sum is from 1.
    """
    answers = np.empty_like(masses)
    for row in range(len(masses)):
        sum_of_masses, way = 0.0, 0.0
        for mass in masses[row]:
            sum_of_masses += mass
        missing = 1.0 - sum_of_masses
        for i in range(masses.shape[1]):
            way += max((hints[row, i] - masses[row, i]) * missing, 0.0)
        for i in range(masses.shape[1]):
            towards = max((hints[row, i] - masses[row, i]) * missing, 0.0)
            if way > 0.0:
                answers[row, i] = max(masses[row, i] + missing * (towards / way), 0.0)
            elif sum_of_masses > 0.0:
                answers[row, i] = masses[row, i] / sum_of_masses
            else:
                answers[row, i] = 1.0 / masses.shape[1]
    return answers


def prior_weights(prior: Prior, classes: Sequence[Hashable]) -> Floats:
    """By how much the probability of each class is multiplied, before all are divided by their sum; (k,).

    A model that was trained on a table from which rows of the frequent class were left out, or in which those
    of the rare one were repeated, says that table's chances. If rows of each class are what they were, and
    only their shares are others, odds are off by the quotient of the odds of the shares, and by nothing else.

    References
    ----------
    Elkan, "The foundations of cost-sensitive learning" (2001), Theorem 2; Saerens, Latinne and Decaestecker,
    "Adjusting the outputs of a classifier to new a priori probabilities" (2002).
    """
    if isinstance(prior, str | Mapping | set | frozenset) or not hasattr(prior, "__len__") or len(prior) != 2:
        raise ValueError(
            "prior must be a pair, the shares in the table that the model was trained on and in the stream, "
            f"as (0.5, 0.01), got {shown(prior)}"
        )
    trained, actual = (_shares(rates, f"prior[{place}]", classes) for place, rates in enumerate(prior))
    return actual / trained


def _shares(rates: Any, name: str, classes: Sequence[Hashable]) -> Floats:
    """The shares of the classes, shape (k,), all above 0, with sum 1."""
    if isinstance(rates, Real) and len(classes) == 2:
        share = check_open_unit(rates, name)
        return np.array([1.0 - share, share])
    if not isinstance(rates, Mapping):
        known = shown(list(classes))
        wanted = f"a dict with the share of each of the classes {known}"
        if len(classes) == 2:
            wanted = f"the share of {shown(classes[1])}, a number, or {wanted}"
        raise ValueError(f"{name} must be {wanted}, got {shown(rates)}")
    for label in rates:
        class_of(label, dict.fromkeys(classes, 0), name)
    missing = [label for label in classes if label not in rates]
    if missing:
        raise ValueError(f"{name} must have the share of each class, got none of {missing[0]!r}: add it")
    shares = np.array([check_open_unit(rates[label], f"{name} of {label!r}") for label in classes])
    if abs(shares.sum() - 1.0) > ROW_TOLERANCE:
        raise ValueError(f"{name} must have shares that sum to 1, got the sum {float(shares.sum())!r}")
    return shares / shares.sum()


def corrected_rows(table: Floats, weights: Floats) -> Floats:
    """Probabilities of the classes, shape (T, k), put right; of two classes only the second counts."""
    if len(weights) == 2:
        table = np.column_stack([1.0 - table[:, 1], table[:, 1]])
    return normalised_rows(table * weights)


def corrected(answer: Mapping[Label, float], labels: Labels, weights: Floats) -> dict[Label, float]:
    """A model's answer over declared labels, put right; none stays none."""
    answer = labels.named(answer)
    if not answer:
        return {}
    said = [answer.get(label, 0.0) for label in labels.known]
    if labels.pair is not None:
        said[1] = labels.probability(labels.pair[1], answer)
    row = np.array([[min(max(p, 0.0), 1.0) for p in said]])
    return dict(zip(labels.known, corrected_rows(row, weights)[0].tolist(), strict=True))
