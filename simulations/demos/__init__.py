"""Demonstrations that can be run, and that one's own programs can start from; the library imports none of
them."""
