"""Forecasters and adversaries from files of one's own: loaded by path, they enter the catalogues by name.

Such a file calls `simulations.games.players.register` and `adversaries.register`. It becomes a module under
a name that depends on its path alone, so that every process, today and tomorrow, finds the same functions
in it and loops compiled with them can be kept on disk.
"""

from __future__ import annotations

import re
import sys
import traceback
import zlib
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import adversaries
from simulations.games import players

_NAME = re.compile(r"[\w-]+")
_checksums: dict[str, int] = {}
_owners: dict[str, str] = {}


def load(path: Path | str) -> ModuleType:
    """Execute a file as a module, once per process and state of the file; the module.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no Python file, or if executing it raises an exception: the message has the line.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if file.suffix != ".py":
        raise ValueError(f"{path} is no Python file: its name must end in .py")
    name = module_name(file)
    checksum = zlib.crc32(file.read_bytes())
    if _checksums.get(name) == checksum:
        return sys.modules[name]
    known = _names()
    module = _execute(file, name, path)
    _checksums[name] = checksum
    _owners.update(dict.fromkeys(_names() - known, name))
    return module


def load_all(paths: Iterable[Path | str]) -> None:
    """Load every file, in this order; errors as from `load`."""
    for path in paths:
        load(path)


def module_name(file: Path) -> str:
    """The name under which a file is a module: the same in every process."""
    stem = re.sub(r"\W", "_", file.stem)
    return f"onlinecal_own_{stem}_{zlib.crc32(str(file).encode()):08x}"


def checksum(*specs: str) -> int:
    """A number that changes with the files that these specs rely on; 0 if they rely on none."""
    names = {name for spec in specs for name in _NAME.findall(spec)}
    return sum(_checksums[module] for module in {_owners[name] for name in names if name in _owners})


def _execute(file: Path, name: str, path: Path | str) -> ModuleType:
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path}, line {_line(error, file)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: Exception, file: Path) -> int | str:
    """The file's line that an exception came from."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    inside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return inside[-1].lineno or "?" if inside else "?"


def _names() -> set[str]:
    return {*players.catalogue(), *adversaries.catalogue()}
