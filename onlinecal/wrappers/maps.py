"""Maps from a model's probabilities to better ones, without a guarantee: learnt online, or fitted.

`predict_proba_one` learns nothing. It may make a map that has learnt nothing, for a label that it meets first
in an answer, and `LpCalibratedClassifier` numbers the labels of an answer. All learning is in `learn_one`, in
this order: the label is checked; the model is asked once more; it learns the label; and only then does the
map learn, from what the model had said before. `recalibrate` fits anew from what `learn_one` has kept. So a
map learns from answers that were made before their labels, and what the model refuses changes nothing here.

PLATT_RATE, CLIP and ALL_OF_IT are part of answers. Pickles hold the kept rounds; there is no other format.
"""

from __future__ import annotations

import copy
import math
import random
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base, optim

from onlinecal.arrays import Floats
from onlinecal.elementary import in_turn
from onlinecal.forecasters.binary.cells import clip
from onlinecal.forecasters.simplex.input import plain
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from onlinecal.recalibration.lp.online import FIRST_FIT, PANES, OnlineLp
from onlinecal.recalibration.lp.recalibrator import DELTA, EPSILON, N_LEVELS, LpRecalibrator, P, Within
from onlinecal.recalibration.lp.statistics import Estimation
from onlinecal.remarks import LabelWarning, label_remarks, warn_of
from onlinecal.steering.binary import N_BINS, bin_mean, bin_of, within
from onlinecal.validation import check_choice, check_count, check_open_unit
from onlinecal.wrappers.labels import Label, Labels, normalised, over, read_numbers, refuse_weight
from onlinecal.wrappers.wrapper import ClassifierWrapper

PLATT_RATE = 0.05
"""Of the gradient steps by which a logistic curve follows the outcomes."""
CLIP = 1e-4
"""Probabilities are kept this far from 0 and 1 before the logit."""


def logit(p: float) -> float:
    """log(p / (1 - p)) with p kept within [CLIP, 1 - CLIP]."""
    p = clip(p, CLIP, 1.0 - CLIP)
    return math.log(p / (1.0 - p))


class MappedClassifier(ClassifierWrapper):
    """Maps a classifier's probabilities: of two labels those of the positive one, of more those of each."""

    def __init__(self, classifier: base.Classifier) -> None:
        super().__init__(classifier)
        self._labels = Labels()
        self._maps: dict[Label, PlattMap | BinMap] = {}

    @abstractmethod
    def _new_map(self) -> PlattMap | BinMap:
        """A map that has learnt nothing."""

    def _map(self, label: Label) -> PlattMap | BinMap:
        if label not in self._maps:
            self._maps[label] = self._new_map()
        return self._maps[label]

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """The mapped probabilities of the labels known so far, by label; they sum to 1.

        `x` is what the wrapped model takes, a dict of features, and the keywords are for that model, too.
        Empty while neither the model nor the stream has named a label. Nothing is learnt, and no round is
        opened. Raises ValueError if its answer is not numbers by label.
        """
        answer = read_numbers(self.classifier.predict_proba_one(x, **kwargs))
        known = self._labels.known
        if len(known) > 2:
            answer = self._labels.named(answer)
            labels = dict.fromkeys([*answer, *known])
            return normalised(
                {label: self._map(label).apply(within(answer.get(label, 0.0))) for label in labels}
            )
        names, event, p = self._labels.question(answer)
        if len(names) < 2:
            return dict.fromkeys(names, 1.0)
        return over(names, event, self._map(event).apply(within(p)))

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Let the model learn the label `y` of `x`, and the maps learn from what the model said before that.

        Raises ValueError, and learns nothing, for a y that is no label, as a share or a soft label is none,
        and for a weight w.
        """
        refuse_weight(kwargs)
        label = self._labels.read_label(y)
        said = read_numbers(self.classifier.predict_proba_one(x))
        self.classifier.learn_one(x, y, **kwargs)
        self._labels.meet(label)
        known = self._labels.known
        if len(known) > 2:
            answer = self._labels.named(said)
            for name in known:
                self._map(name).learn(within(answer.get(name, 0.0)), int(label == name))
            return
        _, event, p = self._labels.question(said)
        self._map(event).learn(within(p), int(label == event))


class PlattScaling(MappedClassifier):
    """Online Platt scaling: corrects the slope and the offset of a model's log odds.

    No guarantee comes with it: a fold, a flip or labels that fight back defeat it. Wrap it in
    CalibratedClassifier to have one.

    Parameters
    ----------
    classifier
        The model whose probabilities are mapped.
    optimizer
        Any of river's optimizers that step on dictionaries of weights, an object; it is copied for each
        label. None: plain gradient descent with rate 0.05.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from onlinecal import PlattScaling
    >>> model = PlattScaling(preprocessing.StandardScaler() | linear_model.LogisticRegression())
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 89.12%

    References
    ----------
    Platt (1999), probabilistic outputs for support vector machines.
    """

    def __init__(self, classifier: base.Classifier, *, optimizer: Any = None) -> None:
        if optimizer is not None and (isinstance(optimizer, type) or not hasattr(optimizer, "step")):
            raise ValueError(f"optimizer must be a river optimizer such as SGD(0.05), got {optimizer!r}")
        super().__init__(classifier)
        self.optimizer = optimizer

    def _new_map(self) -> PlattMap:
        return PlattMap(optim.SGD(PLATT_RATE) if self.optimizer is None else copy.deepcopy(self.optimizer))


class PlattMap:
    """Slope and intercept of one label, and the optimizer that moves them."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.weights = {"slope": 1.0, "intercept": 0.0}

    def apply(self, p: float) -> float:
        """The logistic curve at the logit of p."""
        z = self.weights["slope"] * logit(p) + self.weights["intercept"]
        return 1.0 / (1.0 + math.exp(-clip(z, -30.0, 30.0)))

    def learn(self, p: float, outcome: int) -> None:
        """One gradient step on the log loss."""
        error = self.apply(p) - outcome
        self.weights = self.optimizer.step(self.weights, {"slope": error * logit(p), "intercept": error})


