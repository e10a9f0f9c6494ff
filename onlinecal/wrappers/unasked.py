"""Labels that no forecast waits for, and forecasts that get no labels: what is refused, or remarked on.

Three fields are written here alone: `_missed`, the last label that came for other values than those that were
asked about, and `_has_warned` and `_has_warned_of_silence`, which turn True once and stay so. `_settled` is
written by `LateRounds`, which with `expiry.py` writes the counts, too; these are only read here. Nothing here
changes a forecast or a certificate. In `learn_one` and `observe`, not in `warm_up`, `LateRounds` calls
`_refuse_changed_features` and then `_remark_on_miss` before it learns and counts a label that no forecast
waits for. Texts may be changed freely.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from onlinecal.remarks import warn_of
from onlinecal.wrappers.waiting import NOTHING, WaitingForecasts, features_key

MANY_WAITING = 100
"""When so many forecasts wait and no label has come at all, that is remarked on."""


class UnaskedLabels:
    """What a wrapper says of labels that no forecast waits for, and of silence."""

    n_rounds: int
    n_unmatched: int
    most_waiting: int
    _waiting: WaitingForecasts
    _features: Any
    _n_withdrawn: int
    _n_expired = 0
    _settled: Any = NOTHING
    """What was asked about in the round that was settled last."""
    _missed: Missed | None = None
    _has_warned = False
    _has_warned_of_silence = False

    @property
    @abstractmethod
    def n_open(self) -> int:
        """How many rounds wait for their label, or target, the one that was asked about last included.

        With `expire_as` (of CalibratedClassifier) those count, too, whose label has come but whose time is
        not over; and so do questions that got an empty answer. Forecasts that were given up do not count.
        """

    def _note_batch(self) -> None:
        """Let a batch count as one label when it is asked whether the next label is missed, too."""
        if self._missed is not None and self._missed.n_rounds == self.n_rounds:
            self._missed = self._missed._replace(n_unmatched=self.n_unmatched - 1)

    def _refuse_changed_features(self, asked: Any) -> None:
        """ValueError for the second label running that comes after a question with other values.

        A row that nobody asked about may be learnt at any time, to warm up. But whoever asks and then brings
        a label for other values of the same features, twice running, means the rows that were asked about.
        """
        question, last = self._features, self._missed
        if not isinstance(asked, Mapping) or not isinstance(question, Mapping) or set(asked) != set(question):
            return
        if self._waiting.n_given_up or self._n_expired or self._n_withdrawn or _has_nan(asked):
            return  # labels of such forecasts may still come; a NaN is remarked on
        if last is not None and features_key(last.question) == features_key(question):
            return  # a label came in between, or one looks again and again at the same features
        now = Missed(question, asked, self.n_rounds, self.n_unmatched)
        if last is not None and now.comes_after(last):
            raise ValueError(
                "x must have the features that were asked about, got others under the same names, twice "
                "running: something in front of this wrapper, such as a scaler, learns between the question "
                f"and the label. Put the wrapper around the whole pipeline: {type(self).__name__}(scaler | "
                "model); or ask by forecast and settle by observe. Rows that were not asked about are learnt "
                "by warm_up"
            )
        self._missed = now

    def _remark_on_miss(self, asked: Any) -> None:
        """Say once that a label came that no forecast waits for, unless nothing has been forecast yet."""
        given_up = self._waiting.n_given_up
        if self._has_warned or not (self.n_rounds or self.n_open or given_up):
            return
        self._has_warned = True
        if self._settled is not NOTHING and features_key(asked) == features_key(self._settled):
            text = (
                "a label came once more for a round that it has settled: the model learns it again, and it "
                "settles nothing (n_unmatched counts such labels). An ensemble that learns rows several "
                "times, as river's BaggingClassifier, goes inside: "
                f"{type(self).__name__}(BaggingClassifier(model))"
            )
        else:
            missing = " (a NaN equals no other: None does)" if _has_nan(asked) else ""
            limit = f"; {given_up:,} were given up, since more than most_waiting={self.most_waiting:,} waited"
            text = (
                "a label came for features that no forecast waits for: the model learns it, but it settles "
                "nothing, and no certificate speaks of it (n_unmatched counts such labels). Ask before each "
                f"label, with equal features{missing}, or by tokens (forecast, observe)"
                f"{limit if given_up else ''}"
            )
        warn_of([text])

    def _remark_on_silence(self) -> None:
        """Say once that many forecasts wait, if no label has come at all."""
        if self._has_warned_of_silence or self.n_rounds or self.n_unmatched:
            return
        self._has_warned_of_silence = True
        text = (
            f"{MANY_WAITING} forecasts wait for their labels, and no label has come yet: each takes memory, "
            "and the guarantee grows with their number. Give the labels to learn_one when they come; "
            "most_waiting= and expire_after= limit how many wait. Who only wants to know what would be said "
            "asks a copy"
        )
        warn_of([text])


class Missed(NamedTuple):
    """A label that came right after a question, for other values of its features."""

    question: Any
    asked: Any
    """The features of the label."""
    n_rounds: int
    n_unmatched: int
    """So many rounds and labels without a forecast there were before."""

    def comes_after(self, last: Missed) -> bool:
        """Whether it is the next label after that one.

        A question about the row that was just learnt only looks at what has been learnt.
        """
        return (self.n_rounds, self.n_unmatched) == (last.n_rounds, last.n_unmatched + 1) and features_key(
            self.question
        ) != features_key(last.asked)


def _has_nan(x: Any) -> bool:
    """Whether a feature is NaN, which equals no other: only the object itself finds its forecast again."""
    return isinstance(x, Mapping) and any(isinstance(value, float) and value != value for value in x.values())
