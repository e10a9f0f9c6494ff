"""Generators of outcomes for playing against online forecasters.

`create` makes an adversary from a spec string, `describe` lists them all, `register` adds one of your own;
`replay_file`, `replay_river` and `replay_sequence` turn recorded streams into adversaries; a `Genome` writes
a sequence down for any horizon, and `stored_champions` are those found to be hard; `all_sequences` and
`sequence_chunks` enumerate every game of a given length; `misleading_hints` is a stream of hints that the
nearest valid cell cannot keep up with. What an adversary is made of is told in `adversaries.protocol`.
Outcomes are 0 and 1; those with more classes come from `adversaries.multiclass`, by `create_multiclass`,
`describe_multiclass`, `replay_labels`, `replay_table` and `replay_river_labels`.
"""

from adversaries.kinds.genome import Champion, Genome, stored_champions
from adversaries.multiclass import (
    LabelStream,
    MulticlassAdversary,
    MulticlassKind,
    create_multiclass,
    describe_multiclass,
    multiclass_catalogue,
    replay_labels,
    replay_river_labels,
    replay_table,
)
from adversaries.protocol import Adversary, Kind, Phase, Power, Seed, State, Step
from adversaries.registry import Row, catalogue, create, describe, register
from adversaries.streams import (
    Stream,
    all_sequences,
    misleading_hints,
    replay_file,
    replay_river,
    replay_sequence,
    river_datasets,
    sequence_chunks,
)
from onlinecal.catalogue import Parameter

__all__ = [
    "Adversary",
    "Champion",
    "Genome",
    "Kind",
    "LabelStream",
    "MulticlassAdversary",
    "MulticlassKind",
    "Parameter",
    "Phase",
    "Power",
    "Row",
    "Seed",
    "State",
    "Step",
    "Stream",
    "all_sequences",
    "catalogue",
    "create",
    "create_multiclass",
    "describe",
    "describe_multiclass",
    "misleading_hints",
    "multiclass_catalogue",
    "register",
    "replay_file",
    "replay_labels",
    "replay_river",
    "replay_river_labels",
    "replay_sequence",
    "replay_table",
    "river_datasets",
    "sequence_chunks",
    "stored_champions",
]
