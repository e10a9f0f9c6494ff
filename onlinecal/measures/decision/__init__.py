"""Errors of class probabilities for those who decide by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.measures.decision.losses import DecisionLosses as DecisionLosses
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
