"""The command `unmask`: parses, calls one function of the library, prints.

Results go to standard output, progress and messages to standard error. Exit codes: 0 done, 1 an
internal error (with a traceback), 2 a user's mistake (in one line), 130 Ctrl-C, 141 nobody reads
the output any more (as after `| head`), 143 terminated.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unmask._messages import worded
from unmask._text import visible
from unmask.cli import (
    audit,
    data,
    demo,
    diagnose,
    evaluate,
    missing,
    predict,
    report,
    reproduce,
    threshold,
    train,
    warm,
)
from unmask.cli.output import print_in_any_encoding, show_error, warn
from unmask.cli.words import CommandLine


class _Commands(TyperGroup):
    """The commands; usage errors quote what was typed, with control characters shown as such."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _visible_errors():
            return super().make_context(*args, **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As always; messages then use the words of the command."""
        name, command, rest = super().resolve_command(ctx, args)
        inner = [word for word in rest[:1] if word in getattr(command, "commands", ())]
        ctx.with_resource(worded(CommandLine(self, (str(name), *inner))))
        return name, command, rest

    def invoke(self, ctx: Any) -> object:
        with _visible_errors():
            return super().invoke(ctx)


@contextmanager
def _visible_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(_CLOSED) from None
    except SystemExit as end:  # Rich's, where it finds nobody reading
        raise SystemExit(_CLOSED if end.code == 1 else end.code) from None
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):  # of click, or typer's
            error.message = visible(error.message)
        raise


_CLOSED, _TERMINATED = 128 + signal.SIGPIPE, 128 + signal.SIGTERM

DATA, TRAIN, MEASURE = "Read and write data", "Train and predict", "Measure"
FIND, SHOW = "Find missing labels", "Pages, studies, and a first look"
"""The headings of `unmask --help`."""

app = typer.Typer(
    name="unmask",
    cls=_Commands,
    help="Learning and evaluating multilabel models when labels are missing.",
    epilog="Exit codes: 0 done; 1 an internal error; 2 a mistake in the command line or a file; "
    "130 Ctrl-C; 141 nobody reads the output any more; 143 terminated.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("info", rich_help_panel=DATA)(data.info)
app.command("propensity", rich_help_panel=DATA)(data.propensity)
app.command("hide", rich_help_panel=DATA)(data.hide)
app.command("convert", rich_help_panel=DATA)(data.convert)
app.command("train", rich_help_panel=TRAIN)(train.train)
app.command("predict", rich_help_panel=TRAIN)(predict.predict)
app.command("evaluate", rich_help_panel=MEASURE)(evaluate.evaluate)
app.command("threshold", rich_help_panel=MEASURE)(threshold.threshold)
app.command("diagnose", rich_help_panel=MEASURE)(diagnose.diagnose)
app.add_typer(audit.app, name="audit", rich_help_panel=MEASURE)
app.command("missing", rich_help_panel=FIND)(missing.missing)
app.command("complete", rich_help_panel=FIND)(missing.complete)
app.command("demo", rich_help_panel=SHOW)(demo.demo)
app.command("report", rich_help_panel=SHOW)(report.report)
app.command("reproduce", cls=reproduce.Reproduce, rich_help_panel=SHOW)(reproduce.reproduce)
app.command("warm", rich_help_panel=SHOW)(warm.warm)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    max_expansion: Annotated[
        float | None,
        typer.Option(help="Read files that unpack to this many times their size; default 200."),
    ] = None,
    max_columns: Annotated[
        int | None,
        typer.Option(help="Read files with this many features or labels; default 100 million."),
    ] = None,
    max_json: Annotated[
        int | None,
        typer.Option(help="Read JSON of this many bytes; default 200 million."),
    ] = None,
) -> None:
    if version:
        from unmask import __version__

        typer.echo(__version__)
        raise typer.Exit
    if not max_expansion is max_columns is max_json is None:
        from unmask.data import limits

        context.with_resource(limits(expansion=max_expansion, columns=max_columns, json=max_json))


def main() -> None:
    """Run the command line; what the library refuses becomes one readable line."""
    print_in_any_encoding()
    try:
        with warnings.catch_warnings(), _terminable(), _output_written():
            warnings.showwarning = lambda message, *_, **__: warn(message)
            app()
    except BrokenPipeError:
        sys.exit(_CLOSED)
    except (ValueError, OSError) as error:
        show_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let a command that is told to end clean up, as after Ctrl-C."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _output_written() -> Iterator[None]:
    """Write what was printed before the command ends; what cannot be written is given up once."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # the caller closed it
                sys.stdout.flush()
    except OSError as error:
        if error.filename is None and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EFBIG):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise OSError(error.errno, error.strerror, "standard output") from None
        raise