class BinnedMean(MappedClassifier):
    """Replace each probability by the mean of the outcomes after probabilities like it: calibeating.

    Good where the model's ranking is right and its scale is not, in any way that stays put; slow after
    a change. Wrap it in CalibratedClassifier to have a guarantee.

    Parameters
    ----------
    classifier
        The model whose probabilities are mapped.
    n_bins
        Number of equal-width bins, at least 1. A bin's centre counts as one outcome, so empty bins leave p
        about as it is.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Examples
    --------
    >>> from river import datasets, evaluate, naive_bayes, metrics
    >>> from onlinecal import BinnedMean
    >>> model = BinnedMean(naive_bayes.GaussianNB(), n_bins=10)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 87.67%

    References
    ----------
    Foster and Hart (2023), "Calibeating": beating forecasters at their own game.
    """

    def __init__(self, classifier: base.Classifier, *, n_bins: int = N_BINS) -> None:
        n_bins = check_count(n_bins, "n_bins")
        super().__init__(classifier)
        self.n_bins = n_bins

    def _new_map(self) -> BinMap:
        return BinMap(self.n_bins)


class BinMap:
    """Sums and counts of one label's bins."""

    def __init__(self, n_bins: int) -> None:
        self.totals = [0.0] * n_bins
        self.counts = [0.0] * n_bins

    def apply(self, p: float) -> float:
        """The mean outcome of p's bin so far."""
        b = bin_of(p, len(self.counts))
        return bin_mean(self.totals[b], self.counts[b], b, len(self.counts))

    def learn(self, p: float, outcome: int) -> None:
        """Count one outcome in p's bin."""
        b = bin_of(p, len(self.counts))
        self.totals[b] += outcome
        self.counts[b] += 1.0


Answer = dict[Label, float]


def mass_of(answer: Answer, label: Label) -> float:
    """What an answer gives a label; NaN, infinite and negative values count as 0."""
    p = answer.get(label, 0.0)
    return p if 0.0 < p < math.inf else 0.0


R = TypeVar("R")


