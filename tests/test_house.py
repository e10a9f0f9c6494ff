"""No module of the house is too long to be one notion, and no name stands for two."""

import ast
from collections import defaultdict

from tests import ROOT, source_files, source_trees
from tests.corpus.surface import public_things

MOST_LINES = 900


def test_no_module_is_too_long():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in source_files().values()
    }
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}


def test_no_public_name_has_two_meanings():
    meanings: dict[str, dict[int, str]] = defaultdict(dict)
    for place, name, thing in public_things():
        meanings[name].setdefault(id(thing), place)
    assert {name: list(found.values()) for name, found in meanings.items() if len(found) > 1} == {}


def test_no_two_classes_have_one_name():
    modules = defaultdict(list)
    for module, tree in source_trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module)
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}
