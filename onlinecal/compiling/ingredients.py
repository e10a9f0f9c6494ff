"""The ingredients of compiled code, and of the result of a game: code without its comments.

A kernel is named by its ingredients: its bytecode, and every function, constant and array that the bytecode
refers to, directly or not. They are those that this process has loaded. So even if files are edited
meanwhile, the name is that of what is compiled. A result to which much ordinary code contributes is named by
all modules that its own module imports, directly or not.

Docstrings, comments, blank lines and line numbers are no ingredients.

Nothing here has a state but caches. Names are the same in every process in which the code is. Any change of
what `substance` and `_Ingredients` give makes other names: then every kernel is compiled anew once, every
finished game of a sweep counts as unfinished, and nothing else happens. An ingredient may be added freely. If
one is missing, stale code is found after an edit: `tests/compiling/test_edits.py` tries edits of many kinds.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

PACKAGES = ("onlinecal",)
ROOT = Path(__file__).absolute().parents[2]
"""Where the package is: a folder, or an archive."""
VERSIONED = {"numpy", "numba", "llvmlite", *sys.stdlib_module_names}
"""Libraries whose functions are named without ingredients: their versions have folders of their own."""
SAID_BESIDE = {"__doc__", "__firstlineno__"}
"""Names in modules and classes that are no ingredients."""


class NotKept(Exception):
    """The ingredients of this code are not certain, so it is not kept."""


def is_ours(path: str) -> bool:
    """Whether a file is one of the packages'."""
    return any(Path(path).is_relative_to(ROOT / package) for package in PACKAGES)


@cache
def substance(code: CodeType) -> tuple[Any, ...]:
    """The parts of a code object that determine what it does: its instructions with their arguments.

    A function's docstring is a constant that no instruction loads.
    """
    told: list[Any] = []
    for instruction in dis.get_instructions(code):
        if instruction.opcode in dis.hasjabs or instruction.opcode in dis.hasjrel:
            told.append((instruction.opname, instruction.arg))
        elif instruction.opname == "STORE_NAME" and instruction.argval in SAID_BESIDE:
            # the instruction before has loaded the docstring, or the line
            told.pop()
        elif instruction.opname not in ("NOP", "RESUME"):
            told.append((instruction.opname, _constant(instruction.argval)))
    return (*told, code.co_varnames, code.co_argcount, code.co_kwonlyargcount, code.co_exceptiontable)


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return substance(value)
    # a set of constants has no order of its own
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def fingerprint(value: Any) -> str:
    """40 hexadecimal digits for a kernel, the same in every process in which it has the same ingredients.

    Raises
    ------
    NotKept
        If the ingredients are not certain, as those of a user's functions and of objects.
    """
    return hashlib.sha256(repr(_Ingredients().of(value)).encode()).hexdigest()[:40]


class _Ingredients:
    """Says what a value is made of, as nested tuples; used for one fingerprint.

    A function that comes a second time is given as a number, its place among those that came before. So
    functions that call one another come to an end.
    """

    def __init__(self) -> None:
        # by the id of a function that came: its place; the kernel holds all of them, so no id is used again
        self.met: dict[int, int] = {}

    def of(self, value: Any) -> Any:
        """The ingredients of any value that bytecode refers to; NotKept if they are not certain."""
        # a kernel, or an interpreted one, is named by the function that it was made of
        value = getattr(value, "py_func", getattr(value, "__wrapped__", value))
        if isinstance(value, FunctionType) and is_ours(value.__code__.co_filename):
            return self.once(value, self.of_function)
        if isinstance(value, (tuple, list)):
            return type(value).__name__, *map(self.of, value)
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
            return type(value).__name__, repr(value)
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            # a named tuple has defaults beside its names
            return value.__qualname__, value._fields, *map(self.of, vars(value)["_field_defaults"].items())
        if isinstance(value, (type, FunctionType, BuiltinFunctionType, np.ufunc, ModuleType)):
            module = getattr(value, "__module__", None) or value.__name__
            name = f"{module}.{getattr(value, '__qualname__', value.__name__)}"
            if isinstance(value, np.ufunc) or name.split(".")[0] in VERSIONED:
                return name
        raise NotKept(repr(value))

    def once(self, value: Any, tell: Callable[[Any], Any]) -> Any:
        """What `tell` says of a function that comes for the first time, and its place from then on."""
        if id(value) in self.met:
            return self.met[id(value)]
        self.met[id(value)] = len(self.met)
        return tell(value)

    def of_function(self, function: FunctionType) -> Any:
        """Its name, its instructions, and the ingredients of all that these refer to."""
        names = sorted({name for code in nested_codes(function.__code__) for name in code.co_names})
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
        return (
            function.__module__,
            function.__qualname__,
            substance(function.__code__),
            *map(self.of, [*closure, *defaults]),
            # how it is compiled, if that is not as it stands
            *((name, self.of(value)) for name, value in sorted(vars(function).items())),
            *self.of_names(names, function.__globals__),
        )

    def of_names(self, names: list[str], space: dict[str, Any]) -> Iterator[Any]:
        """Each name that a module's `space` has, with the ingredients of what it stands for.

        Bytecode says `cells.report` as two names. So where a name stands for one of our modules, all other
        names are looked for in that module, too.
        """
        for name in names:
            value = space.get(name)
            if isinstance(value, ModuleType) and value.__name__.split(".")[0] in PACKAGES:
                yield name, *self.of_names([each for each in names if each != name], vars(value))
            elif name in space:
                yield name, self.of(value)


@cache
def modules_digest(*names: str) -> str:
    """40 hexadecimal digits for the code of these modules, by name, and of all of ours that they import.

    The code is what is on disk, without docstrings, comments and line numbers. Names that are no module of
    this package count as nothing.
    """
    told = [(name, substance(code)) for name, code in modules_of(*names).items()]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:40]


def modules_of(*names: str) -> dict[str, CodeType]:
    """The modules' code, and that of all modules of ours that are imported anywhere in it, by name."""
    codes: dict[str, CodeType] = {}
    ahead = list(names)
    while ahead:
        name = ahead.pop()
        code = None if name in codes else _code_of(name)
        if code is not None:
            codes[name] = code
            ahead += {wanted for each in nested_codes(code) for wanted in _imports(each)}
    return dict(sorted(codes.items()))


@cache
def _code_of(name: str) -> CodeType | None:
    """A module's code, from its source or without one, from a folder or an archive; None if there is none."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return None
    get_code = getattr(spec and spec.loader, "get_code", None)
    return None if get_code is None else get_code(name)


def _imports(code: CodeType) -> Iterator[str]:
    """The modules of ours that code imports; after `from a import b` both a and a.b, if that is one."""
    if not any(name.split(".")[0] in PACKAGES for name in code.co_names):
        return
    base = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            base = instruction.argval
        if base.split(".")[0] in PACKAGES:
            if instruction.opname == "IMPORT_NAME":
                yield base
            elif instruction.opname == "IMPORT_FROM":
                yield f"{base}.{instruction.argval}"
