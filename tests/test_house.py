"""No module of the house is too long to be one notion."""

from tests import ROOT, source_files

MOST_LINES = 900


def test_no_module_is_too_long():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in source_files().values()
    }
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}
