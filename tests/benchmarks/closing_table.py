"""The lines that a run of the benchmarks prints at its end."""

LINES: list[str] = []
