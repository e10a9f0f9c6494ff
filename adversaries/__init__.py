"""Generators of binary outcomes for playing against online forecasters.

`create` makes an adversary from a spec string, `describe` lists them all, `register` adds one of your own;
`replay_file`, `replay_river` and `replay_sequence` turn recorded streams into adversaries; a `Genome` writes
a sequence down for any horizon, and `stored_champions` are those found to be hard; `all_sequences` and
`sequence_chunks` enumerate every game of a given length. What an adversary is made of is told in
`adversaries.protocol`.
"""

from .adversary import Adversary
from .cards import Row
from .champions import Champion, champions_text, read_champions, stored_champions
from .exhaustive import all_sequences, sequence_chunks
from .files import replay_file
from .genome import Genome
from .phased import Seed
from .protocol import Kind, Parameter, Phase, Power, State, Step
from .registry import catalogue, create, describe, register
from .streams import Stream, replay_river, replay_sequence, river_datasets

__all__ = [
    "Adversary",
    "Champion",
    "Genome",
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
    "champions_text",
    "create",
    "describe",
    "read_champions",
    "register",
    "replay_file",
    "replay_river",
    "replay_sequence",
    "river_datasets",
    "sequence_chunks",
    "stored_champions",
]
