"""Forecasters of one event: Almost-One-Step-Ahead on uniform, graded and dyadic grids, and what it shadows.

`cells` says what a memory holds, who writes it, who keeps it and what always holds; `contract` says what each
kind of grid must have. `grid` and `almost_one_step_ahead` have the classes that users see.
"""
