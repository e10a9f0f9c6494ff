"""Recalibrated models on streams: who is recalibrated, on what, and what came of it."""
