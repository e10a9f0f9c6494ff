"""Generators of outcomes out of k classes, for playing against forecasters of class probabilities.

They are made like those of two classes: a spec, a seed, phases of one step function each. Classes have the
numbers 0, ..., k - 1. `create_multiclass` and `describe_multiclass` are the way in; `adversaries.multiclass.
adversary` tells what an adversary of several classes is made of.
"""

from adversaries.protocol import MulticlassAdversary, MulticlassKind
from adversaries.registry import (
    LabelStream,
    create_multiclass,
    describe_multiclass,
    multiclass_catalogue,
    replay_labels,
    replay_river_labels,
    replay_table,
)

__all__ = [
    "LabelStream",
    "MulticlassAdversary",
    "MulticlassKind",
    "create_multiclass",
    "describe_multiclass",
    "multiclass_catalogue",
    "replay_labels",
    "replay_river_labels",
    "replay_table",
]
