"""Any river classifier, with probabilities calibrated inside groups of rounds, and certificates by group."""

from __future__ import annotations

from typing import Any, Literal, get_args

from river import base, linear_model

from onlinecal.forecasters.binary.cells import REPORTS, Report
from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.forecasters.simplex.input import check_label
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.groups.forecasters import (
    EVERYONE,
    AtomForecaster,
    Groups,
    Membership,
    SharedForecaster,
)
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.late_labels import MOST_WAITING, NOTHING, LateLabels

Scheme = Literal["atoms", "shared"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


class GroupCalibratedClassifier(LateLabels[Any]):
    """Wrap a river classifier: its probabilities stay calibrated inside every group, whatever labels come.

    Parameters
    ----------
    classifier
        The model to wrap.
    groups
        Names and functions of the features, {"young": lambda x: x["age"] < 9}, or columns, ["sex", "region"],
        the values of which are the groups. Groups may overlap. The group "everyone" is always added.
    scheme
        "atoms": one Almost-One-Step-Ahead for each combination of groups that occurs. Every group, and every
        union of combinations, has a distance to calibration of at most sqrt(A T), up to constants, where A
        combinations share T rounds. Disjoint groups are their own combinations. "shared": one table for all
        groups, whose guarantee, (k T^2)^(1/3) for rounds with at most k groups (counting everyone), does not
        depend on how many combinations there are: for many overlapping groups.
    horizon
        How many rounds will be played, if known. The scheme "atoms" then also needs to know how many
        combinations to expect, `n_atoms`; by default as many as there are functions.
    n_atoms
        See `horizon`.
    slack, report
        As in AlmostOneStepAhead. With 1/2 and "midpoint", the defaults, and a horizon the constants are those
        above: exactly sqrt(A T) and (k T^2)^(1/3). Without a horizon sqrt(3 A T), and under 5/6 more for each
        combination.
    most_waiting
        How many forecasts may wait for their labels, of 1 KB each; beyond that the oldest are given up.

    Attributes
    ----------
    n_rounds
        Settled rounds.
    n_unmatched
        Labels that came without their forecast.

    Notes
    -----
    The forecast is that of the positive label (True, 1, or the first label seen); any other label counts as
    the other outcome. Until both labels are known an answer may name one alone, with probability 1, which is
    what is certified then; an empty answer is no forecast and is not charged. The model's probability is
    steered first (as in CalibratedClassifier): inside each combination under "atoms", for all rounds
    together under "shared".

    Late labels find their forecasts by tokens (`forecast`, `observe`), or by equal features, and labels
    without a forecast settle nothing, as in CalibratedClassifier, which says what is assumed. Under "atoms"
    steering learns from them in combinations that have been asked about.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> model = GroupCalibratedClassifier(
    ...     preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    ...     groups=["ip_in_url", "age_of_domain"],
    ... )
    >>> for x, y in datasets.Phishing():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.rounds["ip_in_url=1"], model.certificates["ip_in_url=1"] < model.guarantees["ip_in_url=1"]
    (142, True)

    References
    ----------
    docs/recalibrate-groups.md, which has both proofs.
    """

    def __init__(
        self,
        classifier: base.Classifier,
        groups: Groups,
        scheme: Scheme = "atoms",
        horizon: int | None = None,
        n_atoms: int | None = None,
        slack: float = 0.5,
        report: Report = "midpoint",
        most_waiting: int = MOST_WAITING,
    ) -> None:
        super().__init__(classifier, most_waiting)
        check_choice(scheme, SCHEMES, "scheme")
        check_choice(report, REPORTS, "report")
        check_slack(slack)
        membership = Membership(groups)
        if horizon is not None:
            check_count(horizon, "horizon")
            if scheme == "atoms" and n_atoms is None and not membership.names:
                raise ValueError("n_atoms is needed beside a horizon when groups are columns, got None")
        if n_atoms is not None:
            check_count(n_atoms, "n_atoms")
        self.groups = groups
        self.scheme = scheme
        self.horizon = horizon
        self.n_atoms = n_atoms
        self.slack = slack
        self.report = report
        self._membership = membership
        self._forecaster: AtomForecaster | SharedForecaster
        if scheme == "atoms":
            atoms = n_atoms or len(membership.names) or None
            self._forecaster = AtomForecaster(slack, report, horizon, atoms)
        else:
            self._forecaster = SharedForecaster(slack, report, horizon, membership.most)
        self._ticket: Any = None

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifier": linear_model.LogisticRegression(), "groups": {"any": bool}}

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Calibrated probabilities of the labels known so far; they sum to 1."""
        answer = self.classifier.predict_proba_one(x, **kwargs)
        members = self._membership.of(x)
        if x is not self._features:
            if self._features is not NOTHING:
                self._make_way()
            self._features = x
        self._ticket = self._forecaster.ask(members, self._labels.read(answer))
        given = self._labels.both(answer, self._ticket.probability)
        if not given:
            self._ticket = None
        elif len(given) == 1:
            self._ticket = self._ticket.given(1.0)
        return given

    def forecasts_one(self, x: Any) -> dict[Label, float]:
        """The forecast that the certificates speak of: the probability of the positive label."""
        self.predict_proba_one(x)
        positive = True if self._labels.positive is None else self._labels.positive
        return {} if self._ticket is None else {positive: self._ticket.probability}

    def _learn(self, asked: Any, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        label = check_label(y, "y")
        ticket = self._due(asked)
        self._labels.meet(label)
        outcome = int(label == self._labels.positive)
        if ticket is not None:
            self._forecaster.settle(ticket, outcome)
            self.n_rounds += 1
        else:
            raw = self._labels.read(self.classifier.predict_proba_one(x))
            self._forecaster.learn_alone(self._membership.of(x), raw, outcome)
        self.classifier.learn_one(x, y, **kwargs)

    @property
    def rounds(self) -> dict[str, int]:
        """Settled rounds of each group that has been asked about, and of everyone."""
        return self._forecaster.rounds()

    @property
    def certificates(self) -> dict[str, float]:
        """Proven upper bounds on each group's distance to calibration so far, sums over its rounds."""
        return self._forecaster.certificates()

    @property
    def guarantees(self) -> dict[str, float]:
        """What each group's certificate cannot exceed, whatever the labels."""
        return self._forecaster.guarantees()

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of all rounds so far, a sum."""
        return self.certificates[EVERYONE]

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels."""
        return self.guarantees[EVERYONE]

    def _hand_out(self) -> Any:
        return self._ticket

    def _note_late(self, others: int) -> None:
        self._forecaster.note_late(others)
