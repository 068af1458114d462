"""`unmask warm`: compile ahead of time, when an image is built or before many jobs start."""

from __future__ import annotations

from unmask.cli import options
from unmask.cli.output import bar, show_facts, show_json


def warm(
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compile every kernel that the commands use, and say where they are kept (NUMBA_CACHE_DIR).

    [dim]unmask warm[/]
    """
    from unmask import warm as library

    with bar("compiling") as step:
        summary = library.run(progress=step)
    if as_json:
        show_json(summary.to_dict())
        return
    facts = {
        "kernels": summary.kernels,
        "compiled now": summary.compiled,
        "bytes": summary.bytes,
        "kept in": summary.folder,
        "seconds": summary.seconds,
    }
    show_facts("compiled kernels", facts)
