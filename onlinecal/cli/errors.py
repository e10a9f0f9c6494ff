"""How a verb ends: 0 done, 1 a check failed, 2 the request was wrong, 130 interrupted, 141 nobody reads."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from onlinecal.cli.helping import Told, reflowed
from onlinecal.cli.output import printable

DONE, CHECK_FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130
UNREAD = 141
"""As shells say of a command that SIGPIPE ended, such as one before `head`."""


class Refused(Exception):
    """A request that was wrong, in words for whoever made it; `verb` has the help that may serve."""

    def __init__(self, message: str, verb: str | None = None) -> None:
        super().__init__(message)
        self.verb = verb


class Verbs(Told, TyperGroup):
    """A group of verbs in which every refusal is one line on stderr, never a traceback.

    Wrong options, and any ValueError or OSError that a verb raises (a bad spec, a bad value in a file, a
    missing file), mean that the request was wrong. Other exceptions are bugs and stay visible. Help fills
    the lines of the terminal, whatever the width of docstrings.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for verb in (self, *self.commands.values()):
            verb.help = reflowed(verb.help or "")

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; a ValueError becomes the refusal of it, an OSError one that no help explains."""
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise Refused(str(error), f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip()) from error
        except BrokenPipeError:
            raise
        except (FileExistsError, NotADirectoryError) as error:
            raise Refused(f"{error.filename} cannot be a folder to write into: there is a file") from error
        except OSError as error:
            raise Refused(str(error)) from error

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
            if sys.stdout is not None:
                sys.stdout.flush()
        except (BrokenPipeError, SystemExit) as error:
            # rich and typer leave with 1 where they meet the first
            if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
                raise
            code = unread()
        except Refused as error:
            code = refuse(str(error), error.verb)
        except typer.Abort:
            code = INTERRUPTED
        except Exception as error:
            # typer brings its own copy of click or uses the real one, depending on its version; what a
            # usage error looks like is the same in both
            if not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            words = list(sys.argv[1:] if args is None else args)
            text = plain(error.format_message()) + given(words, getattr(error, "param", None))
            code = refuse(text, "onlinecal" if context is None else context.command_path)
        code = code if isinstance(code, int) else DONE
        if standalone_mode:
            sys.exit(code)
        return code


def plain(text: str) -> str:
    """What typer says of a wrong value, without the names that things have inside of it."""
    text = re.sub(r"Value error, |, unable to parse string as an? \w+", "", text.rstrip("."))
    text = re.sub(r"Input should be|'[^']*' is not(?= one of)", "it must be", text)
    return text.replace("a valid integer", "a whole number").replace("a valid number", "a number")


def given(words: list[str], option: Any) -> str:
    """Of a value that an option does not take, what it was: not all versions of typer tell."""
    for i, word in enumerate(words):
        name, sign, value = word.partition("=")
        if name in getattr(option, "opts", ()) and (sign or words[i + 1 :]):
            return f", got {value if sign else words[i + 1]!r}"
    return ""


def unread() -> int:
    """What Python has not got rid of goes nowhere, also at its exit; the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNREAD


def refuse(message: str, verb: str | None = None) -> int:
    """Say in one line on stderr what is wrong with the request, and whose help to read; the exit code."""
    text = printable(" ".join(message.split()))
    hint = "" if verb is None else f"; try '{verb} --help'"
    print(f"onlinecal: {text.rstrip('.') if hint else text}{hint}", file=sys.stderr)
    return WRONG_REQUEST


def warn(remarks: Iterable[str]) -> None:
    """Say on stderr, a line each, what looks wrong though it can be done."""
    for text in remarks:
        print(f"onlinecal: warning: {printable(' '.join(text.split()))}", file=sys.stderr)
