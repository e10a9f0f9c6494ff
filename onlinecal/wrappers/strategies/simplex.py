"""The probabilities of all labels together, as a vector.

A round is a token of `forecaster`. `_token` is written by `_answer` and `present`, and taken away when the
round is settled or taken out. `_announced` is what the last answer said; `present` leaves it. `asked` and
`events` of the base class stay empty here. A round that is given up is withdrawn, so that the forecaster has
a token open for each round that is open or waits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping

from onlinecal.arrays import Floats, Ints
from onlinecal.forecasters import SimplexAlmostOneStepAhead, SimplexForecast
from onlinecal.forecasters.simplex.run import replayed_with_certificates
from onlinecal.remarks import GuaranteeWarning
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, normalised, normalised_rows
from onlinecal.wrappers.strategies.strategy import Answer, Bounded, Settings, Strategy, WaitingRound


class Simplex(Strategy):
    """The calibrated forecast of all labels together that is nearest to the steered vector.

    Labels are discovered as they come; one that was never forecast costs at most 2, once. A slack below 1,
    too little for labels yet unknown, counts as 1; None is the forecaster's own for hints. If all labels are
    declared there are windows, too, and without horizon and window the grid tunes itself: its cells are
    finer, which hints are worth, at a smaller guarantee.
    """

    name = "simplex"
    norm = "of all classes together, a sum over the classes (l1)"
    is_over_labels = True
    _token: SimplexForecast | None = None
    """The forecast that was asked for last, while it is here."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        labels, slack, _, horizon, moments, _ = settings
        window = moments.window if moments is not None and labels.declared else None
        with warnings.catch_warnings():
            # `warn_if_empty` says so if this strategy is chosen: it is made along with all others
            warnings.simplefilter("ignore", GuaranteeWarning)
            self.forecaster = SimplexAlmostOneStepAhead(
                labels=list(labels.known) if labels.declared else None,
                horizon=horizon,
                slack=None if slack is None else max(1.0, float(slack)),
                window=window,
                hints=True,
                grid="adaptive" if horizon is None and window is None else "nested",
            )
        self._announced: Answer = {}

    def _answer(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """The answer is the joint forecast; an earlier one that was neither settled nor taken is given up.

        Labels of the hint that no outcome has had yet get no weight, unless there are no others.
        """
        hint = self._announced = self.steering.ask(answer, names)
        if self._token is not None:
            self.forecaster.withdraw(self._token)
        masses = {label: hint.get(label, 0.0) for label in self.forecaster.classes}
        self._token = self.forecaster.forecast(normalised(masses) if masses else None)
        if masses:
            self._announced = {**dict.fromkeys(hint, 0.0), **self._token.probabilities}
        return self._announced

    def forecasts(self) -> Answer:
        """The joint forecast."""
        return self._announced

    def settle(self, label: Label) -> None:
        """Charge the joint forecast that is here."""
        self.steering.learn(label)
        self.forecaster.observe(self._taken(), label)

    def take(self) -> WaitingRound:
        """The open round with its joint forecast."""
        return super().take()._replace(joint=self._taken())

    def _taken(self) -> SimplexForecast:
        token, self._token = self._token, None
        assert token is not None
        return token

    def present(self, waiting: WaitingRound) -> None:
        """Put a round back in its place, with its joint forecast."""
        super().present(waiting)
        self._token = waiting.joint

    def give_up(self, waiting: WaitingRound) -> None:
        """Its joint forecast will never be charged."""
        assert waiting.joint is not None
        self.forecaster.withdraw(waiting.joint)

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Compiled while no label is late or missing."""
        if not schedule.is_in_time:
            return super().replay(table, numbers, schedule)
        hints = normalised_rows(self.steering.replay(table, numbers, list(self.labels.known), schedule))
        return Tapes(*replayed_with_certificates(self.forecaster._run, numbers, hints))

    def bounded(self) -> Iterable[Bounded]:
        """The joint forecasts alone, once there are any: most streams of two classes never make one."""
        return (self.forecaster,) if self.forecaster.n_rounds or self.forecaster.window else ()

    def outlook(self, n_labels: int, rounds: int, is_window: bool = False) -> tuple[float, float]:
        """In l1 over the labels; the same probability for each is 2 - 2/k from each corner.

        Nothing is guaranteed of windows unless all labels are declared.
        """
        run, trivial = self.forecaster._new_run(), rounds * (2.0 - 2.0 / n_labels)
        if is_window:
            return float(run.window_promise(run.window)) if run.window else math.inf, trivial
        run.numbers = {number: number for number in range(n_labels)}
        return float(run._promise(max(run.horizon or 0, rounds))), trivial
