"""Options that several commands share: the same name, meaning and default everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[Path, typer.Argument(help="A data file, or a folder that holds one.")]
Part = Annotated[
    str | None, typer.Option(help="Which part of a folder to read, for example train or test.")
]
Format = Annotated[
    str | None, typer.Option(help="File format, when it should not be found from the content.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]
Propensity = Annotated[
    str,
    typer.Option(
        help="jain, jain:a,b, jain:DATASET, constant:p, inverse_linear:head,tail, or a file "
        "with one number per label."
    ),
]
Threads = Annotated[int | None, typer.Option(help="Threads to use; default: one per core.")]
