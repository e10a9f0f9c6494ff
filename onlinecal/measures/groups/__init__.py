"""Errors inside groups."""
