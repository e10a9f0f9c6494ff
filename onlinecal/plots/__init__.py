"""Pictures of one's own histories: functions take arrays, draw on an Axes and return it.

Each `name(...)` draws the numbers that `name_data(...)` returns as a table of polars. No global setting of
matplotlib changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    # no module may have the name of what it holds: imported, it would take its place in this package
    from onlinecal.plots.decisions import decision_losses as decision_losses
    from onlinecal.plots.decisions import decision_losses_data as decision_losses_data
    from onlinecal.plots.groups import group_biases as group_biases
    from onlinecal.plots.groups import group_biases_data as group_biases_data
    from onlinecal.plots.groups import group_mean_biases as group_mean_biases
    from onlinecal.plots.groups import group_mean_biases_data as group_mean_biases_data
    from onlinecal.plots.groups import level_sets as level_sets
    from onlinecal.plots.groups import level_sets_data as level_sets_data
    from onlinecal.plots.over_rounds import certificate as certificate
    from onlinecal.plots.over_rounds import certificate_data as certificate_data
    from onlinecal.plots.over_rounds import model_weights as model_weights
    from onlinecal.plots.over_rounds import model_weights_data as model_weights_data
    from onlinecal.plots.over_rounds import running_biases as running_biases
    from onlinecal.plots.over_rounds import running_biases_data as running_biases_data
    from onlinecal.plots.over_rounds import running_distance as running_distance
    from onlinecal.plots.over_rounds import running_distance_data as running_distance_data
    from onlinecal.plots.reliability_diagram import reliability as reliability
    from onlinecal.plots.reliability_diagram import reliability_data as reliability_data
    from onlinecal.plots.reliability_diagram import transport as transport
    from onlinecal.plots.reliability_diagram import transport_data as transport_data
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
