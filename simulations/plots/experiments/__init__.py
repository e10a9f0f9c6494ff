"""Figures of the verb `experiment`, from recalibrations of the same rows by several methods."""
