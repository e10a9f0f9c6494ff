"""Wrappers that refit a recalibrator whenever the stream has doubled: for decisions, under the l_p error."""

from __future__ import annotations

import math
import random
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.arrays import Floats
from onlinecal.elementary import in_turn
from onlinecal.forecasters.simplex.input import check_label
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from onlinecal.recalibration.lp.online import PANES, OnlineLp
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator, Within
from onlinecal.recalibration.lp.statistics import Estimation
from onlinecal.remarks import LabelWarning, label_remarks, warn_of
from onlinecal.validation import check_choice, check_count, check_open_unit
from onlinecal.wrappers.labels import Label, normalised, plain, refuse_weight
from onlinecal.wrappers.wrapper import ClassifierWrapper

Answer = dict[Label, float]
R = TypeVar("R")


class Refitted(ClassifierWrapper, Generic[R]):
    """A wrapper that keeps what its recalibrator needs of each round, and fits it at doubling times.

    The model's answer is read before it learns the label. Labels are numbered as they come, in outcomes or
    in answers; the numbers are columns of the recalibrator's tables.
    """

    def __init__(self, classifier: base.Classifier, first_fit: int) -> None:
        super().__init__(classifier)
        self.first_fit = first_fit
        self.n_rounds = 0
        self.n_fits = 0
        self.recalibrator: R | None = None
        self._columns: dict[Label, int] = {}
        self._next_fit = first_fit

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Keep the answer for x with its label, recalibrate if it is time, then let the model learn."""
        refuse_weight(kwargs)
        new = check_label(y, "y")
        raw = {plain(label): p for label, p in self.classifier.predict_proba_one(x).items()}
        self.n_rounds += 1
        self._keep(raw, new)
        if self.n_rounds >= self._next_fit:
            self._next_fit = self.n_rounds + min(self.n_rounds, self._most_between_fits())
            self.recalibrate()
        self.classifier.learn_one(x, y, **kwargs)

    @abstractmethod
    def _keep(self, answer: Answer, label: Label) -> None:
        """Keep a round for fits to come."""

    @abstractmethod
    def recalibrate(self) -> None:
        """Fit the recalibrator now."""

    def _most_between_fits(self) -> int:
        return self.n_rounds

    def _meet(self, labels: Iterable[Label]) -> None:
        """Number the labels that are new."""
        for label in labels:
            if label not in self._columns:
                self._columns[label] = len(self._columns)

    def _vector(self, answer: Answer) -> Floats:
        """An answer over all labels known by now, with sum 1; NaN and negative values count as 0.

        Without any mass it is uniform.
        """
        vector = np.zeros(len(self._columns))
        for label, u in answer.items():
            vector[self._columns[label]] = u if 0.0 < u < math.inf else 0.0
        total = vector.sum()
        if total > 0.0:
            return vector / total
        return np.full(len(vector), 1.0 / max(1, len(vector)))


Memory = Literal["window", "reservoir"]
ALL_OF_IT: dict[str, Any] = {"start": "temperature", "share": 1.0, "keep": 0.0, "limit": np.inf}
"""Of each fit: rounds are added to those of the fit before, so no rows were held out from them."""
MEMORIES: tuple[Memory, ...] = get_args(Memory)


class DecisionCalibratedClassifier(Refitted[DecisionRecalibrator]):
    """Wrap a river classifier: decisions by its probabilities cost what these promise; fitted as it runs.

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


class LpCalibratedClassifier(Refitted[LpRecalibrator]):
    """Wrap a river classifier: rows with similar class probabilities are counted, and corrected where wrong.

    The wrapper keeps counts of the level sets that carry mass, not the stream, and runs Algorithm 2 on them
    at doubling times. Between two runs the map is fixed. The model's answer is read before it learns the
    label.

    Parameters
    ----------
    classifier
        The model to wrap.
    p, epsilon, delta, n_levels, tolerance, estimation, seed, within
        As for `LpRecalibrator`. With "pools" rounds are dealt to the pools at random as they come.
    first_fit
        Rounds before the first run; until then the model's answers are passed on.
    window
        None, or how many rounds are remembered: they are forgotten an eighth of it at a time.
    fading
        None, or the factor in (0, 1) by which what was counted loses weight with each round.

    Attributes
    ----------
    n_rounds
        Rounds learnt from.
    n_fits
        Runs of Algorithm 2.
    recalibrator
        The `LpRecalibrator` of the last run, None before the first: its history, groups and sample sizes.

    Notes
    -----
    At most 24/beta level sets are kept at a time (per eighth of a window), and k numbers for each and each
    pool. A level set's count then misses at most beta/24 of all rounds, so that none with mass 5 beta/24
    or more is overlooked. With a window or fading, runs are at most an eighth of the window or 1/(1 - fading)
    rounds apart.

    The model itself changes as it learns; what is counted is what it said then, not what it would say now.

    Examples
    --------
    >>> from river import datasets, metrics, naive_bayes
    >>> from onlinecal import LpCalibratedClassifier
    >>> model = LpCalibratedClassifier(naive_bayes.GaussianNB(), n_levels=5, within="shift")
    >>> for x, y in datasets.ImageSegments():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds, model.n_fits
    (2310, 5)

    References
    ----------
    Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p Error"
    (2025); Misra & Gries,
    "Finding repeated elements" (1982).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        p: float = 2.0,
        epsilon: float = 0.1,
        delta: float = 0.05,
        n_levels: int | None = None,
        tolerance: float | None = None,
        estimation: Estimation = "plug-in",
        seed: int = 0,
        within: Within = "constant",
        first_fit: int = 100,
        window: int | None = None,
        fading: float | None = None,
    ) -> None:
        super().__init__(classifier, first_fit)
        check_count(first_fit, "first_fit")
        if window is not None:
            check_count(window, "window", least=PANES)
        if fading is not None:
            check_open_unit(fading, "fading")
        if fading is not None and window is not None:
            raise ValueError(f"window and fading exclude each other, got {window!r} and {fading!r}")
        self.p = p
        self.epsilon = epsilon
        self.delta = delta
        self.n_levels = n_levels
        self.tolerance = tolerance
        self.estimation = estimation
        self.seed = seed
        self.within = within
        self.window = window
        self.fading = fading
        self._online = OnlineLp(self._settings(), window, fading)

    def _settings(self) -> LpRecalibrator:
        """Of each run: nothing but Algorithm 2, which is all that counts allow."""
        return LpRecalibrator.as_in_paper(
            self.p, self.epsilon, delta=self.delta, n_levels=self.n_levels, tolerance=self.tolerance,
            estimation=self.estimation, seed=self.seed, within=self.within,
        )  # fmt: skip

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Recalibrated probabilities of the labels known so far; they sum to 1.

        Empty while neither the model nor the stream has named a label.
        """
        answer = {plain(label): u for label, u in self.classifier.predict_proba_one(x, **kwargs).items()}
        self._meet(answer)
        vector = self._online.answer(self._vector(answer))
        return dict(zip(self._columns, vector.tolist(), strict=True))

    def _keep(self, answer: Answer, label: Label) -> None:
        self._meet((label, *answer))
        self._online.keep(self._vector(answer), self._columns[label])

    def recalibrate(self) -> None:
        """Run Algorithm 2 on what is counted, now; nothing happens while fewer than two labels are known."""
        recalibrator = self._online.fit(list(self._columns))
        if recalibrator is not None:
            self.recalibrator = recalibrator
            self.n_fits += 1

    def _most_between_fits(self) -> int:
        return self._online.rounds_to_next()
