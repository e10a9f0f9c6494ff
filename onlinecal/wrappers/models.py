"""What can be wrapped: models of river, and classifiers of scikit-learn with declared classes.

Nothing here has a state. `FromScikitLearn` holds the classifier, which alone learns, and the classes that
were declared for it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn.base
from river import base
from river.compat import SKL2RiverClassifier
from river.compose import Pipeline
from sklearn.exceptions import NotFittedError

from onlinecal.wrappers.labels import Label


def check_classifier(model: Any) -> None:
    """ValueError, saying what to do, unless the model answers with probabilities and learns online."""
    advice = (
        ": it must answer with probabilities and learn online. An estimator of scikit-learn with partial_fit "
        "and predict_proba goes into CalibratedClassifier with classes=[...]"
    )
    check_model(model, "classifier", base.Classifier, "predict_proba_one", advice)


def check_model(model: Any, role: str, kind: Any, ask: str, advice: str = "") -> None:
    """ValueError unless the model, or the last one of a pipeline, is such a one of river's and can be asked.

    A model that is none of river's will do if it can be asked and has `learn_one`.
    """
    name = getattr(model, "__name__", type(model).__name__)
    if isinstance(model, type):
        raise ValueError(f"{role} must be a model, got the class {name}: write {name}(...)")
    last = model
    while isinstance(last, Pipeline):
        last = list(last.steps.values())[-1] if last.steps else None
    is_one = isinstance(last, kind) if isinstance(last, base.Base) else hasattr(last, "learn_one")
    # river's own classes have methods that only say that there is none
    if not is_one or getattr(type(last), ask, None) is getattr(kind, ask) or not hasattr(last, ask):
        end = name if last is model else f"a pipeline that ends in {type(last).__name__}"
        raise ValueError(f"{role} must be a river {role}, got {end}{advice}")


class FromScikitLearn(SKL2RiverClassifier):
    """A scikit-learn classifier with `partial_fit`, as one of river; its clones are as yet unfitted."""

    def __init__(self, estimator: Any, classes: Sequence[Label]) -> None:
        try:
            in_order = sorted(classes)
        except TypeError as error:
            raise ValueError(
                "classes must be numbers, or texts, that scikit-learn can put in order, got "
                f"{list(classes)!r}: give them numbers or names of one kind"
            ) from error
        super().__init__(sklearn.base.clone(estimator), in_order)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # scikit-learn's stochastic gradient writes to coefficients without asking whether it may, which ends
        # the process where they are a file; a copy has memory of its own
        self.__dict__.update(state, estimator=copy.deepcopy(state["estimator"]))

    def predict_proba_many(self, X: Any) -> list[dict[Label, float]]:
        """Answers to the rows of a DataFrame or an array."""
        table = X if isinstance(X, np.ndarray) else self._align_frame(X).to_native()
        try:
            said = self.estimator.predict_proba(table)
        except NotFittedError:
            said = np.full((len(X), len(self.classes)), 1.0 / len(self.classes))
        return [dict(zip(self.classes, row, strict=True)) for row in said.tolist()]

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a DataFrame or an array."""
        if isinstance(X, np.ndarray):
            self.estimator.partial_fit(X, y, classes=self.classes)
        else:
            super().learn_many(X, y)


def for_river(classifier: Any, classes: Sequence[Label]) -> base.Classifier:
    """A classifier as river has them: one of scikit-learn is converted if its classes are declared."""
    learns = hasattr(classifier, "partial_fit") and hasattr(classifier, "predict_proba")
    of_scikit_learn = isinstance(classifier, sklearn.base.BaseEstimator)
    if len(classes) and learns and of_scikit_learn and not isinstance(classifier, base.Base):
        return FromScikitLearn(classifier, classes)
    return classifier
