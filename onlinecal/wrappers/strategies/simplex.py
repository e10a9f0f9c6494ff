"""The probabilities of all labels together, as a vector.

One stream of (probabilities of several labels, label) turned into jointly calibrated forecasts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.forecasters import SimplexAlmostOneStepAhead, SimplexForecast
from onlinecal.forecasters.simplex.replaying import replayed_with_certificates
from onlinecal.remarks import GuaranteeWarning
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels, normalised, normalised_rows
from onlinecal.wrappers.strategies.projection import Buckets
from onlinecal.wrappers.strategies.strategy import (
    Answer,
    Asked,
    Bounded,
    Outlook,
    SteeredVectors,
    Strategy,
    Waiting,
)


class JointProjection:
    """The calibrated forecast of all labels together that is nearest to a hint.

    Labels are discovered as they come; one that was never forecast costs at most 2, once.

    Parameters
    ----------
    slack, horizon
        As in SimplexAlmostOneStepAhead; a slack below 1, too little for labels yet unknown, counts as 1.
        None is the forecaster's own for hints.
    declared
        All labels, if they are known beforehand. Without horizon and window the grid tunes itself: its cells
        are finer, which hints are worth, at a smaller guarantee.
    window
        Keep a certificate of the last so many rounds, too; only with all labels declared.

    Attributes
    ----------
    forecaster
        The forecaster, whose classes are the labels that have come.
    announced
        The forecast that was asked for last.
    """

    def __init__(
        self,
        slack: float | None,
        horizon: int | None,
        declared: Sequence[Label] = (),
        window: int | None = None,
    ) -> None:
        given = None if slack is None else max(1.0, float(slack))
        settings: dict[str, Any] = {"labels": list(declared) or None, "horizon": horizon, "window": window}
        if horizon is window is None:
            settings["grid"] = "adaptive"
        with warnings.catch_warnings():
            # said, where it is so, by those who choose this strategy: it is made along with all others
            warnings.simplefilter("ignore", GuaranteeWarning)
            self.forecaster = SimplexAlmostOneStepAhead(slack=given, hints=True, **settings)
        self._token: SimplexForecast | None = None
        self.announced: dict[Label, float] = {}

    def ask(self, hint: dict[Label, float]) -> dict[Label, float]:
        """Issue a forecast; an earlier one that was neither settled nor taken is given up.

        Labels of the hint that no outcome has had yet get no weight, unless there are no others.
        """
        if self._token is not None:
            self.forecaster.withdraw(self._token)
        known = self.forecaster.classes
        masses = {label: hint.get(label, 0.0) for label in known}
        self._token = self.forecaster.forecast(normalised(masses) if masses else None)
        self.announced = hint
        if masses:
            self.announced = {**dict.fromkeys(hint, 0.0), **self._token.probabilities}
        return self.announced

    def settle(self, label: Label) -> None:
        """Charge the forecast that is here with its label."""
        assert self._token is not None
        self.forecaster.observe(self._token, label)
        self._token = None

    def take(self) -> SimplexForecast:
        """Hand out the forecast that is here, to wait for its label elsewhere."""
        assert self._token is not None
        token, self._token = self._token, None
        return token

    def present(self, token: SimplexForecast) -> None:
        """Put a forecast back in its place, to be settled next."""
        self._token = token

    def replay(self, hints: NDArray[np.float64], numbers: NDArray[np.int64]) -> Tapes:
        """Ask and settle row by row, all labels being declared: hints (T, k), which of these came (T,)."""
        return Tapes(*replayed_with_certificates(self.forecaster._run, numbers, normalised_rows(hints)))

    def promise(self, n_labels: int, rounds: int) -> float:
        """What the certificate could not exceed after so many rounds with so many labels."""
        run = self.forecaster.new_run()
        run.numbers = {number: number for number in range(n_labels)}
        return float(run.promise(max(run.horizon or 0, rounds)))

    def window_promise(self) -> float | None:
        """What the certificate of no window could exceed; None if it keeps none."""
        return self.forecaster.new_run().window_guarantee

    @property
    def certificate(self) -> float:
        """Proven bound on the distance to calibration of the settled forecasts, in l1 over the labels."""
        return self.forecaster.certificate

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed."""
        # most streams of two classes never ask it
        return self.forecaster.guarantee if self.forecaster.n_rounds else 0.0

    @property
    def window_certificate(self) -> float:
        """The same for the rounds of the window, 0 if there is none."""
        return self.forecaster.window_certificate or 0.0

    @property
    def window_guarantee(self) -> float:
        """What the distance of no window can exceed."""
        return self.forecaster.window_guarantee or 0.0


class Simplex(Strategy):
    """A joint forecast near to the steered vector.

    Attributes
    ----------
    joint
        Makes the joint forecasts.
    """

    name = "simplex"
    norm = "of all classes together, a sum over the classes (l1)"
    is_over_labels = True

    def __init__(
        self,
        slack: float | None,
        n_buckets: Buckets,
        horizon: int | None,
        declared: Sequence[Label] = (),
        steering: SteeredVectors | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(1.0, n_buckets, horizon, steering=steering)
        self.joint = JointProjection(slack, horizon, declared, window)

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The answer is the joint forecast as it is."""
        return (), self.joint.ask(dict(self.hints(answer, names)))

    def forecasts(self, asked: Asked, labels: Labels) -> Answer:
        """The joint forecast."""
        return self.joint.announced

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the joint forecast that is here; the hints learn."""
        super().settle(asked, label, labels)
        self.joint.settle(label)

    def take(self, asked: Asked) -> Waiting:
        """The open round with its joint forecast."""
        return super().take(asked)._replace(joint=self.joint.take())

    def present(self, waiting: Waiting) -> None:
        """Put a round back in its place, with its joint forecast."""
        super().present(waiting)
        assert waiting.joint is not None
        self.joint.present(waiting.joint)

    def give_up(self, waiting: Waiting) -> None:
        """Its joint forecast will never be charged."""
        assert waiting.joint is not None
        self.joint.forecaster.withdraw(waiting.joint)

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Compiled while no label is late."""
        if schedule.most_late:
            return super().replay(table, numbers, labels, schedule)
        return self.joint.replay(self.replay_hints(table, numbers, labels, schedule), numbers)

    def bounded(self) -> Iterable[Bounded]:
        """The joint forecasts alone; where labels are discovered it plays no rounds if there is a window."""
        return (self.joint,)

    def outlook(self, n_labels: int, rounds: int) -> Outlook:
        """In l1 over the labels; the same probability for each is 2 - 2/k from each corner."""
        return Outlook(self.joint.promise(n_labels, rounds), rounds * (2.0 - 2.0 / n_labels))

    def window_outlook(self, n_labels: int, window: int) -> Outlook | None:
        """The same of any window, where all labels are declared."""
        promised = self.joint.window_promise()
        return None if promised is None else Outlook(promised, window * (2.0 - 2.0 / n_labels))
