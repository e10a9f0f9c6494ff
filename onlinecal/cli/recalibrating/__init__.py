"""The parts of the verb `recalibrate`: reading, fitting, comparing, drawing.

Nothing is imported or kept here. `comparing.py` has the order of the steps, and calls the other modules.
"""
