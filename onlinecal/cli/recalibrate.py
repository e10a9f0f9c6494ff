"""The verb `recalibrate`: a table of probabilities in, better ones out, and what that was worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from inspect import Parameter, Signature, getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from onlinecal.cli.recalibrating.options import CHOOSE, METHODS, ChooseSettings, ClassColumns, Results, Rows
from onlinecal.cli.verbs import INTERRUPTED, Verb, Verbs, warn

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TABLES = "recalibrated.parquet", "report.csv"
"""What is written that could be read again."""
Kind = TypeVar("Kind", bound="DataclassInstance")


class ByMethod(Verbs):
    """A group whose verbs may be named last, or not at all: `FILE --method lp` is `lp FILE`.

    `FILE` alone is `choose FILE`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Bring the method to the front, then read on as usual."""
        return super().parse_args(ctx, method_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The method's verb; ValueError lists those there are."""
        if args[0] not in (*METHODS, CHOOSE):
            raise ValueError(f"unknown method {args[0]!r}; known: {', '.join(METHODS)}")
        return super().resolve_command(ctx, args)


def method_first(args: list[str]) -> list[str]:
    """Arguments that name the method with --method, or none beside a file, as if they had named it first."""
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if name == "--method" and equals:
            return [value, *args[:at], *args[at + 1 :]]
        if name == "--method" and at + 1 < len(args):
            return [args[at + 1], *args[:at], *args[at + 2 :]]
    first = args[0] if args else "--help"
    if first in (*METHODS, CHOOSE, "--help", "-h") or "--method" in args:
        return args
    # a word that neither is nor looks like a file is a method that does not exist
    return [CHOOSE, *args] if first.startswith("-") or "." in first or Path(first).exists() else args


class MethodVerb(Verb):
    """A method's verb; it knows which other methods an option belongs to."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; ValueError for an option that only other methods have."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)
            owners = [name for name, own in METHODS.items() if option in _options(own)]
            if not owners:
                raise
            here = "the comparison of all" if self.name == CHOOSE else f"--method {self.name}"
            raise ValueError(f"{option} belongs to --method {' and '.join(owners)}, not to {here}") from error


def _options(settings: type) -> set[str]:
    return {f"--{field.name.replace('_', '-')}" for field in fields(settings)}


app = typer.Typer(cls=ByMethod, rich_markup_mode="rich", no_args_is_help=False)


@app.callback()
def recalibrate() -> None:
    """Recalibrate a table of probabilities; say what it gained on rows that were not fitted.

    [bold]onlinecal recalibrate FILE[/bold] tries all methods that apply, prints one table,
    and says which to take; [bold]onlinecal recalibrate choose --help[/bold] has its options.

    A method may be named first, or with --method. Each has options of its own:
    [bold]onlinecal recalibrate lp --help[/bold].

    A random half of the rows is fitted, the other tested; --split says otherwise.
    All errors are averages over rows.

    Examples:

    [bold]onlinecal recalibrate cifar.npz --out results/cifar[/bold]

    [bold]onlinecal recalibrate lp cifar.npz --out results/lp[/bold]

    [bold]onlinecal recalibrate scans.csv --method decision --label finding --losses clinic.csv --plot[/bold]

    [bold]onlinecal recalibrate groups loans.csv --forecast risk --outcome defaulted --group sex[/bold]

    [bold]onlinecal recalibrate boost loans.csv --outcome defaulted --features age,income[/bold]

    [bold]onlinecal recalibrate lp old.csv --label y --apply new.csv --out results/new[/bold]
    """


def _verb(method: str) -> Callable[..., None]:
    """A function whose parameters are FILE, the settings of the method, and what all methods share."""
    own = ChooseSettings if method == CHOOSE else METHODS[method]
    kinds = ", Parquet or NPZ" if issubclass(own, ClassColumns) else " or Parquet"

    def verb(file: Path, **given: Any) -> None:
        _run(method, file, _taken(own, given), _taken(Rows, given), _taken(Results, given))

    hints = {"file": Annotated[Path, typer.Argument(help=f"CSV, JSON Lines{kinds}.")]}
    parameters = [Parameter("file", Parameter.KEYWORD_ONLY, annotation=hints["file"])]
    for source in (own, Rows, Results):
        hints |= get_type_hints(source, include_extras=True)
        parameters += [
            Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
            for field in fields(source)
        ]
    vars(verb)["__signature__"] = Signature(parameters)
    verb.__annotations__ = hints
    verb.__doc__ = getdoc(own)
    return verb


def _taken(kind: type[Kind], given: dict[str, Any]) -> Kind:
    """An object made of those arguments that are its fields."""
    return kind(**{field.name: given[field.name] for field in fields(kind)})


for _method in (CHOOSE, *METHODS):
    app.command(_method, cls=MethodVerb)(_verb(_method))


def _run(method: str, file: Path, settings: Any, rows: Rows, results: Results) -> None:
    """Fit, compare, write what is wanted, then print the report."""
    from onlinecal.cli.output import print_json
    from onlinecal.cli.output import results as on_stdout
    from onlinecal.cli.recalibrating.report import write_report

    folder = results.out or (Path("results/recalibrate") if results.plot or rows.apply is not None else None)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, not a folder to write into")
    for read in filter(None, (file, rows.apply)):
        if folder is not None and read.resolve() in {folder.resolve() / name for name in TABLES}:
            raise ValueError(f"{read} would be written over with results of its own: name another --out")
    report: Any = import_module(f"onlinecal.cli.recalibrating.{method}").recalibrate(file, rows, settings)
    warn(report.warnings)
    # a comparison that was interrupted writes nothing
    files = [] if folder is None or report.interrupted else write_report(report, folder)
    if results.as_json:
        print_json({**report.record(), "files": [str(path) for path in files]})
    else:
        console = on_stdout()
        for part in report.shown(console.width):
            console.print(part)
        for path in files:
            console.print(str(path), soft_wrap=True)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)
