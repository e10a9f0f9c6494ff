"""How a verb ends: 0 done, 1 a check failed, 2 the request was wrong, 130 interrupted."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from onlinecal.cli.output import printable

DONE, CHECK_FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130


class Verbs(TyperGroup):
    """A group of verbs in which every refusal is one line on stderr, never a traceback.

    Wrong options, and any ValueError or OSError that a verb raises (a bad spec, a bad value in a file, a
    missing file), mean that the request was wrong. Other exceptions are bugs and stay visible.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run one verb and leave with its exit code."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except (ValueError, OSError) as error:
            code = refuse(str(error))
        except typer.Abort:
            code = INTERRUPTED
        except Exception as error:
            # typer brings its own copy of click or uses the real one, depending on its version; what a
            # usage error looks like is the same in both
            if not hasattr(error, "format_message"):
                raise
            code = refuse(f"{error.format_message().rstrip('.')}; see onlinecal --help")
        code = code if isinstance(code, int) else DONE
        if standalone_mode:
            sys.exit(code)
        return code


def refuse(message: str) -> int:
    """Say in one line on stderr what is wrong with the request; the exit code for it."""
    print(f"onlinecal: {printable(' '.join(message.split()))}", file=sys.stderr)
    return WRONG_REQUEST


def warn(remarks: Iterable[str]) -> None:
    """Say on stderr, a line each, what looks wrong though it can be done."""
    for text in remarks:
        print(f"onlinecal: warning: {printable(' '.join(text.split()))}", file=sys.stderr)
