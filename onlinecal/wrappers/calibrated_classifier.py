"""Any river classifier, with probabilities whose distance to calibration is bounded and certified."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from river import base, linear_model

from onlinecal.forecasters.grid import MOST_SLACK
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.labels import Label, Labels, plain
from onlinecal.wrappers.pending import Pending
from onlinecal.wrappers.projection import Projection, Ticket

STRATEGIES = ("auto", "binary", "top-label", "classwise")


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
        Separate bias tables for that many equal-width buckets of the hint: the Brier score is then within
        2 sqrt(n_buckets T) of the best constant in each bucket, chosen in hindsight.
    strategy
        "binary": the probability of the positive label (True, or 1, or the first label seen) is
        calibrated; any other label counts as the other outcome. "top-label": the probability of the
        model's top label. "classwise": the probability of each label, one against the rest. "auto":
        binary, until a third label appears; top-label from then on.
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
    docs/theory.md, sections 2 to 5; Arunachaleswaran, Collina, Roth and Shi (2024).
    """

    def __init__(
        self,
        classifier: base.Classifier,
        slack: float = 1.0,
        n_buckets: int = 1,
        strategy: str = "auto",
        horizon: int | None = None,
    ) -> None:
        check_choice(strategy, STRATEGIES, "strategy")
        check_count(n_buckets, "n_buckets")
        if horizon is not None:
            check_count(horizon, "horizon")
        if not isinstance(slack, (int, float, np.number)) or not 0.5 <= slack <= MOST_SLACK:
            raise ValueError(f"slack must be a number from 0.5 to {MOST_SLACK:g}, got {slack!r}")
        self.classifier = classifier
        self.slack = slack
        self.n_buckets = n_buckets
        self.strategy = strategy
        self.horizon = horizon
        self.n_rounds = 0
        self._labels = Labels()
        self._pending: Pending[Waiting] = Pending()
        self._most_open = 0
        self._projections: dict[tuple[str, Label | None], Projection] = {}
        self._plan = self._next_plan = "binary" if strategy == "auto" else strategy
        self._binary = self._projection("binary", None) if self._plan == "binary" else None
        # The round that was asked about last: its features, and the labels whose tickets are still in
        # their projections (None is the positive label); no labels when no round is open.
        self._features: Any = None
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
        answer = self.classifier.predict_proba_one(x, **kwargs)
        if self._asked and x is not self._features:
            self._put_aside()
        self._features = x
        if self._binary is not None:
            self._asked = POSITIVE
            labels = self._labels
            if labels.pair is None:
                return labels.both(answer, self._binary.ask(labels.read(answer)))
            negative, positive = labels.pair
            p = self._binary.ask(answer[positive] if positive in answer else labels.read(answer))
            return {negative: 1.0 - p, positive: p}
        forecasts = self._ask(answer)
        names = dict.fromkeys([*map(plain, answer), *self._labels.known])
        if self._plan == "top-label":
            return spread_top(answer, names, forecasts)
        return normalised(forecasts) if forecasts else {}

    def forecasts_one(self, x: Any) -> dict[Label, float]:
        """The forecasts that the certificates speak of, before they are made to sum to 1.

        One for each calibrated event: the positive label (binary), the top label, or every label
        (classwise).
        """
        answer = self.predict_proba_one(x)
        if self._binary is not None:
            return (
                {self._labels.positive: answer[self._labels.positive]}
                if self._labels.positive in answer
                else {}
            )
        return {label: self._projection(self._plan, label).ticket().probability for label in self._asked}

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Settle the forecast made for x (or make it now), then let the model learn."""
        late = not (self._asked and x is self._features) and self._recall(x)
        if y not in self._labels.known:
            self._meet(y)
        if self._binary is not None:
            self._binary.settle(1 if y == self._labels.positive else 0)
        else:
            self._settle_each(plain(y))
        self._asked, self._features = (), None
        self.n_rounds += 1
        if late:
            for projection in self._projections.values():
                projection.note_late(self._most_open)
        if self._plan != self._next_plan:
            self._plan, self._binary = self._next_plan, None
        self.classifier.learn_one(x, y, **kwargs)

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds.

        With "classwise" also a sum over the labels; `certificates` has them one by one.
        """
        return sum(projection.certificate for projection in self._projections.values())

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels."""
        return sum(projection.guarantee for projection in self._projections.values())

    @property
    def certificates(self) -> dict[Label, float]:
        """The certificate of each label's forecasts ("classwise"; empty for the other strategies)."""
        return {
            label: projection.certificate
            for (plan, label), projection in self._projections.items()
            if plan == "classwise"
        }

    def _projection(self, plan: str, label: Label | None) -> Projection:
        key = plan, label if plan == "classwise" else None
        projection = self._projections.get(key)
        if projection is None:
            projection = Projection(self.slack, self.n_buckets, self.horizon)
            self._projections[key] = projection
        return projection

    def _ask(self, answer: dict[Label, float]) -> dict[Label, float]:
        """Issue the forecasts of a round that is not binary, from the model's answer."""
        if self._plan == "top-label":
            names = [max(answer, key=answer.__getitem__)] if answer else []
        else:
            names = [*dict.fromkeys([*answer, *self._labels.known])]
        self._asked = tuple(map(plain, names))
        return {plain(k): self._projection(self._plan, plain(k)).ask(answer.get(k, 0.0)) for k in names}

    def _meet(self, label: Label) -> None:
        self._labels.meet(label)
        if self.strategy == "auto" and len(self._labels.known) > 2:
            self._next_plan = "top-label"

    def _settle_each(self, label: Label) -> None:
        for name in self._asked:
            self._projection(self._plan, name).settle(int(name == label))
        if self._plan == "classwise" and label not in self._asked:
            self._projection(self._plan, label).surprises += 1

    def _put_aside(self) -> None:
        """Let the open round wait for a late label."""
        tickets = {name: self._projection(self._plan, name).ticket() for name in self._asked}
        self._pending.add(self._features, Waiting(self._plan, tickets))
        self._most_open = max(self._most_open, len(self._pending))
        self._asked = ()

    def _recall(self, x: Any) -> bool:
        """Open the round of these features again, or anew; whether it had been waiting."""
        if self._asked:
            self._put_aside()
        waiting = self._pending.take(x) if len(self._pending) else None
        if waiting is None or waiting.plan != self._plan:
            self.predict_proba_one(x)
            return False
        self._features, self._asked = x, tuple(waiting.tickets)
        for name, ticket in waiting.tickets.items():
            self._projection(self._plan, name).present(ticket)
        return True


POSITIVE: tuple[None] = (None,)
"""The only label that is asked about in a binary round."""


class Waiting(NamedTuple):
    """The forecasts of a round that waits for its label; the label None stands for the positive one."""

    plan: str
    tickets: dict[Label | None, Ticket]


def spread_top(
    answer: dict[Label, float], names: dict[Label, None], top: dict[Label, float]
) -> dict[Label, float]:
    """The calibrated probability of the top label, the rest shared in the model's proportions."""
    if not top:
        return normalised({label: 1.0 for label in names})
    ((best, p),) = top.items()
    others = {label: max(answer.get(label, 0.0), 0.0) for label in names if label != best}
    if not others:
        return {best: 1.0}
    if sum(others.values()) <= 0.0:
        others = dict.fromkeys(others, 1.0)
    return {best: p, **{label: (1.0 - p) * share for label, share in normalised(others).items()}}


def normalised(masses: dict[Label, float]) -> dict[Label, float]:
    """Non-negative masses divided by their sum; equal shares if all are zero."""
    total = sum(masses.values())
    if total <= 0.0:
        return {label: 1.0 / len(masses) for label in masses}
    return {label: mass / total for label, mass in masses.items()}
