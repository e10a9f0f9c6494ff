"""The exact distance: shortest paths on the lattice of (zeros used, ones used)."""
