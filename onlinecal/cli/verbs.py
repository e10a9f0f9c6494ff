"""What verbs share: how --help shows options, how a verb ends, and the options for reading columns.

A verb's exit code is 0 if it is done, 1 if a check failed, 2 if the request was wrong, 130 if it was
interrupted, and 141 if nobody reads its output any more.

These codes are what scripts ask for, so they stay, and so do the names of options. Nothing here has a state;
`unread` gives the process another standard output, since it is about to end.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from inspect import cleandoc, unwrap
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup

from onlinecal.cli.output import printable
from onlinecal.tables.writing import in_the_way

if TYPE_CHECKING:
    Base = TyperCommand
else:
    Base = object

VALUE_WORDS = {str: "TEXT", int: "INT", float: "NUMBER", Path: "PATH", bool: ""}


class ShortHelp(Base):
    """A verb or a group of verbs whose help has one word for the value of an option, and none for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, each with the word for its value."""
        known = get_type_hints(unwrap(self.callback)) if self.callback else {}
        parameters: list[Any] = super().get_params(ctx)
        for parameter in parameters:
            if parameter.metavar is None and parameter.param_type_name == "argument":
                parameter.metavar = parameter.name.upper()
            elif parameter.metavar is None:
                # --help and the like come from typer
                parameter.metavar = word_for(known.get(parameter.name, bool))
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage line; an argument that is required stands there without braces."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]


def word_for(kind: Any) -> str | None:
    """The word for a value of this type, or of a list of it; None if the help lists the choices."""
    if get_origin(kind) is Literal:
        return None
    parts = [part for part in get_args(kind) if part is not NoneType]
    return word_for(parts[0]) if parts else VALUE_WORDS.get(kind)


class Verb(ShortHelp, TyperCommand):
    """A single verb."""


EXIT_DONE, EXIT_CHECK_FAILED, EXIT_WRONG_REQUEST, EXIT_INTERRUPTED = 0, 1, 2, 130
EXIT_UNREAD = 141
"""The code that shells give a command which SIGPIPE ended, such as one before `head`."""


class Refused(Exception):
    """A request that was wrong, in words for whoever made it; the help of `verb` may be of use."""

    def __init__(self, message: str, verb: str | None = None) -> None:
        super().__init__(message)
        self.verb = verb


class Verbs(ShortHelp, TyperGroup):
    """A group of verbs in which every refusal is one line on stderr, never a traceback.

    Wrong options, and any ValueError, OSError or MemoryError that a verb raises (a bad spec, a bad value in
    a file, a missing or a huge file), mean that the request was wrong. Other exceptions are bugs and stay
    visible. Help fills the lines of the terminal, whatever the width of docstrings.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for verb in (self, *self.commands.values()):
            # each paragraph, or example, on one line, for whoever prints it to break
            parts = cleandoc(verb.help or "").split("\n\n")
            verb.help = "\n\n".join(" ".join(part.split()) for part in parts)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; errors become refusals, and a ValueError also points to the verb's help."""
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise Refused(str(error), f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip()) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Refused(os_words(error)) from error
        except MemoryError as error:
            raise Refused(f"there is not enough memory: {error}. Take fewer rows or columns") from error

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
            # rich and typer exit with 1 at a BrokenPipeError
            if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
                raise
            code = unread()
        except Refused as error:
            code = refuse(str(error), error.verb)
        except typer.Abort:
            code = EXIT_INTERRUPTED
        except Exception as error:
            # typer brings its own copy of click or uses the real one, depending on its version; what a
            # usage error looks like is the same in both
            if not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            words = list(sys.argv[1:] if args is None else args)
            text = plain(error.format_message()) + given(words, getattr(error, "param", None))
            code = refuse(text, "onlinecal" if context is None else context.command_path)
        code = code if isinstance(code, int) else EXIT_DONE
        if standalone_mode:
            sys.exit(code)
        return code


def os_words(error: OSError) -> str:
    """What the system says of a file, the file in front and without a number; other words as they are."""
    file, why = error.filename, error.strerror
    if not why or not isinstance(file, (str, os.PathLike)):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"no such file: {file}"
    if isinstance(error, IsADirectoryError):
        return f"not a file: {file}"
    if isinstance(error, NotADirectoryError) and (above := in_the_way(Path(file).parent)) is not None:
        return f"{file} cannot be there, since {above} is a file and not a folder"
    return f"{file}: {why}"


def plain(text: str) -> str:
    """Typer's error for a wrong value, without its internal names."""
    text = re.sub(r"Value error, |, unable to parse string as an? \w+", "", text.rstrip("."))
    text = re.sub(r"Input should be|'[^']*' is not(?= one of)", "it must be", text)
    return text.replace("a valid integer", "a whole number").replace("a valid number", "a number")


def given(words: list[str], option: Any) -> str:
    """The end of an error, with the value that an option refused; not all versions of typer have it."""
    for word, following in pairwise([*words, ""]):
        name, sign, value = word.partition("=")
        if name in getattr(option, "opts", ()):
            return f", got {value if sign else following!r}"
    return ""


