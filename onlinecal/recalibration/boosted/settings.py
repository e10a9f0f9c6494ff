"""What a BoostedRecalibrator's parameters amount to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from onlinecal.recalibration.groups.start import STARTS
from onlinecal.validation import check_choice, check_count, check_number, check_positive, check_share

if TYPE_CHECKING:
    from onlinecal.recalibration.boosted.recalibrator import BoostedRecalibrator

Step = Literal["log-odds", "level sets"]
STEPS: tuple[Step, ...] = get_args(Step)

ALPHA, BOUND, MIN_ROWS = 0.01, 1.0, 20


class Settings(NamedTuple):
    """m, what a round must gain, the bound on h^2, the least rows of a level set; folds or None."""

    n_levels: int
    least: float
    bound: float
    min_rows: int
    n_folds: int | None


def settings_of(model: BoostedRecalibrator) -> Settings:
    """Check all parameters, and fill in those that are None."""
    check_count(model.seed, "seed", least=0)
    check_choice(model.step, STEPS, "step")
    check_choice(model.start, STARTS, "start")
    folds = None if model.n_folds is None else check_count(model.n_folds, "n_folds", least=2)
    if model.step == "log-odds":
        for name in ("alpha", "bound", "min_rows", "n_levels", "validation_fraction"):
            if getattr(model, name):
                raise ValueError(
                    f"{name} goes with step='level sets', as of BoostedRecalibrator.as_in_paper, "
                    f"got {getattr(model, name)!r} with step='log-odds'"
                )
        return Settings(0, 0.0, 1.0, 0, folds)
    alpha = ALPHA if model.alpha is None else check_share(model.alpha, "alpha")
    bound = BOUND if model.bound is None else check_positive(model.bound, "bound")
    least = MIN_ROWS if model.min_rows is None else check_count(model.min_rows, "min_rows")
    check_number(model.validation_fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    if model.n_levels is not None:
        m = check_count(model.n_levels, "n_levels", most=1 << 20)
    else:
        m = max(math.ceil(2.0 * bound / alpha - 1e-9), 1)
    if m > 1 << 20:
        raise ValueError(f"bound/alpha must be at most {1 << 19}, got {bound!r}/{alpha!r}")
    return Settings(m, alpha / (2.0 * bound), bound, least, folds)
