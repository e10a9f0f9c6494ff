"""Any river classifier, with probabilities whose distance to calibration is bounded and certified.

Parameters stay as they were; this is what changes. `ExpiringRounds` holds the open round and those that wait,
counts, and calls the methods with an underscore here, in its order. The plan (`_plan`) holds the strategies.
What labels teach them is written in `_settle` and `_learn_alone`. `predict_proba_one` leaves the ticket of
the open round in them, and `_take`, `_present`, `_give_up` and `_note_late` pass on what happens to rounds
that wait. The labels (`_labels`) are met in `_settle` and `_learn_alone`, and only there, in `note_labels`
after a new label was met, may another strategy become the current one. `_moments.now` is written here alone,
before a round is settled, and windows read it. `predict_proba_one` repeats `_open` in place, for speed: a
change of one is a change of both.

What it answers is kept in `tests/corpus` for every strategy, in time and late. Pickles hold all attributes by
their names, and are for the version that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from river import base

from onlinecal.arrays import Floats
from onlinecal.elementary import in_turn
from onlinecal.remarks import silence_remarks, warn_of
from onlinecal.validation import as_whole
from onlinecal.wrappers.expiry import ExpiringRounds, patience_of
from onlinecal.wrappers.labels import Label, Labels, Prior, corrected, prior_weights, read_answer
from onlinecal.wrappers.late_labels import MOST_WAITING
from onlinecal.wrappers.strategies.choice import StrategyName, check_settings
from onlinecal.wrappers.strategies.plan import StrategyPlan
from onlinecal.wrappers.strategies.strategy import Settings, WaitingRound
from onlinecal.wrappers.strategies.vectors import SteeredVectors
from onlinecal.wrappers.strategies.windows import WindowMoments
from onlinecal.wrappers.waiting import NOTHING
from onlinecal.wrappers.wrapper import ClassifierWrapper


class CalibratedClassifier(ExpiringRounds[WaitingRound], ClassifierWrapper):
    """Wrap a river classifier: its skill is kept, its probabilities become calibrated, with a running proof.

    The model's probability is first steered: itself, four curves that learn from the labels, slow and fast
    ones, and the running mean of its bin are mixed by how well each does. With three labels or more its whole
    answer is steered, as a vector, by curves for each label and for all. The mixture is the hint;
    Almost-One-Step-Ahead answers with the nearest forecast that keeps the distance to calibration bounded,
    whatever labels come. The hint is always read before the model learns the label.

    Parameters
    ----------
    classifier
        The model to wrap; pipelines and other wrappers are welcome. One of scikit-learn is converted before,
        by `river.compat.convert_sklearn_to_river`, or goes into `OnlineRecalibratedClassifier`.
    slack
        How far a grid point's bias may grow: more slack follows the model more closely, for a weaker
        guarantee. At least 0.5; by default 1.5, more as more labels are late at once, 1 with a horizon or a
        window, and 4 for "simplex".
    n_buckets
        Separate bias tables for that many equal-width buckets of the hint: the Brier score of a binary
        stream is then within twice the certificate of the best constant in each bucket, chosen in
        hindsight. At the default slack, without horizon and late labels, that is at most
        4 sqrt(4.5 n_buckets T).
    strategy
        "binary": the probability of the positive label (True, or 1, or the greater of two numbers, or else
        the first that came) is calibrated; any other label counts as the other outcome. "simplex": the
        probabilities of all labels together, as a vector; for few labels, since the guarantee grows as T^(1 -
        1/k). "classwise": the probability of each label, one against the rest; the answer is the distribution
        nearest to these, towards the hint. "top-label": the probability of the label with the greatest hint,
        which stays the answer: among k labels it is given at least 1/k. "tree": the labels halved, the halves
        halved again, and so on: the probability of each half among the rounds that are in either; for many
        labels, all guarantees together grow as sqrt(k T). "auto": binary for two labels, classwise for up to
        ten, top-label for more; with a horizon or a window the first of simplex, classwise and tree that
        guarantees (with a window: of any window) at most so much of what forecasts that never change have: a
        fifth for simplex, else a half; or top-label. With a window simplex needs `classes`. It changes as
        labels appear; `current_strategy` says what it is.
    horizon
        How many rounds will be played, if known. A GuaranteeWarning tells if "simplex" was asked for and can
        guarantee nothing for them.
    window
        Keep a certificate of the last so many settled rounds, too, and a guarantee of any. Without a horizon
        (or with several buckets) the grids are then the uniform ones that are best for such windows, and the
        guarantee of all rounds together grows as fast as the rounds. "simplex" keeps one if all `classes`
        are known.
    classes
        All labels there are, at least two, if they are known beforehand: "auto" then does not change, and of
        two labels the second is the positive one. None: labels are discovered as they come.
    most_waiting
        How many forecasts may wait for their labels; beyond that the oldest are given up. One takes about
        1.1 KB of memory for two labels, 3.4 KB for ten one by one, and the numbers of its features.
    expire_after
        How long a forecast waits for its label: so many later forecasts, at least 1, or with `moment` a span
        of time, above 0, as a number or a timedelta. None: for ever. One whose label has not come by then is
        given up, or with `expire_as` settled.
    expire_as
        The label that silence means, where only what happened is ever reported; it needs `expire_after`.
        Every forecast is then settled when `expire_after` is over, with the label that came by then, or else
        with this one. Reports come sooner than silence, and would count more otherwise. A label that comes
        later finds no forecast.
    moment
        As of river's `progressive_val_score`: the name of the feature that says when a forecast is made, or a
        function of all features, in the units of `expire_after`, which it needs. None: forecasts are counted.
    prior
        The base rate of the second class in the table that the model was trained on, and in the stream, both
        between 0 and 1, as (0.5, 0.01), if they are known to differ: rows were left out or repeated before
        training. The odds of the model's answers are put right before they are steered. Of more classes a
        pair of dicts with the share of each. Needs `classes`; for models that do not learn the stream's own
        rate.

    Attributes
    ----------
    classifier, slack, n_buckets, strategy, horizon, window, classes, most_waiting
        As given.
    expire_after, expire_as, moment, prior
        As given.
    n_rounds
        Settled rounds.
    n_unmatched
        Labels that came without their forecast.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Notes
    -----
    Certificates and guarantees speak of forecasts that were given, each with the label that settled it. Late
    labels find their forecasts in two ways. `forecast` answers with a token, which `observe` settles: nothing
    is assumed of features then. `learn_one` settles the forecast for equal features, the last one if that was
    for the very same object, else the oldest that waits. It is assumed that labels of equal features come in
    the order of their forecasts, none of them missing; where that is wrong, forecasts get labels of others,
    and the certificate is one of pairs that never were. Asking again about the same object, with nothing else
    asked in between, answers the same round again: its last answer counts.

    The guarantee includes what the largest number of forecasts open at once may cost.

    A label for features that nobody asked about, or whose forecast was given up, is counted in `n_unmatched`
    and is no round. The model learns it, and steering learns from it and from what the model says to these
    features now; so rows that are learnt without being asked about, before the stream or within it, warm up
    both and settle nothing.

    What each strategy's certificate is a bound on is said at `certificate`. While a single label is known its
    probability can only be 1: such a round is not steered. If another label follows, it adds 1 to the
    certificate, or 2 where that is a sum over labels. An empty answer is no forecast and is not charged.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> from onlinecal import CalibratedClassifier
    >>> model = CalibratedClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression())
    >>> for x, y in datasets.Phishing():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds
    1250
    >>> model.certificate / model.n_rounds < 0.06  # at most 6 points away from calibrated, proven
    True

    References
    ----------
    docs/theory.md, sections 2 to 6; Arunachaleswaran, Collina, Roth and Shi (2024).
    """

    _weights: Floats | None = None
    """Factors of the model's probabilities, if a prior is put right."""
    _is_one_sided = True
    """Whether all settled rounds had the positive label, as if silence meant the other one, and no remark has
    said so."""

    def __init__(
        self,
        classifier: base.Classifier,
        *,
        slack: float | None = None,
        n_buckets: int = 1,
        strategy: StrategyName = "auto",
        horizon: int | None = None,
        window: int | None = None,
        classes: Sequence[Label] | None = None,
        most_waiting: int = MOST_WAITING,
        expire_after: int | float | timedelta | None = None,
        expire_as: Label | None = None,
        moment: str | Callable[[Any], Any] | None = None,
        prior: Prior | None = None,
    ) -> None:
        declared = check_settings(slack, n_buckets, strategy, horizon, window, classes)
        n_buckets, horizon, window = map(as_whole, (n_buckets, horizon, window))
        patience = patience_of(expire_after, expire_as, moment, declared)
        if prior is not None and not declared:
            raise ValueError(f"prior={prior!r} needs classes=[...], in the order of its rates")
        ClassifierWrapper.__init__(self, classifier)
        ExpiringRounds.__init__(self, most_waiting)
        self._labels = Labels(declared)
        if patience is not None:
            self._limit(patience)
        self.expire_after, self.expire_as, self.moment, self.prior = expire_after, expire_as, moment, prior
        if prior is not None:
            self._weights = prior_weights(prior, declared)
        self.slack, self.n_buckets, self.strategy = slack, n_buckets, strategy
        self.horizon, self.window, self.classes = horizon, window, classes
        self._moments = None if window is None else WindowMoments(window)
        settings = Settings(self._labels, slack, n_buckets, horizon, self._moments, SteeredVectors())
        self._plan = StrategyPlan(settings, strategy)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Calibrated probabilities of the labels known so far, by label; they sum to 1.

        Empty while neither the model nor the stream has named a label.

        Asking opens a round, which the label of these features settles in `learn_one`; about the same object
        again it is the same round. The keywords are for the wrapped model. Raises ValueError if that answers
        with what are no probabilities by label, or if `x` lacks the `moment`.
        """
        if self._patience is not None and x is not self._features:
            self._let_expire(x)
        model = self.classifier
        # to pass on no keywords would take 3 % of an event, and `_corrected` 2 % where it has nothing to do
        answer = model.predict_proba_one(x, **kwargs) if kwargs else model.predict_proba_one(x)
        if type(answer) is not dict or self._weights is not None:
            answer = self._corrected(answer)
        if x is not self._features:
            # `_open`, without the call, which is 2 % of an event
            if self._features is not NOTHING:
                self._make_way()
            self._features = x
        plan = self._plan
        plan.here = plan.current
        said = plan.here.ask(answer)
        if said is None:
            said = plan.ask_certain(answer)
        self._is_empty = not said
        return said

    def certified_proba_one(self, x: Any) -> dict[Label, float]:
        """The probabilities that the certificates speak of, as they were given.

        One for each calibrated event: the positive label (binary), the top label, every label (classwise and
        simplex), or by (labels of one half, labels of the other) the probability of the other, given that it
        is either (tree). If another object than `x` was asked about last, `predict_proba_one` is asked, which
        opens a round.
        """
        # to ask again would be another forecast than the one that was given
        if x is not self._features:
            self.predict_proba_one(x)
        return self._plan.here.forecasts()

    def _read(self, y: Any) -> Label:
        return self._labels.read_label(y)

    def _settle(self, read: Label) -> None:
        if self._moments is not None:
            # this round's number: `n_rounds` counts it once it is settled
            self._moments.now = self.n_rounds + 1
        if read in self._labels.known:
            self._plan.here.settle(read)
        else:
            self._labels.meet(read)
            self._plan.here.settle(read)
            self._plan.note_labels()
        if self._is_one_sided:
            self._is_one_sided = read == self._labels.positive

    def _says(self, x: Any) -> Mapping[Label, float]:
        return self._corrected(self.classifier.predict_proba_one(x))

    def _corrected(self, answer: Any) -> Mapping[Label, float]:
        """A model's answer, put right if a prior says so; ValueError if it is no mapping."""
        answer = read_answer(answer)
        return answer if self._weights is None else corrected(answer, self._labels, self._weights)

    def _learn_alone(self, said: Mapping[Label, float] | None, read: Label) -> None:
        """Learn to steer, by what the model said."""
        self._make_way()
        is_new = read not in self._labels.known
        self._labels.meet(read)
        if said:
            self._plan.current.learn_alone(said, read)
        if is_new:
            self._plan.note_labels()

    def _teach(self, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        if kwargs:
            self.classifier.learn_one(x, y, **kwargs)
        else:  # which saves 3 % of an event, as in `predict_proba_one`
            self.classifier.learn_one(x, y)

    def _make_way(self) -> None:
        super()._make_way()
        is_told = self._patience is not None and self._patience.label is not NOTHING
        if self._is_one_sided and self.n_rounds and not is_told:
            without = self.n_open + self._waiting.n_given_up + self._n_withdrawn + self._n_expired
            advice = "expire_after= and expire_as= say what silence means"
            remarks = silence_remarks(self.n_rounds, without, advice)
            warn_of(remarks)
            self._is_one_sided = not remarks

    @property
    def current_strategy(self) -> str:
        """The name of the strategy by which the coming round is played: what "auto" is by now."""
        return self._plan.current.name

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds.

        It is one of the forecasts that were given, with their labels: labels without a forecast are no
        rounds. "binary" has it of the positive label's probability, "top-label" of the greatest of each
        answer, "simplex" of all labels together, summed over these, "classwise" of each label, summed over
        them (`certificates` has these), "tree" summed over its nodes. Where labels are discovered several
        strategies may have played, and their distances add up; once one of them sums over the labels, so do
        rounds with one or two labels known.
        """
        return in_turn(part.certificate for part in self._plan.parts())

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels: a sum over the settled rounds.

        Where a forecaster of two outcomes has a `horizon` that is still to come, it is the bound at the
        horizon. "classwise" and "top-label" move their forecasts to make an answer; by how much they have
        moved them so far is included.
        """
        return in_turn(part.guarantee for part in self._plan.parts())

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance of the last `window` settled rounds, as `certificate` sums it.

        None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_certificate or 0.0 for part in self._plan.parts())

    @property
    def window_guarantee(self) -> float | None:
        """What the distance of ANY `window` consecutive settled rounds cannot exceed, as `guarantee` has it.

        None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_guarantee or 0.0 for part in self._plan.parts())

    @property
    def certificates(self) -> dict[Label, float]:
        """For each label the certificate of its probabilities, a sum over the settled rounds.

        Only the strategy "classwise" has them; for the others the dict is empty.

        Their sum is `certificate`, unless other strategies than "binary" have played, too.
        """
        return self._plan.certificates()

    def _take(self) -> WaitingRound:
        return self._plan.here.take()

    def _present(self, forecast: WaitingRound) -> None:
        self._plan.present(forecast)

    def _give_up(self, forecast: WaitingRound) -> None:
        self._plan.give_up(forecast)

    def _note_late(self, others: int) -> None:
        self._plan.note_late(others)
