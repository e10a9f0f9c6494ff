"""Declared layouts: every number of a state has its place and its words."""

import numpy as np

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary import cells, dyadic, full_table, graded, nested, uniform
from onlinecal.layout import Layout
from onlinecal.steering import binary


def test_fields_stand_one_behind_the_other():
    layout = Layout(5)
    assert [layout.field("a", "count"), layout.field("b", "weight", 3), layout.field("c", "sum")] == [5, 6, 9]
    assert layout.end == 10
    assert layout.describe(np.arange(12.0), at=1).splitlines() == [
        "    5  a (count): 6",
        "    6  b (weight): 7, 8, 9",
        "    9  c (sum): 10",
    ]


def test_a_steering_state_is_what_its_layout_declares():
    state = binary.new_steering()
    assert len(state) == binary.SIZE == binary.STATE.end
    assert "weights of the two mixtures (weight): 0.5, 0.5" in binary.STATE.describe(state)


def test_the_headers_of_all_grids_fit_in_front_of_the_table():
    for own in (uniform.HEADER, graded.HEADER, nested.HEADER):
        assert own.fields[0].start == full_table.HEADER.end
        assert own.end <= cells.TABLE
    assert dyadic.HEADER.end <= cells.TABLE
    forecaster = AlmostOneStepAhead(n_cells=4)
    forecaster.learn_one({}, 1)
    assert "rounds settled (count): 1" in cells.HEADER.describe(forecaster.memory)
