"""No module of the house is too long to be one notion."""

from tests import ROOT

SOURCE = ("onlinecal", "adversaries", "simulations")
MOST_LINES = 900


def test_no_module_is_too_long():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in SOURCE
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}
