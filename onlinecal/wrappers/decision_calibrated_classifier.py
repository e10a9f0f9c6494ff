"""A river classifier whose probabilities tell decision makers what their decisions will cost."""

from __future__ import annotations

import random
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.arrays import Floats
from onlinecal.elementary import in_turn
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from onlinecal.remarks import LabelWarning, label_remarks, warn_of
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.labels import Label, normalised, plain
from onlinecal.wrappers.refitted import Answer, Refitted

Memory = Literal["window", "reservoir"]
ALL_OF_IT: dict[str, Any] = {"start": "temperature", "share": 1.0, "keep": 0.0, "limit": np.inf}
"""Of each fit: rounds are added to those of the fit before, so no rows were held out from them."""
MEMORIES: tuple[Memory, ...] = get_args(Memory)


class DecisionCalibratedClassifier(Refitted[DecisionRecalibrator]):
    """Recalibrates a classifier's probabilities for decisions, again whenever the stream has doubled.

    Keeps a bounded number of the model's answers with their labels, and fits a DecisionRecalibrator on them
    after `first_fit` labels, twice as many, four times as many, and so on; each fit goes on from the rounds
    of the one before, until a new label widens the table. No guarantee for drifting streams comes with it:
    `gaps` shows on the newest labels, each answered before it was learnt, whether it still serves.

    Parameters
    ----------
    classifier
        The model to wrap.
    n_actions
        Decision makers with up to that many actions are served.
    losses
        Only these decision makers: one table or several, (n_losses, K, C), with classes in the order in which
        the stream brings them, or in that of `labels`.
    labels
        The labels in the order of the columns of `losses`; None: as they come.
    memory
        "window": the newest `capacity` labels. "reservoir": an even sample of all so far.
    capacity
        How many answers are kept.
    first_fit
        Labels before the first fit, at least 10.
    n_recent
        How many of the newest labels `gaps` looks at.
    seed
        Of the reservoir and of the fits.

    Attributes
    ----------
    n_rounds
        Labels learnt.
    n_fits
        Times the recalibrator was fitted.
    recalibrator
        The fitted DecisionRecalibrator; None before the first fit.

    Notes
    -----
    A round's answer is made, for the memory and for `gaps`, just before the model learns its label; with late
    labels it may differ from the one that was given.

    Examples
    --------
    >>> from river import datasets, naive_bayes
    >>> from onlinecal import DecisionCalibratedClassifier
    >>> model = DecisionCalibratedClassifier(naive_bayes.GaussianNB(), n_actions=3)
    >>> for x, y in datasets.Phishing():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_fits
    3
    >>> bool(model.gaps().mean() < 0.7 * model.gaps(raw=True).mean())
    True

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        n_actions: int = 2,
        losses: ArrayLike | None = None,
        labels: Sequence[Label] | None = None,
        memory: Memory = "window",
        capacity: int = 5000,
        first_fit: int = 200,
        n_recent: int = 500,
        seed: int = 0,
    ) -> None:
        super().__init__(classifier, first_fit)
        check_count(n_actions, "n_actions")
        check_choice(memory, MEMORIES, "memory")
        check_count(n_recent, "n_recent")
        for name, value in (("capacity", capacity), ("first_fit", first_fit)):
            if check_count(value, name) < 10:
                raise ValueError(f"{name} must be at least 10, got {value!r}")
        self.n_actions = n_actions
        self.losses = losses
        self.labels = labels
        self.memory = memory
        self.capacity = capacity
        self.n_recent = n_recent
        self.seed = seed
        self._meet(map(plain, labels or ()))
        self._kept: list[tuple[Answer, Label]] = []
        self._recent: deque[tuple[Answer, Answer, Label]] = deque(maxlen=n_recent)
        self._random = random.Random(seed)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Answer:
        """Recalibrated probabilities of the labels known so far; the model's own before the first fit.

        Labels that came after the last fit keep the model's probability; the others share the rest.
        """
        return self._recalibrated(self.classifier.predict_proba_one(x, **kwargs))

    def gaps(self, losses: ArrayLike | None = None, raw: bool = False) -> Floats:
        """Loss gaps on the newest labels, of the answers made before each was learnt.

        Parameters
        ----------
        losses
            Shape (n_losses, K, C); None: the losses of this model, or 100 random ones with n_actions actions.
        raw
            True: of the wrapped model's own answers, for comparison.

        Returns
        -------
        ndarray
            Shape (n_losses,), averages over the newest labels, relative to each loss's size; empty before two
            labels are known.
        """
        if len(self._columns) < 2 or not self._recent:
            return np.empty(0)
        answers = [answer if raw else ours for answer, ours, _ in self._recent]
        chosen = self.losses if losses is None else losses
        if chosen is None:
            chosen = gaussian_losses(max(2, self.n_actions), len(self._columns), 100, self.seed)
        return decision_loss_gap(self._table(answers), self._numbers(row[-1] for row in self._recent), chosen)

    def _keep(self, answer: Answer, label: Label) -> None:
        self._meet((*answer, label))
        self._recent.append((answer, self._recalibrated(answer), label))
        row = answer, label
        if self.memory == "window" or len(self._kept) < self.capacity:
            self._kept.append(row)
            # cut in bulk, so that keeping a row costs O(1)
            if len(self._kept) >= 2 * self.capacity:
                del self._kept[: -self.capacity]
        else:
            place = self._random.randrange(self.n_rounds)
            if place < self.capacity:
                self._kept[place] = row

    def recalibrate(self) -> None:
        """Fit on what is kept, now; nothing happens while fewer than two labels are known."""
        if len(self._columns) < 2 or not self._kept:
            return
        rows = self._kept[-self.capacity :]
        if self.recalibrator is None:
            self.recalibrator = DecisionRecalibrator(
                self.n_actions, losses=self.losses, seed=self.seed, warm_start=True, **ALL_OF_IT
            )
        table, numbers = self._table([answer for answer, _ in rows]), self._numbers(y for _, y in rows)
        warn_of(label_remarks(table, numbers, self._columns, "the labels kept"))
        with warnings.catch_warnings():
            # the same, by numbers
            warnings.simplefilter("ignore", LabelWarning)
            self.recalibrator.fit(table, numbers)
        self.n_fits += 1

    def _recalibrated(self, answer: Answer) -> Answer:
        if self.recalibrator is None or not answer:
            return answer
        width = self.recalibrator.n_features_in_
        names = [*self._columns][:width]
        known = in_turn(max(0.0, answer.get(label, 0.0)) for label in names)
        later = {label: p for label, p in answer.items() if self._columns.get(label, width) >= width}
        if known <= 0.0:
            return answer
        mapped = self.recalibrator.predict_proba(
            np.array([[max(0.0, answer.get(label, 0.0)) / known for label in names]])
        )[0]
        left = known / (known + in_turn(later.values()))
        return normalised({**{k: left * p for k, p in zip(names, mapped.tolist(), strict=True)}, **later})

    def _table(self, answers: list[Answer]) -> Floats:
        """Answers as rows with one column per label known by now."""
        return np.array([self._vector(answer) for answer in answers])

    def _numbers(self, labels: Any) -> NDArray[np.int64]:
        return np.array([self._columns[label] for label in labels], dtype=np.int64)
