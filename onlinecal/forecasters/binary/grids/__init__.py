"""Grid machines: the uniform grid, and dyadic ones without a horizon."""
