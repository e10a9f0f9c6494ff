"""Pictures of one's own histories: functions take arrays, draw them, and return axes and numbers.

They draw on the Axes that is given as `ax`, else on those of a new figure of pyplot. No global setting of
matplotlib changes, and nothing here has a state. Users rely on the names of functions and of the columns of
tables; looks may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    # no module may have the name of what it holds: imported, it would take its place in this package
    from onlinecal.plots.decisions import decision_costs as decision_costs
    from onlinecal.plots.groups import group_biases as group_biases
    from onlinecal.plots.groups import group_mean_biases as group_mean_biases
    from onlinecal.plots.groups import level_sets as level_sets
    from onlinecal.plots.over_rounds import certificate as certificate
    from onlinecal.plots.over_rounds import model_weights as model_weights
    from onlinecal.plots.over_rounds import running_biases as running_biases
    from onlinecal.plots.over_rounds import running_distance as running_distance
    from onlinecal.plots.reliability_diagram import reliability as reliability
    from onlinecal.plots.reliability_diagram import transport as transport
    from onlinecal.plots.style import Picture as Picture
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
