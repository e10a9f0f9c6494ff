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
from onlinecal.forecasters.simplex.input import check_labels, plain
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.measures.decision.losses import check_losses
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from onlinecal.recalibration.lp.online import FIRST_FIT, PANES, OnlineLp
from onlinecal.recalibration.lp.recalibrator import DELTA, EPSILON, N_LEVELS, LpRecalibrator, P, Within
from onlinecal.recalibration.lp.statistics import Estimation
from onlinecal.remarks import LabelWarning, label_remarks, warn_of
from onlinecal.steering.binary import N_BINS, bin_mean, bin_of, within
from onlinecal.validation import check_choice, check_count, check_flag, check_open_unit
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
        """The mapped probabilities of the labels known so far for the features x, by label; they sum to 1.

        Of two labels the map changes the probability of the positive one (True, or 1, or the greater of two
        numbers, or the label that came first); of more it changes that of each label, and all are divided by
        their sum. A label that is known alone has 1. Before the first label was learnt the dict is empty,
        unless the model names False and True, or 0 and 1, and nothing else. Nothing is learnt, and no round
        is opened. Keywords go to the wrapped model. Raises ValueError if the model answers with something
        else than numbers by label.
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
        """Learn the label y of the features x: ask the model about x, let it learn y, then let the map learn.

        The map learns from y and the model's answer before it learnt y. What was forecast for x earlier does
        not matter, so x need not have been asked about. Keywords go to the model as it learns. Raises
        ValueError, and learns nothing, if y is no label (a number between 0 and 1, or a dict of
        probabilities, is none), if there is a weight w other than 1, or if the model answers with something
        else than numbers by label.
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
    """Online Platt scaling: corrects the slope and the offset of a river classifier's log odds.

    Two numbers are learnt, by a gradient step on the log loss after each label; of more than two labels two
    numbers for each. There is no guarantee, and what no slope and offset can mend stays: wrap it in
    CalibratedClassifier to have one.

    Parameters
    ----------
    classifier
        The river classifier whose probabilities are mapped.
    optimizer
        One of river's optimizers that step on dictionaries of weights, an object such as `optim.Adam()`. It
        is copied for each label whose probability is mapped. None: plain gradient descent with rate 0.05.

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
            raise ValueError(
                f"optimizer must be a river optimizer, an object such as optim.SGD(0.05), got {optimizer!r}"
            )
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
    """Replace each probability of a river classifier by the mean outcome after similar ones: calibeating.

    Similar are probabilities in one of `n_bins` bins of equal width; an outcome is 1 if the label came, else
    0. It is good where the model's ranking is right and its scale is wrong in a way that stays as it is, and
    slow after a change. There is no guarantee: wrap it in CalibratedClassifier to have one.

    Parameters
    ----------
    classifier
        The river classifier whose probabilities are mapped.
    n_bins
        Number of bins, at least 1. In the mean of a bin its centre counts as one more outcome, so an empty
        bin answers with its centre.

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
        """Learn the label y of the features x: ask the model about x, let it learn y, keep its answer with y.

        What was forecast for x earlier does not matter, so x need not have been asked about. If enough labels
        have come since the last fit, the recalibrator is fitted anew; if `recalibrate` raises then, the label
        has been learnt. Keywords go to the model as it learns. Raises ValueError, and
        learns nothing, if y is no label (a number between 0 and 1, or a dict of probabilities, is none), if
        there is a weight w other than 1, or if the model answers with something else than numbers by label.
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
        """Fit the recalibrator now, on what is kept of the rounds so far; `n_fits` grows by 1."""

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
FEWEST_FITTED = 10
"""Two for each of the folds that a DecisionRecalibrator holds out by default: it takes no fewer rows."""


class DecisionCalibratedClassifier(Refitted[DecisionRecalibrator]):
    """Wrap a river classifier: decisions by its probabilities cost what these promise; fitted as it runs.

    It keeps a bounded number of the model's answers with their labels, and fits a DecisionRecalibrator on
    them after `first_fit` labels, twice as many, four times as many, and so on. Each fit keeps the
    corrections of the one before and adds to them, unless a new label has come since. There is no guarantee
    for streams that drift: `gaps` shows on the newest labels, each answered before it was learnt, whether it
    still serves.

    Parameters
    ----------
    classifier
        The river classifier to wrap.
    n_actions
        K: everybody who chooses among up to K actions by expected loss is served, at least 1.
    losses
        None: all of them. Or only these decision makers: one table of shape (K, C), the loss of action a if
        class c comes at [a, c], or several, (n_losses, K, C), with K actions and C classes. C is checked at
        each fit, in `learn_one`: ValueError if it is not the number of labels known then.
    classes
        A list of the labels, in the order of the last axis of `losses`. None: in the order in which the
        model's answers or the stream first name them.
    memory
        Which answers are kept: "window": those of the newest `capacity` labels; "reservoir": a random sample
        of all so far, each label with the same chance.
    capacity
        How many answers are kept, at least 10.
    first_fit
        After how many labels the first fit is made, at least 10.
    n_recent
        How many of the newest labels `gaps` looks at, at least 1.
    seed
        A whole number from 0, which draws the reservoir and what fits draw.

    Attributes
    ----------
    n_rounds
        How many labels were learnt.
    n_fits
        How many times the recalibrator was fitted.
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
        super().__init__(classifier, check_count(first_fit, "first_fit", least=FEWEST_FITTED))
        check_choice(memory, MEMORIES, "memory")
        n_actions, n_recent = check_count(n_actions, "n_actions"), check_count(n_recent, "n_recent")
        capacity = check_count(capacity, "capacity", least=FEWEST_FITTED)
        seed = check_count(seed, "seed", least=0)
        declared = () if classes is None else check_labels(classes, "classes")
        if losses is not None:
            # how many classes there are is known at the first fit
            check_losses(losses, None)
        self.n_actions, self.losses, self.classes, self.seed = n_actions, losses, classes, seed
        self.memory, self.capacity, self.n_recent = memory, capacity, n_recent
        for label in declared:
            self._labels.meet(label)
        self._meet(self._labels.known)
        self._kept: deque[tuple[Answer, Label]] = deque(maxlen=capacity)
        self._recent: deque[tuple[Answer, Answer, Label]] = deque(maxlen=n_recent)
        self._random = random.Random(seed)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Answer:
        """Recalibrated probabilities of the labels for the features x, by label; they sum to 1.

        Before the first fit it is the model's own answer, as it is. Labels that first came after the last fit
        keep the model's probability, and the others share the rest. Nothing is learnt, and no round is
        opened. Keywords go to the wrapped model. Raises ValueError if the model answers with something else
        than numbers by label.
        """
        return self._recalibrated(self._named(read_numbers(self.classifier.predict_proba_one(x, **kwargs))))

    def gaps(self, losses: ArrayLike | None = None, raw: bool = False) -> Floats:
        """By how much promised and realised losses of decisions differ on the newest `n_recent` labels.

        Each decision takes the action with the least expected loss by an answer that was made before its
        label was learnt. Nothing is changed.

        Parameters
        ----------
        losses
            The loss of action a if class c comes at [loss, a, c]: shape (n_losses, K, C), or one table (K,
            C), with classes in the order of the parameter `classes`, or in which labels were first named.
            None: the `losses` of this wrapper, or if these are None 100 random tables with n_actions (at
            least 2) actions, the same at each call.
        raw
            True: decisions by the wrapped model's own answers, for comparison. False: by the recalibrated
            ones, which before the first fit are the same.

        Returns
        -------
        ndarray
            Shape (n_losses,), not negative: |average expected loss - average loss that came|, divided by the
            largest Euclidean norm of an action's losses. Empty before two labels are known, or before
            a label was learnt.

        Raises
        ------
        ValueError
            For losses of another shape, or with another number of classes than labels are known.
        """
        check_flag(raw, "raw")
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
        """Fit the recalibrator now, on the answers and labels that are kept; `n_fits` grows by 1.

        Nothing happens while fewer than two labels are known, from `classes`, answers or outcomes, or before
        a label was learnt. It keeps the corrections of the fit before and adds to them, unless more labels
        are known than then. A LabelWarning tells if a label never came among those kept, or if the answers
        agree with the labels less than by chance; a SampleSizeWarning, if the answers are too few different
        ones to hold any out. Raises ValueError, and keeps the last fit, if fewer than 10 labels were learnt,
        or `losses` are for another number of classes than labels are known.
        """
        if len(self._columns) < 2 or not self._kept:
            return
        if len(self._kept) < FEWEST_FITTED:
            raise ValueError(
                f"at least {FEWEST_FITTED} labels must have been learnt before recalibrate, got "
                f"{len(self._kept)}: learn more, or leave the first fit to first_fit={self.first_fit}"
            )
        recalibrator = self.recalibrator
        if recalibrator is None:
            recalibrator = DecisionRecalibrator(
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
            recalibrator.fit(table, numbers)
        # what refuses the losses is fitted to nothing
        self.recalibrator = recalibrator
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

    Answers whose k probabilities fall into the same steps of 1/n_levels are a level set. The wrapper counts
    the labels of the most frequent level sets, and keeps no rounds. After `first_fit` labels, twice as many,
    four times as many, and so on, it runs the algorithm of `LpRecalibrator` (Algorithm 2 of Bairaktari and
    Nguyen) on the counts: level sets that promise a class too much or too little are corrected. Between two
    runs the map is fixed. A round's answer is read before the model learns its label.

    Parameters
    ----------
    classifier
        The river classifier to wrap.
    p
        Order of the error, above 1, or inf. Of each level set and class the error is |sum of (probability -
        outcome)| in the level set, divided by the number of all rounds; the error of order p is (sum of the
        p-th powers of these)^(1/p), with inf the largest of them.
    epsilon
        The error of order p to reach, between 0 and 1. It counts only where `tolerance` or `n_levels` is
        None.
    delta
        With what chance the guarantee for independent rounds may fail, between 0 and 1.
    n_levels
        Into how many equal steps the probability of each class is divided, at least 1. None: as many as
        1/beta, rounded up, with beta = epsilon^(p/(p-1)) 2^(-1/(p-1)), as in the paper.
    tolerance
        The largest error of a level set and class that is not corrected, between 0 and 1. None: beta/2.
    estimation
        "plug-in": all estimates are made from all counts. "pools": rounds are dealt at random to separate
        pools, with noise, as in the paper; that needs thousands of times as many rounds.
    seed
        A whole number from 0, which deals rounds to pools and draws the noise.
    within
        "shift": all answers of a level set are moved by the same amount. "constant": all become the same, as
        in the paper. None: "shift", but "constant" with pools.
    first_fit
        After how many labels the first run is made, at least 1; until then the model's answers are given.
    window
        How many rounds are remembered, at least 8: they are forgotten an eighth of it at a time. None: all.
    fading
        The factor between 0 and 1 by which all counts are multiplied with each round. None: they are not. It
        excludes `window`.

    Attributes
    ----------
    n_rounds
        How many labels were learnt.
    n_fits
        How many times the algorithm was run.
    recalibrator
        The `LpRecalibrator` of the last run, with its history, groups and sample sizes; None before the
        first.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Notes
    -----
    With beta twice the tolerance, at most 24/beta level sets are kept at a time (per eighth of a
    window), with k numbers for each and each pool. A level set's count then misses at most beta/24 of all
    rounds, so that none with 5 beta/24 of the rounds or more is overlooked. With a window or fading, runs are
    at most an eighth of the window or 1/(1 - fading) rounds apart.

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
        seed = check_count(seed, "seed", least=0)
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
        """Recalibrated probabilities of the labels known so far for the features x, by label; they sum to 1.

        Before the first run of the algorithm it is the model's own answer, with sum 1. Empty while neither
        the model nor the stream has named a label. Nothing is learnt, and no round is opened. Keywords go to
        the wrapped model. Raises ValueError if the model answers with something else than numbers by label.
        """
        answer = self._named(read_numbers(self.classifier.predict_proba_one(x, **kwargs)))
        self._meet(answer)
        if not self._columns:
            return normalised({label: mass_of(answer, label) for label in answer})
        vector = self._online.answer(self._vector(answer))
        return self._of_labels(dict(zip(self._columns, vector.tolist(), strict=True)))

    def _keep(self, answer: Answer, label: Label) -> None:
        self._meet((label, *answer))
        self._online.keep(self._vector(answer), self._columns[label])

    def recalibrate(self) -> None:
        """Find out now, from the counts so far, which probabilities to correct; `n_fits` grows by 1.

        The new map of probabilities replaces the one before, and `recalibrator` is that of this run of the
        algorithm. Nothing happens while fewer than two labels are known, or before a label was learnt.
        """
        recalibrator = self._online.fit(list(self._columns))
        if recalibrator is not None:
            self.recalibrator = recalibrator
            self.n_fits += 1

    def _most_between_fits(self) -> int:
        return self._online.rounds_to_next()