class Refitted(ClassifierWrapper, Generic[R]):
    """A wrapper that keeps what its recalibrator needs of each round, and fits it at doubling times.

    `learn_one` has a round kept (`_keep`), and has a fit made when `n_rounds` has reached `_next_fit`
    (`recalibrate`). `recalibrator` is that of the last fit, and does not change between two fits.

    Labels are numbered as they come, in outcomes or in answers: `_columns` are the columns of the
    recalibrator's tables. A label keeps its number, and new ones come behind it. So the recalibrator of an
    earlier fit knows the first columns.
    """

    def __init__(self, classifier: base.Classifier, first_fit: int) -> None:
        super().__init__(classifier)
        self.first_fit = first_fit
        self.n_rounds = 0
        self.n_fits = 0
        self.recalibrator: R | None = None
        self._labels = Labels()
        self._columns: dict[Label, int] = {}
        self._next_fit = first_fit

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Ask the model about `x`, let it learn the label `y`, and keep that answer with the label.

        What was forecast for `x` before is not looked at. The recalibrator is fitted anew if enough labels
        have come since the last fit. Raises ValueError, and learns nothing, for a y that is no label, as a
        share or a soft label is none, and for a weight w.
        """
        refuse_weight(kwargs)
        new = self._labels.read_label(y)
        said = read_numbers(self.classifier.predict_proba_one(x))
        self.classifier.learn_one(x, y, **kwargs)
        self._labels.meet(new)
        self.n_rounds += 1
        self._keep(self._named(said), new)
        if self.n_rounds >= self._next_fit:
            self._next_fit = self.n_rounds + min(self.n_rounds, self._most_between_fits())
            self.recalibrate()

    def _named(self, answer: Mapping[Label, float]) -> Answer:
        """A model's answer by the labels of the stream.

        An answer of booleans alone may mean labels of other names. Which ones is known once two labels came;
        until then it stays as it is. All other answers are as `Labels.named` has them.
        """
        if self._labels.pair is not None or not all(isinstance(plain(name), bool) for name in answer):
            answer = self._labels.named(answer)
        return {plain(label): p for label, p in answer.items()}

    @abstractmethod
    def _keep(self, answer: Answer, label: Label) -> None:
        """Keep a round for fits to come."""

    @abstractmethod
    def recalibrate(self) -> None:
        """Fit the recalibrator now."""

    def _most_between_fits(self) -> int:
        return self.n_rounds

    def _meet(self, labels: Iterable[Label]) -> None:
        """Number the labels that are new.

        False and True may stand for labels of other names, so they get no number before one of them came.
        """
        are_sides = not any(isinstance(label, bool) for label in self._labels.known)
        for label in labels:
            if not (isinstance(label, bool) and are_sides):
                self._columns.setdefault(label, len(self._columns))

    def _of_labels(self, said: Answer) -> Answer:
        """An answer without the names that turned out to stand for other labels."""
        labels = self._labels
        kept = {
            name: p for name, p in said.items() if name in labels.known or name in labels.named({name: p})
        }
        return said if len(kept) == len(said) else normalised(kept)

    def _vector(self, answer: Answer) -> Floats:
        """An answer over all labels known by now, with sum 1."""
        vector = np.array([mass_of(answer, label) for label in self._columns])
        total = vector.sum()
        return vector / total if total > 0.0 else np.full(len(vector), 1.0 / max(1, len(vector)))


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
        K: decision makers with up to that many actions are served, at least 1.
    losses
        None: all of them. Or only these decision makers: the loss of action a and class c at [loss, a, c],
        one table (K, C) or several, (n_losses, K, C), with classes in the order in which the stream brings
        them, or in that of `classes`. They are checked at each fit: with another number of classes than
        labels are known then, ValueError is raised.
    classes
        The labels in the order of the columns of `losses`; None: as they come.
    memory
        "window": the newest `capacity` labels. "reservoir": an even sample of all so far.
    capacity
        How many answers are kept, at least 10.
    first_fit
        Labels before the first fit, at least 10.
    n_recent
        How many of the newest labels `gaps` looks at, at least 1.
    seed
        Of the reservoir and of the fits: a whole number from 0 on.

    Attributes
    ----------
    n_rounds
        Labels learnt.
    n_fits
        Times the recalibrator was fitted.
    recalibrator
        The fitted DecisionRecalibrator; None before the first fit.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Notes
    -----
    A round's answer is made, for the memory and for `gaps`, just before the model learns its label; with late
    labels it may differ from the one that was given.

    Examples
    --------
    >>> from river import datasets, naive_bayes
    >>> from onlinecal import DecisionCalibratedClassifier
    >>> model = DecisionCalibratedClassifier(naive_bayes.GaussianNB(), n_actions=3)
    >>> for x, y in datasets.Phishing().take(500):
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_fits
    2
    >>> bool(model.gaps().mean() < 0.7 * model.gaps(raw=True).mean())
    True

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        *,
        n_actions: int = 2,
        losses: ArrayLike | None = None,
        classes: Sequence[Label] | None = None,
        memory: Memory = "window",
        capacity: int = 5000,
        first_fit: int = 200,
        n_recent: int = 500,
        seed: int = 0,
    ) -> None:
        super().__init__(classifier, check_count(first_fit, "first_fit", least=10))
        check_choice(memory, MEMORIES, "memory")
        n_actions, n_recent = check_count(n_actions, "n_actions"), check_count(n_recent, "n_recent")
        capacity = check_count(capacity, "capacity", least=10)
        self.n_actions, self.losses, self.classes, self.seed = n_actions, losses, classes, seed
        self.memory, self.capacity, self.n_recent = memory, capacity, n_recent
        for label in map(plain, classes or ()):
            self._labels.meet(label)
        self._meet(self._labels.known)
        self._kept: deque[tuple[Answer, Label]] = deque(maxlen=capacity)
        self._recent: deque[tuple[Answer, Answer, Label]] = deque(maxlen=n_recent)
        self._random = random.Random(seed)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Answer:
        """Recalibrated probabilities by label; the model's own before the first fit.

        Labels that came after the last fit keep the model's probability; the others share the rest. Nothing
        is learnt, and no round is opened. The keywords are for the wrapped model. Raises ValueError if that
        answers with what are no numbers by label.
        """
        return self._recalibrated(self._named(read_numbers(self.classifier.predict_proba_one(x, **kwargs))))

    def gaps(self, losses: ArrayLike | None = None, raw: bool = False) -> Floats:
        """Loss gaps on the newest labels, of the answers made before each was learnt.

        Parameters
        ----------
        losses
            Shape (n_losses, K, C), or one table (K, C); None: the losses of this model, or 100 random ones
            with n_actions actions.
        raw
            True: of the wrapped model's own answers, for comparison. False: of the recalibrated ones.

        Returns
        -------
        ndarray
            Shape (n_losses,), averages over the newest labels, relative to each loss's size, as of
            `decision_loss_gap`; empty before two labels are known.

        Raises
        ------
        ValueError
            For losses of another shape, or with another number of classes than labels are known.
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
        if self.memory == "window" or len(self._kept) < self.capacity:
            self._kept.append((answer, label))
        elif (place := self._random.randrange(self.n_rounds)) < self.capacity:
            self._kept[place] = answer, label

    def recalibrate(self) -> None:
        """Fit the recalibrator on what is kept, now, from the rounds of the fit before on.

        `n_fits` grows by 1. Nothing happens while fewer than two labels are known. Raises ValueError if
        `losses` do not go with the labels; a LabelWarning tells if a label never came among those kept.
        """
        if len(self._columns) < 2 or not self._kept:
            return
        if self.recalibrator is None:
            self.recalibrator = DecisionRecalibrator(
                n_actions=self.n_actions,
                losses=self.losses,
                random_state=self.seed,
                warm_start=True,
                **ALL_OF_IT,
            )
        answers, labels = zip(*self._kept, strict=True)
        table, numbers = self._table(answers), self._numbers(labels)
        warn_of(label_remarks(table, numbers, self._columns, "the labels kept"))
        with warnings.catch_warnings():
            # `fit` would say the same, with numbers in place of labels
            warnings.simplefilter("ignore", LabelWarning)
            self.recalibrator.fit(table, numbers)
        self.n_fits += 1

    def _recalibrated(self, answer: Answer) -> Answer:
        if self.recalibrator is None or not answer:
            return answer
        width = self.recalibrator.n_features_in_
        names = [*self._columns][:width]
        known = in_turn(mass_of(answer, label) for label in names)
        newer = [label for label in answer if self._columns.get(label, width) >= width]
        later = {label: mass_of(answer, label) for label in newer}
        if known <= 0.0:
            return normalised({label: mass_of(answer, label) for label in answer})
        mapped = self.recalibrator.predict_proba(
            np.array([[mass_of(answer, label) / known for label in names]])
        )[0]
        left = known / (known + in_turn(later.values()))
        mixed = {**{k: left * p for k, p in zip(names, mapped.tolist(), strict=True)}, **later}
        return self._of_labels(normalised(mixed))

    def _table(self, answers: Iterable[Answer]) -> Floats:
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
    p
        Order of the error, above 1, or inf.
    epsilon
        The error to reach, between 0 and 1. It decides the tolerance and the number of levels where these are
        None.
    delta
        How often the guarantee for the source may fail, between 0 and 1.
    n_levels, tolerance, within
        Levels per class, the largest error that is not corrected, and what becomes of the rows of a level
        set, "shift" or "constant"; None: as for `LpRecalibrator` with `least_rows` 0.
    estimation, seed
        As for `LpRecalibrator`, whose `random_state` is the seed. With "pools" rounds are dealt to the pools
        at random as they come.
    first_fit
        Rounds before the first run, at least 1; until then the model's answers are passed on.
    window
        None, or how many rounds are remembered, at least 8: they are forgotten an eighth of it at a time.
    fading
        None, or the factor in (0, 1) by which what was counted is multiplied with each round. Not beside a
        window.

    Attributes
    ----------
    n_rounds
        Rounds learnt from.
    n_fits
        Runs of Algorithm 2.
    recalibrator
        The `LpRecalibrator` of the last run, None before the first: its history, groups and sample sizes.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Notes
    -----
    With beta twice the tolerance, at most 24/beta level sets are kept at a time (per eighth of a window), and
    k numbers for each and each pool. A level set's count then misses at most beta/24 of all rounds, so that
    none with mass 5 beta/24 or more is overlooked. With a window or fading, runs are at most an eighth of the
    window or 1/(1 - fading) rounds apart.

    The model itself changes as it learns; what is counted is what it said then, not what it would say now.

    Examples
    --------
    >>> from river import datasets, metrics, naive_bayes
    >>> from onlinecal import LpCalibratedClassifier
    >>> model = LpCalibratedClassifier(naive_bayes.GaussianNB())
    >>> for x, y in datasets.ImageSegments().take(800):
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds, model.n_fits
    (800, 4)

    References
    ----------
    Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p Error"
    (2025); Misra & Gries,
    "Finding repeated elements" (1982).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        *,
        p: float = P,
        epsilon: float = EPSILON,
        delta: float = DELTA,
        n_levels: int | None = N_LEVELS,
        tolerance: float | None = None,
        estimation: Estimation = "plug-in",
        seed: int = 0,
        within: Within | None = None,
        first_fit: int = FIRST_FIT,
        window: int | None = None,
        fading: float | None = None,
    ) -> None:
        super().__init__(classifier, check_count(first_fit, "first_fit"))
        if window is not None:
            window = check_count(window, "window", least=PANES)
        if fading is not None:
            check_open_unit(fading, "fading")
        if fading is not None and window is not None:
            raise ValueError(
                f"window and fading exclude each other, got {window!r} and {fading!r}: leave one out"
            )
        self.p, self.epsilon, self.delta, self.seed = p, epsilon, delta, seed
        self.n_levels, self.tolerance = n_levels, tolerance
        self.estimation, self.within = estimation, within
        self.window, self.fading = window, fading
        # nothing but Algorithm 2, which is all that counts allow
        each_run = LpRecalibrator.as_in_paper(
            p, epsilon, delta=delta, n_levels=n_levels, tolerance=tolerance, estimation=estimation,
            random_state=seed, within=within,
        )  # fmt: skip
        self._online = OnlineLp(each_run, window, fading)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Recalibrated probabilities of the labels known so far, by label; they sum to 1.

        `x` is what the wrapped model takes, a dict of features, and the keywords are for that model, too.
        Empty while neither the model nor the stream has named a label. Nothing is learnt, and no round is
        opened. Raises ValueError if its answer is not numbers by label.
        """
        answer = self._named(read_numbers(self.classifier.predict_proba_one(x, **kwargs)))
        self._meet(answer)
        if not self._columns:
            return answer
        vector = self._online.answer(self._vector(answer))
        return self._of_labels(dict(zip(self._columns, vector.tolist(), strict=True)))

    def _keep(self, answer: Answer, label: Label) -> None:
        self._meet((label, *answer))
        self._online.keep(self._vector(answer), self._columns[label])

    def recalibrate(self) -> None:
        """Run Algorithm 2 on what is counted, now: the map becomes that of this run, and `n_fits` grows by 1.

        Nothing happens while fewer than two labels are known.
        """
        recalibrator = self._online.fit(list(self._columns))
        if recalibrator is not None:
            self.recalibrator = recalibrator
            self.n_fits += 1

    def _most_between_fits(self) -> int:
        return self._online.rounds_to_next()
