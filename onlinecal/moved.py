"""Where the classes live that pickles of 0.1.0 name by modules of then.

A pickle names its classes by module. The modules below have moved since, and a few classes were renamed;
asked for by their old names, they answer with what they have become. Nothing else may use the old names:
they are there for files alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    ("adversaries", "adversaries.kinds"): {
        "adaptive": "adaptive",
        "bisection": "bisection",
        "genome": "genome",
        "internal": "certificate_aware",
        "mixed": "mixed",
        "mixture": "mixture",
        "oblivious": "oblivious",
    },
    ("adversaries", "adversaries.replayed"): {
        "champions": "champions",
        "recorded": "recorded",
        "streams": "streams",
    },
    ("onlinecal.forecasters", "onlinecal.forecasters.binary"): {
        "almost_one_step_ahead": "almost_one_step_ahead",
        "grid": "grid",
        "one_step_ahead": "one_step_ahead",
    },
    ("onlinecal.forecasters", "onlinecal.forecasters.simplex"): {
        "simplex_almost_one_step_ahead": "almost_one_step_ahead",
        "simplex_run": "run",
        "simplex_tokens": "tokens",
    },
    ("onlinecal.measures", "onlinecal.measures.decision"): {
        "decision": "errors",
        "decision_partitions": "partitions",
    },
    ("onlinecal.measures", "onlinecal.measures.distance"): {
        "distance": "calibration_distance",
        "multiclass_distance": "multiclass",
    },
    ("onlinecal.measures", "onlinecal.measures.distance.fractional"): {"lower": "lower"},
    ("onlinecal.measures", "onlinecal.measures.groups"): {"group_report": "report"},
    ("onlinecal.measures", "onlinecal.measures.lp"): {"multiclass": "errors"},
    ("onlinecal.recalibration", "onlinecal.recalibration.boosted"): {"boosted_recalibrator": "recalibrator"},
    ("onlinecal.recalibration", "onlinecal.recalibration.decision"): {
        "decision_compressed": "compressed",
        "decision_folds": "fitting",
        "decision_recalibrator": "recalibrator",
        "decision_rounds": "rounds",
        "losses": "losses",
    },
    ("onlinecal.recalibration", "onlinecal.recalibration.classical"): {
        "dirichlet": "dirichlet",
        "temperature": "temperature",
        "top_label": "top_label",
    },
    ("onlinecal.recalibration", "onlinecal.recalibration.groups"): {
        "group_maker": "maker",
        "group_recalibrator": "recalibrator",
        "group_repair": "repair",
    },
    ("onlinecal.recalibration", "onlinecal.recalibration.lp"): {
        "lp_algorithm": "algorithm",
        "lp_map": "map",
        "lp_recalibrator": "recalibrator",
        "lp_sizes": "sizes",
    },
    ("onlinecal.wrappers", "onlinecal.recalibration.lp"): {"level_set_counts": "counts"},
    ("onlinecal.wrappers", "onlinecal.wrappers"): {"pending": "late_labels"},
    ("onlinecal.wrappers", "onlinecal.wrappers.groups"): {
        "group_books": "forecasters",
        "group_membership": "membership",
    },
    ("onlinecal.wrappers", "onlinecal.wrappers.maps"): {
        "binned_mean": "binned_mean",
        "platt_scaling": "platt_scaling",
    },
    ("onlinecal.wrappers", "onlinecal.wrappers.strategies"): {
        "joint_projection": "joint_projection",
        "projection": "projection",
    },
    ("simulations", "simulations.games"): {
        "duel": "duel",
        "measuring": "measuring",
        "opponents": "opponents",
    },
}
"""By the package of then and that of now: modules of then, and what they are called now."""

NOW = {f"{then}.{old}": f"{now}.{new}" for (then, now), names in MOVED.items() for old, new in names.items()}

RENAMED = {
    "onlinecal.wrappers.group_books.AtomBooks": "onlinecal.wrappers.groups.forecasters.AtomForecaster",
    "onlinecal.wrappers.group_books.SharedBooks": "onlinecal.wrappers.groups.forecasters.SharedForecaster",
    "onlinecal.wrappers.pending.Waiting": "onlinecal.wrappers.strategies.strategy.Waiting",
}
"""By class of then: what it is called now, where that is not the same name in the module above."""


class OldNames:
    """Finds modules by the names they had, and loads them.

    It has what `importlib.abc` asks of both; to import that would double what importing onlinecal takes.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the import system asks for a module of this name, after everybody else."""
        loader: Any = self
        return ModuleSpec(name, loader) if name in NOW else None

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty module, as the import system makes them."""

    def exec_module(self, module: ModuleType) -> None:
        """All names of the old module are those of the one that it has become, but for those renamed."""
        then, now = module.__name__, NOW[module.__name__]

        def find(name: str) -> Any:
            home, _, called = RENAMED.get(f"{then}.{name}", f"{now}.{name}").rpartition(".")
            return getattr(import_module(home), called)

        vars(module)["__getattr__"] = find


def find_old_names() -> None:
    """Let pickles of older versions be opened in this process."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())
