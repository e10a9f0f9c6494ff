"""Evolutionary search for hard outcome sequences."""
