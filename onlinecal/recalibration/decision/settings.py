"""What the parameters of a DecisionRecalibrator may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np

from onlinecal.measures.decision.errors import PARTITIONS
from onlinecal.recalibration.decision.fitting import Step
from onlinecal.validation import check_choice, check_count, check_positive

if TYPE_CHECKING:
    from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator

STEPS: tuple[Step, ...] = get_args(Step)


def check_settings(model: DecisionRecalibrator) -> None:
    """Refuse bad ones of its own; the message names the parameter and the value."""
    check_count(model.n_actions, "n_actions")
    check_positive(model.epsilon, "epsilon")
    check_choice(model.partition, PARTITIONS, "partition")
    check_choice(model.step, STEPS, "step")
    if not isinstance(model.floor, (bool, np.bool_)):
        raise ValueError(f"floor must be True or False, got {model.floor!r}")
    check_count(model.n_starts, "n_starts")
    if model.max_rounds is not None:
        check_count(model.max_rounds, "max_rounds")
