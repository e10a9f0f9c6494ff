"""Any river classifier, with probabilities whose distance to calibration is bounded and certified."""

from __future__ import annotations

from typing import Any, Literal, get_args

from river import base, linear_model

from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.answers import normalised, spread_top
from onlinecal.wrappers.labels import Label, Labels, plain
from onlinecal.wrappers.models import check_classifier
from onlinecal.wrappers.pending import Pending, Waiting
from onlinecal.wrappers.strategies.joint_projection import JointProjection
from onlinecal.wrappers.strategies.projection import Projection

Strategy = Literal["auto", "binary", "simplex", "top-label", "classwise"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
MOST_JOINT, MOST_CLASSWISE = 3, 10
"""Numbers of labels up to which "auto" forecasts them jointly, and one by one."""


class CalibratedClassifier(base.Wrapper, base.Classifier):
    """Wrap a river classifier: its skill is kept, its probabilities stay calibrated under any drift.

    The model's probability is first steered: itself, its online Platt scaling and the running mean of
    its bin are mixed, by how well each does. The mixture is the hint; Almost-One-Step-Ahead answers with
    the nearest forecast that keeps the distance to calibration bounded, whatever labels come. The hint is
    always read before the model learns the label.

    Parameters
    ----------
    classifier
        The model to wrap; pipelines and other wrappers are welcome.
    slack
        How far a grid point's bias may grow: more slack follows the model more closely, for a weaker
        guarantee. At least 0.5.
    n_buckets
        Separate bias tables for that many equal-width buckets of the hint: the Brier score of a binary
        stream is then within twice the certificate of the best constant in each bucket, chosen in
        hindsight. At the default slack, without horizon and late labels, that is at most
        4 sqrt(3 n_buckets T).
    strategy
        "binary": the probability of the positive label (True, or 1, or the first label seen) is
        calibrated; any other label counts as the other outcome. "simplex": the probabilities of all
        labels together, as a vector; for few labels, since the guarantee grows as T^(1 - 1/k). "classwise":
        the probability of each label, one against the rest. "top-label": the probability of the model's
        top label, which stays the answer unless that is below 1/k, rarer than a guess among k labels.
        "auto": binary for two labels, simplex for three, classwise for up to ten, top-label for more; it
        changes as labels appear.
    horizon
        How many rounds will be played, if known.

    Attributes
    ----------
    classifier, slack, n_buckets, strategy, horizon
        As given.

    Notes
    -----
    When labels come late, each one settles the forecast that was made for equal features (the oldest, if
    there are several), so the certificate stays right; the guarantee then includes what the largest
    number of forecasts open at once may cost. At most 10,000 forecasts are kept waiting. Features that
    nobody asked about are forecast and settled on the spot.

    While a single label is known its probability can only be 1: such a round is not steered, and adds 1 to
    the certificate if another label follows. An empty answer is no forecast and is not charged.

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
    >>> model.certificate / model.n_rounds < 0.05  # at most 5 points away from calibrated, proven
    True

    References
    ----------
    docs/theory.md, sections 2 to 6; Arunachaleswaran, Collina, Roth and Shi (2024).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        slack: float = 1.0,
        n_buckets: int = 1,
        strategy: Strategy = "auto",
        horizon: int | None = None,
    ) -> None:
        check_classifier(classifier)
        check_choice(strategy, STRATEGIES, "strategy")
        check_count(n_buckets, "n_buckets")
        if horizon is not None:
            check_count(horizon, "horizon")
        check_slack(slack)
        self.classifier = classifier
        self.slack = slack
        self.n_buckets = n_buckets
        self.strategy = strategy
        self.horizon = horizon
        self.n_rounds = 0
        self._labels = Labels()
        self._pending: Pending[Waiting] = Pending()
        self._most_open = 0
        self._surprises = 0
        self._projections: dict[tuple[str, Label | None], Projection] = {}
        self._joint = JointProjection(slack, horizon)
        self._plan: Strategy = "binary" if strategy == "auto" else strategy
        # Once both labels are known, the projection of the positive one; None under other plans.
        self._binary: Projection | None = None
        # The round that was asked about last, while its label has not come: its features, and unless the
        # round is that of `_binary`, what was forecast about which labels.
        self._features: Any = NOTHING
        self._kind = SILENT
        self._asked: tuple[Label | None, ...] = ()

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifier": linear_model.LogisticRegression()}

    def raw_proba_one(self, x: Any) -> dict[Label, float]:
        """The wrapped model's own answer."""
        return self.classifier.predict_proba_one(x)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Calibrated probabilities of the labels known so far; they sum to 1.

        Empty while neither the model nor the stream has named a label.
        """
        model = self.classifier
        answer = model.predict_proba_one(x, **kwargs) if kwargs else model.predict_proba_one(x)
        if x is not self._features:
            if self._features is not NOTHING:
                self._put_aside()
                self._most_open = max(self._most_open, len(self._pending))
            self._features = x
        if self._binary is None:
            return self._answer(answer)
        negative, positive = self._labels.pair  # type: ignore[misc]
        p = self._binary.ask(answer[positive] if positive in answer else self._labels.read(answer))
        return {negative: 1.0 - p, positive: p}

    def forecasts_one(self, x: Any) -> dict[Label, float]:
        """The forecasts that the certificates speak of, before they are made to sum to 1.

        One for each calibrated event: the positive label (binary), the top label, or every label
        (classwise; simplex, where they sum to 1 as they are).
        """
        self.predict_proba_one(x)
        if self._binary is not None:
            return {self._labels.positive: self._binary.ticket().probability}
        if self._kind == CERTAIN:
            return dict.fromkeys(self._asked, 1.0)
        if self._kind == "simplex":
            return self._joint.announced
        first = True if self._labels.positive is None else self._labels.positive
        return {
            first if label is None else label: self._projection(self._kind, label).ticket().probability
            for label in self._asked
        }

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Settle the forecast made for x (or make it now), then let the model learn."""
        outcome = self._labels.known.get(y)
        if outcome is not None and x is self._features and self._binary is not None:
            self._binary.settle(outcome)
        else:
            if outcome is None:
                self._labels.meet(y)
            if x is self._features or not self._settle_late(x, plain(y)):
                kind, asked = self._round()
                self._settle(kind, asked, plain(y))
        self._features = NOTHING
        self.n_rounds += 1
        if outcome is None:
            self._choose_plan()
        if kwargs:
            self.classifier.learn_one(x, y, **kwargs)
        else:
            self.classifier.learn_one(x, y)

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds.

        With "simplex" and "classwise" also a sum over the labels; for the latter `certificates` has them one
        by one.
        """
        events = sum(projection.certificate for projection in self._events())
        return self._surprises + events + self._joint.certificate

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels."""
        events = sum(projection.guarantee for projection in self._events())
        return self._surprises + events + self._joint.guarantee

    @property
    def certificates(self) -> dict[Label, float]:
        """The certificate of each label's forecasts ("classwise"; empty for the other strategies)."""
        return {
            label: projection.certificate
            for (plan, label), projection in self._projections.items()
            if plan == "classwise"
        }

    def _events(self) -> list[Projection]:
        """The projections that are answers; those of "simplex" only make the hint for the joint one."""
        return [one for (plan, _), one in self._projections.items() if plan != "simplex"]

    def _projection(self, plan: str, label: Label | None) -> Projection:
        key = plan, label if plan in ("classwise", "simplex") else None
        projection = self._projections.get(key)
        if projection is None:
            projection = Projection(self.slack, self.n_buckets, self.horizon)
            self._projections[key] = projection
        return projection

    def _answer(self, answer: dict[Label, float]) -> dict[Label, float]:
        """Open a round from the model's answer, unless it is binary with both labels known."""
        names = dict.fromkeys([*map(plain, answer), *self._labels.known])
        if self._plan in ("classwise", "simplex"):
            self._kind, self._asked = (self._plan, tuple(names)) if names else (SILENT, ())
            if not names:
                return {}
            forecasts = {k: self._projection(self._plan, k).ask(answer.get(k, 0.0)) for k in names}
            shares = normalised(forecasts)
            return shares if self._plan == "classwise" else self._joint.ask(shares)
        if self._plan == "binary":
            names = dict.fromkeys(self._labels.both(answer, 0.5))
        if len(names) < 2:
            self._kind, self._asked = CERTAIN if names else SILENT, tuple(names)
            return dict.fromkeys(names, 1.0)
        self._kind = self._plan
        if self._plan == "binary":
            self._asked = (None,)
            return self._labels.both(answer, self._projection("binary", None).ask(self._labels.read(answer)))
        masses = {label: answer.get(label, 0.0) for label in names} if answer else dict.fromkeys(names, 1.0)
        best = max(masses, key=masses.__getitem__)
        self._asked = (best,)
        raw = masses[best] if answer else 1.0 / len(names)
        return spread_top(masses, best, self._projection("top-label", best).ask(raw))

    def _settle(self, kind: str, asked: tuple[Label | None, ...], label: Label) -> None:
        """Charge a round whose tickets are in their projections."""
        for name in asked:
            hit = label == (self._labels.positive if kind == "binary" else name)
            if kind == CERTAIN:
                self._surprises += not hit
            else:
                self._projection(kind, name).settle(int(hit))
        if kind == "classwise" and label not in asked:
            self._projection(kind, label).surprises += 1
        if kind == "simplex":
            self._joint.settle(label)

    def _settle_late(self, x: Any, label: Label) -> bool:
        """Settle the round that waits for the label of these features; if there is none, open it."""
        if self._features is not NOTHING:
            self._put_aside()
        waiting = self._pending.take(x) if len(self._pending) else None
        if waiting is None:
            self._most_open = max(self._most_open, len(self._pending))
            self._features = NOTHING
            self.predict_proba_one(x)
            return False
        for name, ticket in waiting.tickets.items():
            self._projection(waiting.kind, name).present(ticket)
        if waiting.joint is not None:
            self._joint.present(waiting.joint)
        self._settle(waiting.kind, waiting.asked, label)
        for projection in self._projections.values():
            projection.note_late(self._most_open)
        return True

    def _round(self) -> tuple[str, tuple[Label | None, ...]]:
        """What was forecast in the open round: its kind, and about which labels."""
        return ("binary", (None,)) if self._binary is not None else (self._kind, self._asked)

    def _put_aside(self) -> None:
        """Let the open round wait for a late label."""
        kind, asked = self._round()
        names = () if kind == CERTAIN else asked
        tickets = {name: self._projection(kind, name).ticket() for name in names}
        joint = self._joint.take() if kind == "simplex" else None
        given_up = self._pending.add(self._features, Waiting(kind, asked, tickets, joint))
        if given_up is not None and given_up.joint is not None:
            self._joint.forecaster.withdraw(given_up.joint)

    def _choose_plan(self) -> None:
        """Take notice of a new label, after the round that brought it."""
        number = len(self._labels.known)
        if self.strategy == "auto" and number > 2:
            many: Strategy = "classwise" if number <= MOST_CLASSWISE else "top-label"
            self._plan, self._binary = "simplex" if number <= MOST_JOINT else many, None
        elif self._plan == "binary" and self._labels.pair is not None:
            self._binary = self._projection("binary", None)


class NOTHING:
    """Stands for features while no round is open: a class, since copies of it are itself."""


CERTAIN, SILENT = "certain", "silent"
"""Kinds of rounds that are not charged to a table: a single label is known, or none."""
