"""What can be wrapped: models of river, pipelines that end in one, and whatever can be asked as they are.

Nothing here has a state. A model is not asked anything: only its class, its methods and the steps of a
pipeline are looked at. Constructors of wrappers call these checks; a model that is exchanged later is not
checked.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from river import base
from river.compose import Pipeline


def check_classifier(model: Any, name: str = "classifier") -> None:
    """ValueError, saying what to do, unless the model answers with probabilities and learns online.

    `name` is what errors call it.
    """
    advice = "it must answer with probabilities and learn online"
    if is_one(model, "sklearn.base", "BaseEstimator") and not isinstance(model, base.Base):
        advice += (
            ". A classifier of scikit-learn with partial_fit and predict_proba goes into "
            "OnlineRecalibratedClassifier, or here after "
            f"river.compat.convert_sklearn_to_river({type(model).__name__}(...), classes=[...])"
        )
    last = check_model(model, "classifier", base.Classifier, "predict_proba_one", ": " + advice, name)
    if (
        is_one(last, "river.compat", "SKL2RiverClassifier")
        and [*last.classes] != np.unique(last.classes).tolist()
    ):
        raise ValueError(
            f"{name} must be converted from scikit-learn with classes in order, got {last.classes!r}: "
            "it would give to each class the probability of another one. Write "
            f"classes={np.unique(last.classes).tolist()}"
        )


def is_one(model: Any, module: str, name: str) -> bool:
    """Whether a model is of this class; while its module is not loaded nobody has such a model."""
    return isinstance(model, getattr(sys.modules.get(module), name, ()))


def check_model(model: Any, role: str, kind: Any, ask: str, advice: str = "", called: str = "") -> Any:
    """The model, of a pipeline the last one; ValueError unless it is such a one of river's and can be asked.

    A model that is none of river's will do if it can be asked and has `learn_one`. Errors call it `called`,
    or by its role.
    """
    name, called = getattr(model, "__name__", type(model).__name__), called or role
    if isinstance(model, type):
        raise ValueError(f"{called} must be a model, got the class {name}: write {name}(...)")
    last = model
    while isinstance(last, Pipeline):
        last = list(last.steps.values())[-1] if last.steps else None
    is_one = isinstance(last, kind) if isinstance(last, base.Base) else hasattr(last, "learn_one")
    # river's own classes have methods that only say that there is none
    if not is_one or getattr(type(last), ask, None) is getattr(kind, ask) or not hasattr(last, ask):
        end = name if last is model else f"a pipeline that ends in {type(last).__name__}"
        raise ValueError(f"{called} must be a river {role}, got {end}{advice}")
    return last
