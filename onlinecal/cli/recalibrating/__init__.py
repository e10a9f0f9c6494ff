"""The parts of the verb `recalibrate`: reading, fitting, comparing, drawing."""
