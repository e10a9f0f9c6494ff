"""Generators of binary outcomes for playing against online forecasters.

`create` makes an adversary from a spec string, `describe` lists them all; `replay_file`, `replay_river` and
`replay_sequence` turn recorded streams into adversaries; `all_sequences` and `sequence_chunks` enumerate
every game of a given length. What an adversary is made of is told in `adversaries.protocol`.
"""

from .adversary import Adversary, Seed
from .exhaustive import all_sequences, sequence_chunks
from .files import replay_file
from .protocol import Kind, Parameter, Phase, Power, State, Step
from .registry import Row, catalogue, create, describe
from .streams import Stream, replay_river, replay_sequence, river_datasets

__all__ = [
    "Adversary",
    "Kind",
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
    "describe",
    "replay_file",
    "replay_river",
    "replay_sequence",
    "river_datasets",
    "sequence_chunks",
]
