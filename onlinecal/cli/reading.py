"""The options that say how columns of a file are read, each declared once for all verbs."""

from __future__ import annotations

from typing import Annotated

from typer import Option

COLUMNS = "How columns are read"
FILES = "CSV (also with ; or tabs), JSON Lines, both also .gz, Parquet or NPZ; - is standard input."

Positive = Annotated[
    str | None,
    Option(
        "--positive", rich_help_panel=COLUMNS, help="The value of the outcome that counts as 1, others as 0."
    ),
]
Percent = Annotated[
    bool, Option("--percent", rich_help_panel=COLUMNS, help="Forecasts are percentages; 63% is read anyway.")
]
Logits = Annotated[bool, Option("--logits", rich_help_panel=COLUMNS, help="Forecasts are log-odds.")]
DropInvalid = Annotated[
    bool,
    Option("--drop-invalid", rich_help_panel=COLUMNS, help="Leave out rows with bad values, and count them."),
]
