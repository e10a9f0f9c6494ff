"""The forecaster of several classes: its machine on the simplex, its promises, its river face.

`run` holds the state, and the functions of `machine` change it; `guarantees` chooses grids and bounds what is
played; `input` checks what users give. Users see the classes of `almost_one_step_ahead`.
"""
