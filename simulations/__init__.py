"""Simulations: games of forecasters against adversaries, which are measured, kept and drawn.

`play` plays one game: in compiled code, or round by round with players that are plain Python objects. `games`
measures how calibrated it was, `sweeps` plays a whole grid of games and keeps every finished one, and `plots`
draws them. `cli` has the console command. Names are loaded when they are first asked for, and nothing here
has a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.simulations.games.duel import Duel as Duel, History as History, play as play
    from onlinecal.simulations.sweeps.results import SweepTables as SweepTables
    from onlinecal.simulations.sweeps.running import sweep as sweep
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