def unread() -> int:
    """Discard what Python has not written yet, also at its exit, and give back the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_UNREAD


def refuse(message: str, verb: str | None = None) -> int:
    """Say in one line on stderr what is wrong with the request, and whose help to read: the exit code."""
    text = printable(" ".join(message.split()))
    hint = "" if verb is None else f"; try '{verb} --help'"
    print(f"onlinecal: {text.rstrip('.') if hint else text}{hint}", file=sys.stderr)
    return EXIT_WRONG_REQUEST


def warn(remarks: Iterable[str]) -> None:
    """Write remarks to stderr, one a line, on input that can be read but looks wrong."""
    for text in remarks:
        print(f"onlinecal: warning: {printable(' '.join(text.split()))}", file=sys.stderr)


@contextmanager
def gathered_warnings(*left_out: type[Warning]) -> Iterator[list[str]]:
    """The texts of warnings inside, each once, except those of the classes `left_out`."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        for kind in left_out:
            warnings.simplefilter("ignore", kind)
        yield texts
    texts.extend(dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught))


def check_different(values: Sequence[str], option: str) -> None:
    """Refuse a value that is given twice for an option, or an argument, which may have several."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise ValueError(f"{option} {value!r} is given twice: give it once")


SUFFIXES_OF_FILES = frozenset(
    [
        ".csv",
        ".feather",
        ".gz",
        ".html",
        ".json",
        ".jsonl",
        ".md",
        ".npz",
        ".parquet",
        ".pdf",
        ".png",
        ".svg",
        ".tsv",
        ".txt",
        ".xlsx",
    ]
)


def check_folder(folder: Path | None, tables: Iterable[str] = (), *read: Path) -> None:
    """Refuse an --out folder that is or reads as a file, or in which a table could replace an input file.

    A new name that ends as a file's does, such as results.csv, was meant for a file. `tables` are names of
    files, or patterns of names: of everything that the verb may write in a format that it reads, with the CSV
    beside each picture.
    """
    if folder is None:
        return
    if (taken := in_the_way(folder)) is not None:
        raise ValueError(f"--out must be a folder, but {taken} is a file")
    if folder.suffix.lower() in SUFFIXES_OF_FILES and not folder.exists():
        asked = folder.with_suffix("")
        raise ValueError(
            f"--out must be a folder, into which files are written, got {folder}: give --out {asked}"
        )
    for file in read:
        place = file.resolve()
        if place.parent == folder.resolve() and any(fnmatchcase(place.name, name) for name in tables):
            raise ValueError(
                f"--out {folder}: the results could overwrite the input {file}; name another folder"
            )


FILES = (
    "CSV (also with ; or tabs), JSON Lines, both also .gz, Parquet or NPZ; - is standard input, nba the "
    "games that come with the package."
)

AsJson = Annotated[bool, Option("--json", help="Write the results to stdout as JSON, not as text.")]
Out = Annotated[
    Path | None,
    Option(help="Folder to write tables and pictures into, made if need be. Default: none are written."),
]
Seed = Annotated[int, Option(min=0, help="Seed of everything that is drawn at random.")]

ForecastFile = Annotated[Path, Argument(help=f"The forecasts: {FILES}")]
Forecasts = Annotated[
    list[str] | None,
    Option(help="A column of forecasts; for several models repeat the option, once for each."),
]
Forecast = Annotated[str | None, Option(help="The column of forecasts.")]
ProbabilityColumns = Annotated[
    str | None,
    Option(
        help="The columns of class probabilities, a,b,c or a pattern p_*; of an NPZ file the name of an "
        "array. Default: p_*."
    ),
]
LabelColumn = Annotated[
    str | None, Option(help="The column of labels, the classes that came true; of an NPZ file an array.")
]
OutcomeColumn = Annotated[str | None, Option(help="The column of outcomes, 0/1.")]
GroupColumnNames = Annotated[
    list[str] | None,
    Option(
        help="A column whose values, or ranges of many numbers, are groups of rows. With several such "
        "columns each pair of their values is a group, too. May be repeated."
    ),
]
Sort = Annotated[
    str | None,
    Option(
        help="A column of times, or numbers, by which the rows are put in order, the smallest first; "
        "letters:COL orders them by texts. Default: the order of the file."
    ),
]
SettledAt = Annotated[
    str | None,
    Option(
        help="The column that says when each outcome became known: a time like those of --sort, or, without "
        "--sort, the number of a row, from 0. Only rows after that know the outcome. Default: each outcome "
        "is known to the next row."
    ),
]
Together = Annotated[
    str | None,
    Option(
        help="A column, such as the match or the day: the outcomes of rows with the same value in it become "
        "known together, after the last of these rows."
    ),
]
Positive = Annotated[
    str | None,
    Option(
        help="The value of the outcome that counts as 1; all others count as 0. Without it outcomes are 0/1, "
        "true/false or yes/no."
    ),
]
ForecastScale = Annotated[
    Literal["probability", "percent", "logits"],
    Option(help="How forecasts are written; logits are log odds. Texts such as 63% are read in any case."),
]
DropInvalid = Annotated[
    bool,
    Option(
        "--drop-invalid",
        help="Leave out rows with bad values, and say how many. Without it the first such value is an error.",
    ),
]

LedgerFile = Annotated[Path, Option(help="The ledger, which an engine may be using, or an archive of one.")]
WrittenLedger = Annotated[Path, Option(help="The file that keeps every event; made if there is none.")]
Config = Annotated[
    Path | None,
    Option(
        help="A TOML file that says which forecasters the keys get. Default: as in the ledger; a new one "
        "begins with the default configuration."
    ),
]
Park = Annotated[
    int | None,
    Option(
        min=0,
        help="An outcome that comes before its query waits for it until so many more events have come; 0: "
        "it is rejected as unknown. Default: as in the configuration.",
    ),
]
LogJson = Annotated[
    bool, Option("--log-json", help="Alarms, rejected events and all else on stderr, one JSON object a line.")
]
