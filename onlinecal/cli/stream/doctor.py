"""The verb `stream doctor`: what an operator needs to know when something is off, and what to do next."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from onlinecal.cli.output import answer
from onlinecal.cli.verbs import CHECK_FAILED, AsJson, Ledger


def doctor(
    ledger: Ledger,
    integrity: Annotated[
        bool,
        typer.Option(
            "--integrity/--no-integrity",
            help="Have every page looked at, of archives, too: a few seconds a gigabyte.",
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Look a ledger over, with the program and the machine around it, and say what to do where it is off.

    Reads only; works beside the engine, and on a ledger that is damaged or of another format. Exit code 1
    if something is wrong. It does not replay the log: `check` does.

    Example:

    [bold]onlinecal stream doctor --ledger rain.db[/bold]
    """
    import msgspec

    from onlinecal.engine.ledger.check import examine

    program, found = surroundings()
    facts, wrong = examine(ledger, integrity)
    found += wrong
    known = {"path": str(ledger), "program": program, "ledger": facts}
    lines = [f"{name:<16} {told}" for name, told in [*spelt(program), *spelt(facts)]]
    wrongs = [f"\nWRONG: {one.wrong}\n  do:  {one.do}" for one in found] or ["\nnothing is wrong"]
    answer(as_json, {**known, "wrong": msgspec.to_builtins(found)}, [*lines, *wrongs])
    if found:
        raise typer.Exit(CHECK_FAILED)


def surroundings() -> tuple[dict[str, Any], list[Any]]:
    """Versions and compiled code, and what is wrong with them."""
    import platform
    import sqlite3
    from importlib.metadata import PackageNotFoundError, version

    from onlinecal.compiling.folder import looked_into
    from onlinecal.engine.ledger.check import Finding
    from onlinecal.version import STATE_FORMAT

    facts: dict[str, Any] = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in ("onlinecal", "numpy", "numba", "river", "msgspec"):
        with suppress(PackageNotFoundError):
            facts[name] = version(name)
    facts["format"] = STATE_FORMAT
    folders = looked_into()
    facts["compiled"] = [{"folder": str(folder), "kernels": kernels} for folder, kernels in folders]
    if any(kernels for _, kernels in folders):
        return facts, []
    cold = Finding(
        "no compiled code is kept: a start compiles for a minute",
        "run `onlinecal warmup` with the NUMBA_CACHE_DIR that the engine has",
    )
    return facts, [cold]


def spelt(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Facts as lines for people."""
    lines = []
    for name, told in facts.items():
        if name.endswith("bytes"):
            told = f"{told / 2**20:,.1f} MiB"
        elif name == "last_commit":
            told = datetime.fromtimestamp(told, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        lines.append((name.removesuffix("_bytes").replace("_", " "), words(told)))
    return lines


def words(told: Any) -> str:
    """A fact in words, also one of several parts."""
    if isinstance(told, dict):
        return ", ".join(f"{name} {words(one)}" for name, one in told.items())
    if isinstance(told, list):
        return "; ".join(map(words, told)) or "none"
    return "none" if told is None else str(told)
