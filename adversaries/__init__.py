"""Generators of outcomes for playing against online forecasters.

`create` makes an adversary from a spec string, `describe` lists them all, and `register` adds one of your
own. `replay_file`, `replay_river` and `replay_sequence` turn recorded streams into adversaries. A `Genome`
writes a sequence down for any horizon, and `stored_champions` are genomes that were found to be hard.
`all_sequences` and `sequence_chunks` enumerate every game of a given length. `misleading_hints` is a stream
of hints with which the nearest valid cell cannot keep up. `adversaries.protocol` says what an adversary is
made of. Outcomes are 0 and 1; adversaries of more classes come from `create_multiclass`,
`describe_multiclass`, `replay_labels`, `replay_table` and `replay_river_labels`. Names are loaded when they
are first asked for.

Nothing here has a state: kinds that are registered are kept in `adversaries.registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.adversaries.kinds.genome import (
        Champion as Champion,
        Genome as Genome,
        stored_champions as stored_champions,
    )
    from onlinecal.adversaries.protocol import (
        Adversary as Adversary,
        Kind as Kind,
        MulticlassAdversary as MulticlassAdversary,
        Phase as Phase,
        Power as Power,
        Seed as Seed,
        State as State,
        Step as Step,
    )
    from onlinecal.adversaries.registry import (
        Row as Row,
        catalogue as catalogue,
        create as create,
        create_multiclass as create_multiclass,
        describe as describe,
        describe_multiclass as describe_multiclass,
        multiclass_catalogue as multiclass_catalogue,
        register as register,
    )
    from onlinecal.adversaries.streams import (
        Stream as Stream,
        all_sequences as all_sequences,
        misleading_hints as misleading_hints,
        replay_file as replay_file,
        replay_labels as replay_labels,
        replay_river as replay_river,
        replay_river_labels as replay_river_labels,
        replay_sequence as replay_sequence,
        replay_table as replay_table,
        river_datasets as river_datasets,
        sequence_chunks as sequence_chunks,
    )
    from onlinecal.catalogue import Parameter as Parameter
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
