"""The methods that `recalibrate` tries where none is named, simplest first: each as it is by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.cli.recalibrating import boost, decision, groups, lp
from onlinecal.cli.recalibrating.events import Events, isotonic_map
from onlinecal.cli.recalibrating.group_tables import GroupColumns
from onlinecal.cli.recalibrating.options import (
    BoostSettings,
    ChooseSettings,
    DecisionSettings,
    GroupSettings,
    LpSettings,
)
from onlinecal.cli.recalibrating.report import NONE
from onlinecal.cli.recalibrating.tables import Part
from onlinecal.recalibration.classical.isotonic import PerClassIsotonic, TopLabelIsotonic
from onlinecal.recalibration.classical.linear import VectorScaling, chosen_dirichlet
from onlinecal.recalibration.classical.temperature import TemperatureScaling

Floats = NDArray[np.float64]
Map = Callable[[Any], Floats]
Method = Callable[[Any], Map]
"""From a part with labels to a map of parts: their probabilities (n, k), or forecasts (n,)."""

MOST_DIRICHLET = 1_500_000
"""Rows to fit times classes squared, above which Dirichlet calibration would take minutes."""
MOST_DECISION = 2_000_000
"""Rows to fit times classes, above which decision recalibration would."""


def class_methods(
    n_fit: int, k: int, seed: int, wanted: str | None = None
) -> tuple[dict[str, Method], dict[str, str]]:
    """The methods for probabilities of k classes, and which others are left out, with the reason.

    What is `wanted` is tried however long it takes.
    """
    methods: dict[str, Method] = {
        NONE: lambda _: lambda part: part.table,
        "temperature": _fitted(TemperatureScaling),
        "vector": _fitted(VectorScaling),
        "top-label": _fitted(TopLabelIsotonic),
        "isotonic": _fitted(PerClassIsotonic),
        "dirichlet": _fitted(lambda: chosen_dirichlet(seed)),
        "lp": _fitted(lambda: lp.new_model(LpSettings(), seed)),
        "decision": _fitted(lambda: decision.new_model(DecisionSettings(), None, seed)),
    }
    left_out = {}
    if k == 2:
        left_out["top-label"] = "of two classes isotonic is all there is"
    if n_fit * k**2 > MOST_DIRICHLET and wanted != "dirichlet":
        left_out["dirichlet"] = (
            f"its {k * (k + 1):,} numbers take minutes to fit to {n_fit:,} rows; --choose dirichlet tries it"
        )
    if n_fit * k > MOST_DECISION and wanted != "decision":
        left_out["decision"] = f"its search takes minutes on {n_fit:,} rows; --choose decision tries it"
    return {name: one for name, one in methods.items() if name not in left_out}, left_out


def _fitted(make: Callable[[], Any]) -> Method:
    def fit(part: Part) -> Map:
        model = make().fit(part.table, part.labels)
        return lambda other: np.asarray(model.predict_proba(other.table))

    return fit


def event_methods(settings: ChooseSettings, seed: int) -> tuple[dict[str, Method], dict[str, str]]:
    """The methods for a column of forecasts, and which others are left out, with the reason."""
    methods: dict[str, Method] = {
        NONE: lambda _: lambda part: part.told,
        "platt": platt_map,
        "beta": beta_map,
        "isotonic": lambda part: isotonic_map(part),
    }
    left_out = {}
    if settings.group:
        names = settings.group
        methods["groups"] = lambda part: group_map(part, names, seed)
    else:
        left_out["groups"] = "--group names columns of groups"
    if settings.features is None:
        left_out["boost"] = "--features names columns of features"
    else:
        features = BoostSettings(settings.forecast, settings.outcome, settings.features)
        methods["boost"] = lambda part: boost_map(part, features, seed)
    return methods, left_out


def platt_map(fit: Events) -> Map:
    """A logistic curve in the log odds of the forecast (Platt, 1999)."""
    from sklearn.linear_model import LogisticRegression

    floor = least_forecast(fit.told)
    if fit.settled.min() == fit.settled.max():
        raise ValueError(f"all outcomes that are fitted are {fit.settled[0]}")

    def log_odds(forecasts: Floats) -> Floats:
        inside = forecasts.clip(floor, 1.0 - floor)
        return np.log(inside / (1.0 - inside))[:, None]

    # hardly a penalty: it keeps the slope finite where forecasts tell the outcomes without an error
    curve = LogisticRegression(C=1e4, solver="newton-cholesky").fit(log_odds(fit.told), fit.settled)
    return lambda part: curve.predict_proba(log_odds(part.told))[:, 1]


def beta_map(fit: Events) -> Map:
    """A factor for log p, one for log(1 - p), and an offset (Kull et al., 2017): vector scaling of two."""
    floor = least_forecast(fit.told)

    def of_both(forecasts: Floats) -> Floats:
        inside = forecasts.clip(floor, 1.0 - floor)
        return np.column_stack([1.0 - inside, inside])

    model = VectorScaling().fit(of_both(fit.told), fit.settled)
    return lambda part: model.predict_proba(of_both(part.told))[:, 1]


def least_forecast(forecasts: Floats) -> float:
    """What a forecast of 0 is taken for where log odds are needed: 1/(n + 1), or the least of the others."""
    both = np.minimum(forecasts, 1.0 - forecasts)
    return min(1.0 / (len(both) + 1.0), float(both[both > 0.0].min(initial=1.0)))


def group_map(fit: Events, names: list[str], seed: int) -> Map:
    """Multicalibration for the groups of some columns."""
    columns = GroupColumns.of(fit.frame, names)
    model = groups.new_model(GroupSettings(group=names), seed)
    model.fit(fit.told, fit.settled, columns(fit.frame))
    return lambda part: np.asarray(model.predict(part.told, columns(part.frame)))


def boost_map(fit: Events, settings: BoostSettings, seed: int) -> Map:
    """Boosting with some columns as features, from the forecasts."""
    names = boost.feature_names(fit.frame, settings)
    model = boost.new_model(settings, seed)
    model.fit(boost.feature_table(fit.frame, names), fit.settled, fit.told)
    return lambda part: np.asarray(model.predict(boost.feature_table(part.frame, names), part.told))
