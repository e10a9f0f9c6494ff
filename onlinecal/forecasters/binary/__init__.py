"""Forecasters of one event: Almost-One-Step-Ahead on uniform and dyadic grids, and what it shadows."""
