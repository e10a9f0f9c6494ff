"""Methods side by side on one file: who takes part, on which rows, and by which scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.cli.recalibrating import boost, decision, groups, lp
from onlinecal.cli.recalibrating.decision import ACTIONS, SEED
from onlinecal.cli.recalibrating.groups import GroupColumns
from onlinecal.cli.recalibrating.jobs import (
    Map,
    Split,
    fitted_map,
    isotonic_map,
    read_labelled,
    read_new_events,
    read_new_table,
    read_settled,
    read_split,
    written_rows,
)
from onlinecal.cli.recalibrating.options import Rows, Settings
from onlinecal.cli.recalibrating.report import NONE
from onlinecal.cli.recalibrating.scores import (
    Score,
    class_scores_of,
    confidences,
    event_scores_of,
    worst_group,
)
from onlinecal.cli.recalibrating.tables import Part, recognise
from onlinecal.recalibration.classical.linear import VectorScaling, chosen_dirichlet
from onlinecal.recalibration.classical.temperature import (
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
)
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator
from onlinecal.tables import read_frame

Method = Callable[[Part], Map]
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
        NONE: lambda _: lambda part: part.told,
        "temperature": _fitted(TemperatureScaling),
        "vector": _fitted(VectorScaling),
        "top-label": _fitted(TopLabelIsotonic),
        "isotonic": _fitted(PerClassIsotonic),
        "dirichlet": _fitted(lambda: chosen_dirichlet(seed)),
        "lp": _fitted(lambda: lp.new_model(Settings(), seed)),
        "decision": _fitted(lambda: decision.new_model(Settings(), None, seed)),
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
    return lambda part: fitted_map(make(), part)


def event_methods(settings: Settings, seed: int) -> tuple[dict[str, Method], dict[str, str]]:
    """The methods for a column of forecasts, and which others are left out, with the reason."""
    methods: dict[str, Method] = {
        NONE: lambda _: lambda part: part.told,
        "platt": platt_map,
        "beta": beta_map,
        "isotonic": isotonic_map,
    }
    left_out = {}
    if settings.group:
        names = [*settings.group]
        methods["groups"] = lambda part: group_map(part, names, seed)
    else:
        left_out["groups"] = "--group names columns of groups"
    if settings.features is None:
        left_out["boost"] = "--features names columns of features"
    else:
        methods["boost"] = lambda part: boost_map(part, settings, seed)
    return methods, left_out


def platt_map(fit: Part) -> Map:
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


def beta_map(fit: Part) -> Map:
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


def group_map(fit: Part, names: list[str], seed: int) -> Map:
    """Multicalibration for the groups of some columns."""
    columns = GroupColumns.of(fit.frame, names)
    model = groups.new_model(Settings(), seed)
    model.fit(fit.told, fit.settled, columns(fit.frame))
    return lambda part: np.asarray(model.predict(part.told, columns(part.frame)))


def boost_map(fit: Part, settings: Settings, seed: int) -> Map:
    """Boosting with some columns as features, from the forecasts."""
    names = boost.feature_names(fit.frame, settings)
    model = boost.new_model(settings, seed)
    model.fit(boost.feature_table(fit.frame, names), fit.settled, fit.told)
    return lambda part: np.asarray(model.predict(boost.feature_table(part.frame, names), part.told))


N_LOSSES = 100
"""Gaussian losses of the decision gap."""
WORST_GROUP = "worst group"


@dataclass(frozen=True, eq=False)
class Comparison:
    """One file, and everything that is to be compared on it.

    Attributes
    ----------
    file, contents
        Its name, and what it is taken for.
    take
        Some rows, as a part of this name.
    split
        Which rows are fitted and tested.
    width
        Numbers a row.
    methods, left_out
        Who takes part, the simplest first; and who does not, with the reason.
    scores
        From what a map makes of a part, the part, and the numbers of its rows, to the scores by name.
    purposes
        The score by which a purpose is served.
    written
        The rows of a part, with what a map makes of them.
    new
        The rows of the file of --apply, if any.
    remarks
        What looks wrong in the labels.
    """

    file: str
    contents: str
    take: Callable[[str, Ints], Part]
    split: Split
    width: int
    methods: dict[str, Method]
    left_out: dict[str, str]
    scores: Callable[[Floats, Part, Ints], dict[str, Score]]
    purposes: dict[str, str]
    written: Callable[[Part, Floats], pl.DataFrame]
    new: Part | None
    remarks: list[str]


def read_comparison(file: Path, rows: Rows, settings: Settings) -> Comparison:
    """The methods for a table of class probabilities, or for a column of forecasts of one event."""
    of_classes, settings = recognise(file, settings)
    features = boost.named_features(settings.features) if settings.features is not None else []
    further = [*settings.group, *features]
    classes: tuple[str, ...] = ()
    if of_classes:
        everything, classes, remarks = read_labelled(file, settings)
    else:
        everything, remarks = read_settled(file, settings, further)
    k = len(classes)
    split = read_split(len(everything), rows, file, in_turn=True)
    if of_classes:
        methods, left_out = class_methods(len(split.folds[0][0]), k, rows.seed, settings.choose)
    else:
        methods, left_out = event_methods(settings, rows.seed)
    members = group_members(file, settings.group, len(everything))
    losses = gaussian_losses(ACTIONS, k or 2, N_LOSSES, SEED)
    usual = LpRecalibrator()
    p, n_levels = usual.p, usual.n_levels or 5

    def scores(mapped: Floats, part: Part, numbers: Ints) -> dict[str, Score]:
        labels = part.settled
        if of_classes:
            found = class_scores_of(mapped, labels, p, n_levels, losses)
        else:
            found = event_scores_of(mapped, labels, losses)
        if members is not None:
            event = confidences(mapped, labels) if of_classes else (mapped, labels)
            found[WORST_GROUP] = worst_group(event[0], event[1], members[numbers])
        return found

    new = None
    if rows.apply is not None and of_classes:
        new = read_new_table(rows.apply, settings, file, classes)
    elif rows.apply is not None:
        new = read_new_events(rows.apply, settings, further)
    return Comparison(
        file=file.name,
        contents=(
            f"probabilities of {k} classes"
            if of_classes
            else f"{settings.forecast} as forecasts of {settings.outcome}"
        ),
        take=everything.take,
        split=split,
        width=k or 1,
        methods=methods,
        left_out=left_out,
        scores=scores,
        purposes={
            "probabilities": "log loss",
            **({"the top label": "top-label ECE"} if of_classes else {}),
            "decisions": "decision gap",
            **({} if members is None else {"groups": WORST_GROUP}),
        },
        written=lambda part, after: written_rows(part, part.told, after, classes),
        new=new,
        remarks=remarks,
    )


def group_members(file: Path, names: Sequence[str], n_rows: int) -> Bools | None:
    """Who is in which group that columns make, shape (n, G): everyone, each value, each pair of values."""
    if not names:
        return None
    frame = read_frame(file, names)
    if frame.height != n_rows:
        raise ValueError(f"{file}: --group {names[0]} has {frame.height:,} values for {n_rows:,} rows")
    return GroupMaker().fit(GroupColumns.of(frame, [*names])(frame), n_rows)
