"""The tests; and where things are that several of them read."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
"""Data sets that are no part of the project; tests that need them are skipped without."""
