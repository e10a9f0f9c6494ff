"""What wrappers share that settle a late label with the forecast that was made for its features."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from river import base

from onlinecal.wrappers.pending import NOTHING, Pending

T = TypeVar("T")


class LateLabels(base.Wrapper, base.Classifier, Generic[T]):
    """A wrapper that has at most one open round, that of the features it was asked about last.

    When it is asked about others, the open round waits; a label settles the oldest round that waits for equal
    features. Subclasses open the rounds (`predict_proba_one`), and hand out what is to wait of one.

    A subclass tests `x is self._features` and `self._features is NOTHING` itself: a call would cost too much.
    """

    classifier: base.Classifier

    def __init__(self) -> None:
        self._pending: Pending[T] = Pending()
        self._features: Any = NOTHING
        """The features of the open round, NOTHING while there is none."""
        self._most_open = 0
        """How many forecasts have waited at once while another was made."""

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @abstractmethod
    def _hand_out(self) -> T:
        """The forecast of the open round."""

    def _give_up(self, forecast: T) -> None:
        """A forecast that waited will never be settled."""

    def _put_aside(self) -> None:
        """Let the open round, if there is one, wait for a late label."""
        if self._features is not NOTHING:
            given_up = self._pending.add(self._features, self._hand_out())
            self._features = NOTHING
            if given_up is not None:
                self._give_up(given_up)

    def _make_way(self) -> None:
        """Let the open round wait, since another one is about to be opened."""
        self._put_aside()
        self._count_open()

    def _count_open(self) -> None:
        self._most_open = max(self._most_open, len(self._pending))

    def _late(self, x: Any) -> T | None:
        """The oldest forecast that waits for the label of these features, to be settled now.

        If there is none, a round is opened for them.
        """
        self._put_aside()
        forecast = self._pending.take(x) if len(self._pending) else None
        if forecast is None:
            self._make_way()
            self.predict_proba_one(x)
        return forecast
