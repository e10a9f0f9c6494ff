"""Errors of class probabilities for those who decide by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.measures.decision.losses import DecisionLosses as DecisionLosses
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
