"""Several classifiers as one, calibrated: the river face of `combine_forecasts`."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from river import base, linear_model, naive_bayes

from onlinecal.arrays import Floats
from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.steering import combining
from onlinecal.wrappers.combine import check_models, new_projection
from onlinecal.wrappers.labels import Label, Labels, checked_label, plain
from onlinecal.wrappers.late_labels import MOST_WAITING, LateRounds
from onlinecal.wrappers.strategies.projection import Ticket
from onlinecal.wrappers.wrapper import check_classifier


class Open(NamedTuple):
    """A round whose label has not come: what combining and the projection keep of it."""

    models: Floats
    ticket: Ticket


class CombinedClassifier(LateRounds[Open], base.Classifier):
    """Several classifiers of two labels as one whose probabilities are calibrated, with a proof.

    All learn every label. Each one's probabilities are recalibrated, all are mixed by weights that follow the
    best of them and by what they know together, and the mixture is moved to the nearest forecast that stays
    calibrated on any labels. A model that answers nothing is left out of that round. Labels may come late,
    as with `CalibratedClassifier`.

    Parameters
    ----------
    classifiers
        From 2 to 100 river classifiers that answer with probabilities. They are learnt by this one: give each
        to one wrapper only.
    slack
        As of `CalibratedClassifier`.
    most_waiting
        As of `CalibratedClassifier`.

    Attributes
    ----------
    n_rounds
        Settled rounds: labels whose forecast had been given.

    Examples
    --------
    >>> from river import datasets, linear_model, naive_bayes, preprocessing
    >>> from onlinecal import CombinedClassifier
    >>> logistic = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> model = CombinedClassifier([logistic, naive_bayes.GaussianNB()])
    >>> for x, y in datasets.Phishing():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds, len(model.weights)
    (1250, 2)
    >>> model.certificate / model.n_rounds < 0.06
    True

    References
    ----------
    docs/theory.md, Theorem 17g, whose bound for late labels is of D known beforehand; here D is the greatest
    delay so far.
    """

    def __init__(
        self,
        classifiers: Sequence[base.Classifier],
        slack: float | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        if isinstance(classifiers, (str, bytes, dict)) or not hasattr(classifiers, "__len__"):
            raise ValueError(
                f"classifiers must be a list of river classifiers, got {type(classifiers).__name__}: write "
                "CombinedClassifier([one, other])"
            )
        check_models(len(classifiers), "classifiers")
        for model in classifiers:
            check_classifier(model)
        if len({id(model) for model in classifiers}) < len(classifiers):
            raise ValueError("classifiers must be different objects, got one twice: it would learn twice")
        if slack is not None:
            check_slack(slack)
        super().__init__(most_waiting)
        self.classifiers, self.slack = classifiers, slack
        self._labels = Labels()
        self._state = combining.new_combining(len(classifiers))
        self._projection = new_projection(slack)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifiers": [linear_model.LogisticRegression(), naive_bayes.GaussianNB()]}

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """A fresh one with fresh models, which nothing was learnt by; see `river.base.Base.clone`.

        Parameters
        ----------
        new_params
            Parameters in place of its own.
        include_attributes
            Whether attributes that are no parameters are copied, too.
        """
        fresh = [
            model.clone() if hasattr(model, "clone") else copy.deepcopy(model) for model in self.classifiers
        ]
        return super().clone({"classifiers": fresh, **(new_params or {})}, include_attributes)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Calibrated probabilities of the two labels; they sum to 1.

        Empty while neither the models nor the stream have named a label.
        """
        answers = [model.predict_proba_one(x, **kwargs) for model in self.classifiers]
        self._open(x)
        p = self._projection.ask(self._combined(answers))
        named: dict[Label, float] = {label: p for answer in answers for label in answer}
        return self._labels.both(named, p)

    @property
    def weights(self) -> list[float]:
        """How much each classifier counted in the answer that was given or settled last, in their order.

        They sum to 1; all are 0 if none of the models answered.
        """
        found = np.empty(len(self.classifiers))
        combining.weights_of(self._state, found)
        return [float(weight) for weight in found]

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds."""
        return self._projection.certificate

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels."""
        return self._projection.guarantee

    def _read(self, y: Any) -> int:
        label = plain(checked_label(y))
        if self._labels.pair is not None and label not in self._labels.pair:
            raise ValueError(
                f"y must be one of the two labels {self._labels.pair!r}, got {y!r}: for more labels wrap one "
                "model in CalibratedClassifier"
            )
        self._labels.meet(label)
        return int(label == self._labels.positive)

    def _combined(self, answers: list[dict[Label, float]]) -> float:
        """What is made of the models' answers; its ticket is left in the state."""
        row = np.array([self._labels.read(answer) if answer else math.nan for answer in answers])
        return combining.ask(self._state, row)

    def _learn_alone(self, x: Any, read: int) -> None:
        """Learn to combine, by what the models would say now."""
        self._make_way()
        self._combined([model.predict_proba_one(x) for model in self.classifiers])
        combining.settle(self._state, read)

    def _settle(self, read: int) -> None:
        self._projection.settle(read)
        combining.settle(self._state, read)

    def _teach(self, x: Any, y: Any, read: int, kwargs: dict[str, Any]) -> None:
        for model in self.classifiers:
            model.learn_one(x, y, **kwargs)

    def _take(self) -> Open:
        size = combining.ticket_size(len(self.classifiers))
        return Open(self._state[:size].copy(), self._projection.ticket())

    def _present(self, forecast: Open) -> None:
        self._state[: len(forecast.models)] = forecast.models
        self._projection.present(forecast.ticket)

    def _note_late(self, others: int) -> None:
        self._projection.note_late(others)
