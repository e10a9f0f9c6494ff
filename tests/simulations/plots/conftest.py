"""What tests of the pictures of games share."""

import pytest

from onlinecal.plots import style


@pytest.fixture(autouse=True)
def quick(wide_brackets):
    """Pictures as they are, of distances that may be found with little work."""


@pytest.fixture
def few_dots(monkeypatch):
    """The PNG has a twenty-fifth of the dots; the SVG is as it is."""
    monkeypatch.setitem(style.RC, "savefig.dpi", style.RC["savefig.dpi"] / 5)
