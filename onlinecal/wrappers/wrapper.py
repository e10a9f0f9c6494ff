"""What wrappers around a classifier share.

`classifier` is written by the constructor, and by `BatchClassifier` while it goes through a batch.
"""

from __future__ import annotations

from typing import Any

from river import base

from onlinecal.wrappers.batches import BatchClassifier
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.models import check_classifier


class ClassifierWrapper(base.Wrapper, BatchClassifier):
    """A classifier around a classifier; ValueError if it cannot be wrapped, see `check_classifier`."""

    def __init__(self, classifier: base.Classifier) -> None:
        check_classifier(classifier)
        self.classifier = classifier

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Any:
        # only tests need it, and it takes long to load
        from river import linear_model

        yield {"classifier": linear_model.LogisticRegression()}

    def raw_proba_one(self, x: Any) -> dict[Label, float]:
        """The wrapped model's answer to the features x, as it is: its own probabilities by label.

        No round is opened, and nothing is learnt.
        """
        return self.classifier.predict_proba_one(x)
