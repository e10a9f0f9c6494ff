"""Pictures of one's own histories: arrays in, drawn on an Axes, which comes back; settings stay as they are.

Each `name(...)` draws what `name_data(...)` returns as a table of polars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.plots.certificate_path import certificate, certificate_data
    from onlinecal.plots.distance_so_far import running_distance, running_distance_data
    from onlinecal.plots.reliability_diagram import reliability, reliability_data
    from onlinecal.plots.transport_plan import transport, transport_data

__all__ = [
    "certificate",
    "certificate_data",
    "reliability",
    "reliability_data",
    "running_distance",
    "running_distance_data",
    "transport",
    "transport_data",
]

# no module may have the name of what it holds: imported, it would take its place in this package
_HOME = {
    "certificate": ".certificate_path",
    "certificate_data": ".certificate_path",
    "reliability": ".reliability_diagram",
    "reliability_data": ".reliability_diagram",
    "running_distance": ".distance_so_far",
    "running_distance_data": ".distance_so_far",
    "transport": ".transport_plan",
    "transport_data": ".transport_plan",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
