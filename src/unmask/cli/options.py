"""Options that several commands share: the same name, meaning and default everywhere.

Names that the library keeps in a registry (losses, corrections, studies …) are offered by shell
completion from that registry; it is imported only when the shell asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unmask.parallel import Backend


def names(
    module: str, registry: str, *others: str, several: bool = False
) -> Callable[[str], list[str]]:
    """Completes from a registry and `others`; `several`: the last of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        choices = [*getattr(import_module(module), registry), *others]
        before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        return [f"{before}{comma}{name}" for name in choices if name.startswith(last)]

    return complete


def presets(incomplete: str) -> list[str]:
    """Completes names of public data sets."""
    from unmask.propensity.models import PRESETS

    return [preset.name for preset in PRESETS if preset.name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Names of propensity models that begin so, for the shell."""
    from unmask.propensity import MODELS

    model, colon, rest = incomplete.partition(":")
    if model == "jain" and colon:
        return [f"jain:{name}" for name in presets(rest)]
    return [name for name in MODELS if name.startswith(incomplete)]


def existing(path: Path | Sequence[Path] | None) -> Path | Sequence[Path] | None:
    """Files to read, before anything else is said: a path that does not exist is an error."""
    for each in [path] if isinstance(path, Path) else path or ():
        if not each.exists():
            from unmask.data.reading import locate

            locate(each)  # which finds files that begin so, or raises
    return path


def _use_threads(count: int | None) -> int | None:
    from unmask._kernels import set_threads

    set_threads(count)
    return count


def _set_quiet(quiet: bool) -> bool:
    from unmask.cli.output import progress_console

    progress_console.quiet = quiet
    return quiet


def backend(
    scheduler: str | None, ca_file: Path | None, cert: Path | None, key: Path | None
) -> Backend:
    """What `--scheduler` and the options for TLS name, for the library."""
    if ca_file is None and cert is None and key is None:
        return scheduler
    if scheduler is None:
        raise ValueError(
            "--tls-ca-file, --tls-cert and --tls-key go with --scheduler tls://HOST:PORT."
        )
    if scheduler.startswith("local:"):
        raise ValueError(f"{scheduler} makes its own certificates; leave out the --tls options.")
    from unmask.parallel import Scheduler

    return Scheduler(scheduler, ca_file, cert, key)


Source = Annotated[
    Path, typer.Argument(help="A data file, or a folder that holds one.", callback=existing)
]
Part = Annotated[
    str | None, typer.Option(help="Which part of a folder to read, for example train or test.")
]
Format = Annotated[
    str | None,
    typer.Option(
        help="File format, when it should not be found from the content.",
        autocompletion=names("unmask.data", "FORMATS"),
    ),
]
Text = Annotated[
    str | None, typer.Option(help="Column or columns of texts in a table, separated by commas.")
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help="Column of labels in a table, or columns of 0 and 1, separated by commas; default: "
        "labels, tags …",
    ),
]
IdColumn = Annotated[
    str | None, typer.Option("--id", help="Column of ids in a table; default: id, doc_id …")
]
Table = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="NAME=VALUE",
        help="How tables are read: labels, id, text, layout, delimiter, separator, encoding, "
        "nulls, repeated, negative or ignored, such as delimiter=';'; may be repeated.",
    ),
]
Judgements = Annotated[
    Path | None,
    typer.Option(
        help="Pairs of row and label that are verified or ignored: lines `row label` are ignored; "
        "or a table row (or id), label, judgement (positive, negative, ignore).",
        callback=existing,
    ),
]
Train = Annotated[
    Path | None,
    typer.Option(
        help="Training file, from whose labels propensities are computed.", callback=existing
    ),
]
Propensity = Annotated[
    str,
    typer.Option(
        help="jain, jain:a,b, jain:DATASET, constant:p, inverse_linear:head,tail, or a file "
        "with one number per label.",
        autocompletion=models,
    ),
]


def _page_file(path: Path | None) -> Path | None:
    """Refuse a page under the name of something else."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(
            f"a page is HTML; name it {path.with_suffix('.html').name}. For the numbers as a file, "
            "send those of --json into one."
        )
    return path


Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]
Title = Annotated[str | None, typer.Option(help="Title of the page.")]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.")]
Html = Annotated[
    Path | None,
    typer.Option("--html", "-o", help="Also write a page to this file.", callback=_page_file),
]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
Threads = Annotated[
    int | None, typer.Option(help="Threads to use; default: one per core.", callback=_use_threads)
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Run on a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT, or local:N for N processes "
        "here."
    ),
]
TlsCaFile = Annotated[
    Path | None, typer.Option(help="For tls://: PEM file of the authority that signs certificates.")
]
TlsCert = Annotated[Path | None, typer.Option(help="For tls://: PEM file of our certificate.")]
TlsKey = Annotated[
    Path | None,
    typer.Option(help="For tls://: PEM file of its key; default: in the file of --tls-cert."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No progress; only results and errors.", callback=_set_quiet
    ),
]


def changed(context: typer.Context, **settings: object) -> dict[str, Any]:
    """Settings that were typed; left out, they may have other defaults elsewhere."""
    sources = {name: context.get_parameter_source(name) for name in settings}
    return {
        name: value
        for name, value in settings.items()
        if (source := sources[name]) is not None and source.name != "DEFAULT"
    }
