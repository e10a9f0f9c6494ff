"""What compiled code was made from, as a digest: the sources of a function and of whatever they import.

numba compiles what a function calls into it, and constants of other modules with it. So a kernel depends on
its own file, on the files of the functions that it has in its closure, and on all that these import at the
top of the file, and so on. Files of the standard library and of other installed packages are left out; the
versions that matter are part of a kernel's name.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
import time
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.extending import _Intrinsic
from numba.core.serialize import dumps

OURS = frozenset({"onlinecal", "adversaries", "simulations"})
INSTALLED = tuple(
    os.path.realpath(sysconfig.get_path(place)) + os.sep
    for place in ("stdlib", "platstdlib", "purelib", "platlib")
)
PACKAGES = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
LIBRARIES = frozenset({"numpy", "numba", "llvmlite", "scipy", "sklearn", "river", "polars", "pandas"})
"""Wherever they are, these are not read."""
IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]+))", re.MULTILINE
)
GONE = "gone"
"""The digest of a source that is no longer there."""
BEGAN = time.time()
"""When this process could begin to load sources."""


class NotKept(Exception):
    """What this code was made from cannot be told for sure, so it is not kept."""


def source_digest(*modules: ModuleType | str) -> str:
    """A digest of the sources of these modules and of all that they import; of packages, all their files.

    64 hexadecimal digits; they depend on names and contents, not on where the files are. A module without a
    file counts with its name only.
    """
    digest = hashlib.sha256()
    for name, content in sorted(_sources(modules).items()):
        digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def fingerprint(value: Any, modules: set[str]) -> str:
    """What a kernel, or a value in its closure, is; the modules it depends on are added to `modules`.

    Raises
    ------
    NotKept
        If the value cannot be described.
    """
    value = getattr(value, "py_func", value)
    if isinstance(value, _Intrinsic):
        # its pickle has a number drawn by this process
        value = value._defn
    if isinstance(value, FunctionType):
        if _path(value.__module__) is None:
            # typed into a console: it is what it is, with the values that it refers to; of what comes from
            # files only the names
            modules.update(_origins(value.__globals__.values()))
            return _pickled(value)
        modules.add(value.__module__)
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        inside = [fingerprint(inner, modules) for inner in (*cells, *(value.__defaults__ or ()))]
        return repr((value.__module__, value.__qualname__, _code(value.__code__), inside))
    if isinstance(value, ModuleType):
        modules.add(value.__name__)
        return value.__name__
    if isinstance(value, type):
        modules.add(value.__module__)
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, tuple):
        return repr([type(value).__name__, *(fingerprint(inner, modules) for inner in value)])
    if isinstance(value, np.ndarray):
        return repr((value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()))
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        return f"{type(value).__name__} {value!r}"
    return _pickled(value)


def check_unchanged(modules: Iterable[str]) -> None:
    """NotKept if a source was changed since this process began: it may have loaded the older state."""
    now = time.time()
    for name, digest in _sources(modules).items():
        path = _path(name)
        if digest == GONE:
            raise NotKept(f"{path} was removed while this process runs")
        try:
            state = os.stat(str(path))
        except OSError:
            continue
        # a date in the future tells nothing
        if BEGAN < max(state.st_mtime, state.st_ctime) <= now:
            raise NotKept(f"{path} was changed while this process runs")


def _origins(values: Iterable[Any]) -> set[str]:
    """The modules that values come from, or are."""
    found = [v.__name__ if isinstance(v, ModuleType) else getattr(v, "__module__", None) for v in values]
    return {name for name in found if isinstance(name, str)}


def _pickled(value: Any) -> str:
    try:
        return hashlib.sha256(dumps(value)).hexdigest()
    except Exception as error:
        raise NotKept(str(error)) from error


def _code(code: CodeType) -> str:
    constants = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_firstlineno, code.co_code, code.co_names, constants))


def _path(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


_known: dict[tuple[str, float, int], tuple[str, bytes]] = {}


def _read(module: ModuleType) -> tuple[str, bytes]:
    """Digest of a module's file, and its import statements; read again only when the file has changed."""
    path = str(module.__file__)
    try:
        state = os.stat(path)
        key = path, state.st_mtime, state.st_size
    except OSError:
        key = path, 0.0, 0
    if key not in _known:
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError:
            # in an archive, or removed meanwhile
            loader: Any = getattr(module.__spec__, "loader", None)
            try:
                content = loader.get_data(path)
            except (AttributeError, OSError):
                return GONE, b""
        # ours import at the top what kernels need, and elsewhere what need not be there; of those of others
        # nothing is known, e.g. whether they try to import something
        all_of_it = module.__name__.partition(".")[0] not in OURS
        found = (one.group() for one in IMPORT.finditer(content))
        imports = b"\n".join(one for one in found if all_of_it or not one[:1].isspace())
        _known[key] = hashlib.sha256(content).hexdigest(), imports
    return _known[key]


def _sources(modules: Iterable[ModuleType | str]) -> dict[str, str]:
    """Digest of the file of each module that these depend on, by name."""
    found: dict[str, str] = {}
    waiting = [module if isinstance(module, str) else module.__name__ for module in modules]
    whole = {name for name in waiting if hasattr(sys.modules.get(name), "__path__")}
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in found or module is None or not _is_watched(module):
            continue
        found[name], imports = _read(module)
        for imported, lazily in _imported(module, imports):
            waiting.append(imported)
            if lazily and _is_watched(sys.modules[imported]):
                whole.add(imported)
    for name in whole:
        found.update(_files_below(name))
    return found


def _is_watched(module: ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    if path is None:
        return False
    package = module.__name__.partition(".")[0]
    if package in OURS or package in LIBRARIES:
        return package in OURS
    installed = os.path.realpath(path).startswith(INSTALLED) or PACKAGES.search(path) is not None
    return not installed


def _imported(module: ModuleType, imports: bytes) -> list[tuple[str, bool]]:
    """The loaded modules that these statements name, and whether names are loaded lazily from one."""
    found = []
    for statement in IMPORT.finditer(imports):
        origin, names, plain = (part.decode() if part else "" for part in statement.groups())
        if plain:
            found += [(one.split()[0], False) for one in plain.split(",") if one.strip()]
            continue
        if origin.startswith("."):
            package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
            for _ in range(len(origin) - len(origin.lstrip(".")) - 1):
                package = package.rpartition(".")[0]
            origin = f"{package}.{origin.lstrip('.')}".rstrip(".")
        parts = [f"{origin}.{one.split()[0]}" for one in names.strip("()").split(",") if one.strip()]
        lazy = "__getattr__" in vars(sys.modules.get(origin, module)) and origin in sys.modules
        found.append((origin, lazy and any(part not in sys.modules for part in parts)))
        found += [(part, False) for part in parts if part in sys.modules]
    return found


def _files_below(package: str) -> dict[str, str]:
    """Digests of all files of a package, also those not loaded."""
    found = {}
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        for place, folders, files in os.walk(folder):
            folders.sort()
            for file in sorted(files):
                if file.endswith(".py"):
                    path = os.path.join(place, file)
                    name = f"{package}/{os.path.relpath(path, folder)}"
                    with open(path, "rb") as opened:
                        found[name] = hashlib.sha256(opened.read()).hexdigest()
    return found
