"""What the verb `warmup` compiles beside the library: the games of the demonstration, for a few rounds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from onlinecal.cli.warmup import Step


def demonstration_games() -> Iterator[Step]:
    """One game for each loop that the demonstration needs, named by who plays whom."""
    from itertools import product

    import adversaries
    from simulations.games import players
    from simulations.games.measuring import play_and_measure
    from simulations.sweeps.config import find_config, read_config

    config = read_config(find_config("demo"))
    known = set()
    for forecaster, spec in product(config.forecasters, config.adversaries):
        player = players.create(forecaster)
        adversary = adversaries.create(spec, 50, 0)
        kind = player.build(50).rules, *((phase.step, phase.depth) for phase in adversary.phases)
        if kind not in known:
            known.add(kind)
            yield f"{forecaster} against {spec}", partial(play_and_measure, player, adversary, 50)
