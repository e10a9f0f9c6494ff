"""Distance to calibration: the exact distance, brackets, the lower distance, and several classes.

What holds everywhere in this folder: a lower end is proven, whatever search found it; an upper end is the
distance of some calibrated sequence, or above it; and work is counted in steps, not in seconds. Searches may
change. Then brackets that are not exact end elsewhere, and the corpus (`tests/corpus`) says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.measures.distance.calibration_distance import DistanceBracket as DistanceBracket
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
