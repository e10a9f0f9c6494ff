"""Small data sets that come with the package, in the form of river's.

Names are loaded when they are first asked for. Nothing here has a state. A new data set brings its licence
(LICENCE.txt).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.datasets.games import NBAGames as NBAGames
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
