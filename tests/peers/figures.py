"""What packages of Python say of some inputs; runs in their environment, without onlinecal.

python tests/peers/figures.py INPUTS.json FIGURES.json
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

Figures = dict[str, float]


class Given:
    """An input as arrays."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.bins: int = given["bins"]
        self.p, self.y = np.array(given["forecasts"]), np.array(given["outcomes"])
        self.table, self.labels = np.array(given["probabilities"]), np.array(given["labels"])


def calzone(one: Given) -> Figures:
    from calzone.metrics import calculate_ece_mce
    from calzone.utils import reliability_diagram

    def error(y: Any, table: Any, column: int | None) -> float:
        right, sure, _, rows = reliability_diagram(y, table, num_bins=one.bins, class_to_plot=column)
        return calculate_ece_mce(right, sure, rows)[0]

    both = np.column_stack([1.0 - one.p, one.p])
    return {"event": error(one.y, both, 1), "confidence": error(one.labels, one.table, None)}


def evidently(one: Given) -> Figures:
    import pandas as pd
    from evidently import BinaryClassification, DataDefinition, Dataset, Report
    from evidently.metrics import LogLoss

    roles = BinaryClassification(target="y", prediction_probas="p", pos_label=1)
    frame = pd.DataFrame({"y": one.y, "p": one.p})
    data = Dataset.from_pandas(frame, data_definition=DataDefinition(classification=[roles]))
    return {"log_loss": Report([LogLoss()]).run(data, None).dict()["metrics"][0]["value"]}


def mapie(one: Given) -> Figures:
    from mapie.metrics.calibration import expected_calibration_error, top_label_ece

    right = (one.table.argmax(axis=1) == one.labels).astype(int)
    return {
        "event": expected_calibration_error(one.y, one.p, num_bins=one.bins),
        "confidence": expected_calibration_error(right, one.table, num_bins=one.bins),
        "classwise": expected_calibration_error(
            right, one.table, num_bins=one.bins, classwise=True, class_labels=one.labels
        ),
        "top_label": top_label_ece(one.labels, one.table, num_bins=one.bins),
    }


def mcgrad(one: Given) -> Figures:
    from mcgrad.metrics import expected_calibration_error, soft_label_log_loss

    return {
        "event": expected_calibration_error(one.y, one.p, num_bins=one.bins),
        "log_loss": soft_label_log_loss(one.y, one.p),
    }


def model_diagnostics(one: Given) -> Figures:
    from model_diagnostics.scoring import SquaredError, decompose

    found = decompose(one.y, one.p, scoring_function=SquaredError()).row(0, named=True)
    return {"brier": found.pop("score"), **found}


def netcal(one: Given) -> Figures:
    from netcal.metrics import ECE

    measure = ECE(bins=one.bins).measure
    return {"event": measure(one.p, one.y), "confidence": measure(one.table, one.labels)}


def pycalib(one: Given) -> Figures:
    from pycalib.metrics import binary_ECE, classwise_ECE, conf_ECE

    return {
        "event": binary_ECE(one.y, one.p, bins=one.bins),
        "confidence": conf_ECE(one.labels, one.table, bins=one.bins),
        "classwise": classwise_ECE(np.eye(one.table.shape[1])[one.labels], one.table, bins=one.bins),
    }


def relplot(one: Given) -> Figures:
    from relplot.metrics import binnedECE, multiclass_logits_to_confidences

    top = multiclass_logits_to_confidences(one.table, one.labels, probs=True)
    return {"event": binnedECE(one.p, one.y, one.bins), "confidence": binnedECE(*top, one.bins)}


def river(one: Given) -> Figures:
    from river.metrics import LogLoss

    loss = LogLoss()
    for p, y in zip(one.p.tolist(), one.y.tolist(), strict=True):
        loss.update(bool(y), p)
    return {"log_loss": loss.get()}


def scikit_learn(one: Given) -> Figures:
    from sklearn.metrics import brier_score_loss, log_loss

    return {"brier": brier_score_loss(one.y, one.p), "log_loss": log_loss(one.y, one.p)}


