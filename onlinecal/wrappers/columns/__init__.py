"""Columns of forecasts and outcomes: how they are read, reported, continued and kept. Nothing here has a
state."""
