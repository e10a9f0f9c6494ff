"""Errors of class probabilities for those who decide by them.

Nothing in this folder has a state. `errors` and the end of `losses` search, `errors` from a
seed; all else is worked out directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.measures.decision.losses import DecisionLosses as DecisionLosses
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
