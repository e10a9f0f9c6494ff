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

    The model's probability is first steered, that is corrected by what has been learnt so far: the
    probability itself, four curves that learn from the labels, slow and fast ones, and the mean outcome after
    similar probabilities are mixed, each by how well it does. With three labels or more the whole answer is
    steered, as a vector. The result is the hint. The rule of `AlmostOneStepAhead` answers with the forecast
    nearest to the hint that keeps the distance to calibration bounded, whatever labels come. A round's hint
    is made before the model learns its label.

    Parameters
    ----------
    classifier
        The model to wrap; pipelines and other wrappers are welcome. One of scikit-learn is converted before,
        by `river.compat.convert_sklearn_to_river`, or goes into `OnlineRecalibratedClassifier`.
    slack
        How far forecast minus outcome, added up over the rounds with the same forecast, may be from 0: more
        slack follows the model more closely, for a weaker guarantee. From 0.5 to 1000; None: 1.5, more as
        more labels are late at once, 1 with a horizon or a window, and 4 for "simplex".
    n_buckets
        How many equal ranges of the hint have a forecaster of their own, at least 1. Of two labels the sum
        of squared errors is then at most that of the best constants in hindsight, one for each range, plus
        twice the certificate. In T rounds, at the default slack, without horizon and late labels, that is at
        most 4 sqrt(4.5 n_buckets T) more.
    strategy
        What is calibrated, in T rounds of k labels. "binary": the probability of the positive label (True, or
        1, or the greater of two numbers, or else the first that came); any other label counts as the other
        outcome and, without `classes`, is not named in answers once two labels have come. "simplex": the
        probabilities of all labels together, as a vector; for few labels, since the guarantee grows as T^(1 -
        1/k). "classwise": the probability of each label, one against the rest; the answer is the distribution
        nearest to these, towards the hint. "top-label": the probability of the label with the greatest hint,
        which is given more than 1/k and all others less than it has. "tree": the labels halved, the halves
        halved again, and so on: the probability of each half among the rounds whose label is in one of both;
        for many labels, all guarantees together grow as sqrt(k T). "auto": binary for two labels, classwise
        for up to ten, top-label for more. With a horizon or a window "auto" is the first of simplex,
        classwise and tree with a guarantee (with a window: of any window) of at most a fifth (simplex) or a
        half of the bound of forecasts that never change; if none has, top-label. With a window simplex needs
        `classes`. As labels appear "auto" may change; `current_strategy` says what it is.
    horizon
        How many rounds will be played, if known, at least 1: the guarantee is then smaller. More rounds may
        follow. A GuaranteeWarning tells if "simplex" was asked for and can guarantee nothing for so many.
    window
        Keep a certificate of the last so many settled rounds, too, from 1 to 2^24, and a guarantee of any so
        many in a row. Without a horizon (or with n_buckets above 1) the guarantee of all rounds together then
        grows as fast as the rounds. "simplex" keeps one only if `classes` are given. None: no window.
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
        When a forecast is made, in the units of `expire_after`, which it needs: the name of the feature that
        says so, or a function of the dict of features. None: time is the number of forecasts.
    prior
        A pair: the share of the second of `classes` in the table that the model was trained on, and in the
        stream, both between 0 and 1, as (0.5, 0.01), if they are known to differ, since rows were left out or
        repeated before training. Of more classes each is a dict with the share of every class. The odds of
        the model's answers are put right before they are steered. Needs `classes`; for models that do not
        learn the stream's own shares.

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
    certificate, or 2 where that is a sum over labels. An empty answer is no forecast: its label counts in
    `n_unmatched`, and in no certificate.

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
            raise ValueError(
                f"prior={prior!r} needs classes=[...], all labels, got None: of two labels, prior has the "
                "shares of the second"
            )
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
        """Calibrated probabilities of the labels known so far for the features x, by label; they sum to 1.

        A label that is known alone has 1. Before the first label has come, and without `classes`, the labels
        are those that the model names, with "binary" (as with "auto") only False and True, or 0 and 1;
        without any the dict is empty.

        Asking, by `predict_one` too, opens a round, which the label of equal features settles in `learn_one`.
        Asking about the very same object again, with nothing else asked in between, answers for the same
        round anew: the last answer counts. With `expire_after` forecasts whose time is over are given up, or
        settled, before; apart from that nothing is learnt. Keywords go to the wrapped model. Raises
        ValueError if the model answers with something else than numbers by label, or if x lacks the time that
        `moment` names.
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
        """The probabilities in the answer for the features x that the certificate is about.

        "binary" has {positive label: probability}, "top-label" {most probable label: probability}, and
        "classwise" and "simplex" have every label with its probability. For "tree" each key is a pair of
        tuples, the labels of two halves, and its value the probability of the second half, given that the
        label is in one of both. Of an answer with one label alone it is {label: 1.0}, of an empty one {}.

        They are those of the answer that was given last, if that was for this very object x and waits for its
        label; for an answer of `forecast` give its token in place of x. Else `predict_proba_one(x)` is called
        first, which opens a round, and whose errors are raised. Raises ValueError for any other token.
        """
        self._ask_unless_open(x)
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
        """The strategy of the next forecast: "binary", "simplex", "classwise", "top-label" or "tree".

        With strategy="auto" it is the one chosen for the labels known so far, else it is `strategy` itself.
        """
        return self._plan.current.name

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds.

        Settled rounds are forecasts that were given and got their label. Their distance depends on the
        strategy. "binary": of the positive label's probability. "top-label": of the greatest probability of
        each answer. "simplex": of all probabilities as a vector, with differences added up over the labels
        (l1). "classwise": of each label's probability, added up over the labels (`certificates` has each).
        "tree": of the probability of one of two halves of the labels, added up over all pairs of halves.

        Where labels are discovered several strategies may have played: their bounds are added up. Once
        "classwise" or "simplex" plays, earlier rounds with one or two labels are added up over labels, too.
        """
        return in_turn(part.certificate for part in self._plan.parts())

    @property
    def guarantee(self) -> float:
        """What `certificate` cannot exceed, whatever the labels: a sum over the settled rounds.

        With a `horizon` that is still to come it is the bound at the horizon, but for "tree", which does not
        use it. "classwise" and "top-label" move calibrated probabilities so that the answer sums to 1, or
        keeps its label on top; by how much they did so far is added, as nothing bounds it beforehand. What
        was never forecast is not counted yet, so before the first answer it may be 0.
        """
        return in_turn(part.guarantee for part in self._plan.parts())

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance to calibration of the last `window` settled rounds, a sum.

        The distance is of the same probabilities as that of `certificate`. None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_certificate or 0.0 for part in self._plan.parts())

    @property
    def window_guarantee(self) -> float | None:
        """A bound on the distance to calibration of any `window` settled rounds in a row, a sum over these.

        It holds whatever labels come. For "classwise" and "top-label" it includes by how much they moved
        probabilities in the window where that was most so far. The distance is of the same probabilities as
        that of `certificate`. Before the first answer it may be 0; None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_guarantee or 0.0 for part in self._plan.parts())

    @property
    def certificates(self) -> dict[Label, float]:
        """By label, a proven upper bound on the distance to calibration of its probabilities so far.

        Each is a sum over the settled rounds. They are there once "classwise" is the current strategy, for
        labels that some answer has named, and include rounds of "binary" before; until then the dict is
        empty. Rounds of other strategies are not in them. Their sum is `certificate` if none of these has
        played.
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
