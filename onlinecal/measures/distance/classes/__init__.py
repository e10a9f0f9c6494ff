"""Several classes: a linear program below, a search over groupings above, and the distance itself."""