def scores(one: Given) -> Figures:
    import xarray as xr
    from scores.probability import brier_score

    return {"brier": brier_score(*(xr.DataArray(column, dims="t") for column in (one.p, one.y))).item()}


def scoringrules(one: Given) -> Figures:
    from scoringrules import brier_score, log_score

    return {"brier": brier_score(one.y, one.p).mean(), "log_loss": log_score(one.y, one.p).mean()}


def torchmetrics(one: Given) -> Figures:
    import torch
    from torchmetrics.functional.classification import (
        binary_calibration_error,
        multiclass_calibration_error,
    )

    # lists become tensors of float32
    p, table = torch.tensor(one.p.tolist()), torch.tensor(one.table.tolist())
    event = binary_calibration_error(p, torch.tensor(one.y), n_bins=one.bins)
    top = multiclass_calibration_error(
        table, torch.tensor(one.labels), num_classes=table.shape[1], n_bins=one.bins
    )
    return {"event": event.item(), "confidence": top.item()}


def uncertainty_calibration(one: Given) -> Figures:
    from calibration import get_ece

    return {
        "event": get_ece(one.p, one.y, num_bins=one.bins),
        "confidence": get_ece(one.table, one.labels, num_bins=one.bins),
        "classwise": get_ece(one.table, one.labels, num_bins=one.bins, mode="marginal"),
    }


PACKAGES: dict[str, Callable[[Given], Figures]] = {
    "calzone-tool": calzone,
    "evidently": evidently,
    "mapie": mapie,
    "mcgrad": mcgrad,
    "model-diagnostics": model_diagnostics,
    "netcal": netcal,
    "pycalib": pycalib,
    "relplot": relplot,
    "river": river,
    "scikit-learn": scikit_learn,
    "scores": scores,
    "scoringrules": scoringrules,
    "torchmetrics": torchmetrics,
    "uncertainty-calibration": uncertainty_calibration,
}


def smooth_error(one: Given) -> Figures:
    from relplot.metrics import smECE

    return {"smECE": smECE(one.p, one.y)}


def kuiper(one: Given) -> Figures:
    from mapie.metrics.calibration import kuiper_statistic

    return {"kuiper_statistic": kuiper_statistic(one.y, one.p)}


def cumulative(one: Given) -> Figures:
    from mcgrad.metrics import ecce

    return {"ecce": ecce(one.y, one.p)}


def kernel_error(one: Given) -> Figures:
    from netcal.metrics import MMCE

    return {"MMCE": MMCE().measure(one.p, one.y)}


def brier_of_classes(one: Given) -> Figures:
    from pycalib.metrics import brier_score

    return {"brier_score": brier_score(np.eye(one.table.shape[1])[one.labels], one.table)}


def classes_and_singles(one: Given) -> Figures:
    from sklearn.metrics import brier_score_loss, log_loss

    return {
        "brier_score_loss": brier_score_loss(one.labels, one.table),
        "log_loss": log_loss(one.y, one.p.astype(np.float32)),
    }


def debiased(one: Given) -> Figures:
    from calibration import get_calibration_error

    return {"get_calibration_error": get_calibration_error(one.p, one.y)}


APART: dict[str, Callable[[Given], Figures]] = {
    "mapie": kuiper,
    "mcgrad": cumulative,
    "netcal": kernel_error,
    "pycalib": brier_of_classes,
    "relplot": smooth_error,
    "scikit-learn": classes_and_singles,
    "uncertainty-calibration": debiased,
}
"""What has a name like one of ours and is something else: of the first input."""


def numbers(figures: Figures) -> Figures:
    """The same as plain numbers."""
    return {name: float(value) for name, value in figures.items()}


def main() -> None:
    """Each package's version, its figures by input, and what stands apart."""
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        inputs = [Given(one) for one in json.load(file)]
    answers = {}
    for name, figures in PACKAGES.items():
        print(name, flush=True)
        with np.errstate(all="ignore"):
            rows = [numbers(figures(one)) for one in inputs]
            apart = numbers(APART[name](inputs[0])) if name in APART else {}
        answers[name] = {"version": version(name), "figures": rows, "apart": apart}
    with open(sys.argv[2], "w") as file:
        json.dump(answers, file)


main()
