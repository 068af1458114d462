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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unmask._messages import worded
from unmask.cli import (
    audit,
    data,
    diagnose,
    evaluate,
    missing,
    options,
    predict,
    show,
    threshold,
    train,
)
from unmask.cli.options import option
from unmask.cli.output import messages, one_line, print_in_any_encoding, show_error, warn
from unmask.cli.words import CommandLine


class _Commands(TyperGroup):
    """The commands; usage errors are one line, in which control characters are shown."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _one_line_errors():
            return super().make_context(*args, **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command, as always; messages then use its words."""
        name, command, rest = super().resolve_command(ctx, args)
        inner = [word for word in rest[:1] if word in getattr(command, "commands", ())]
        ctx.with_resource(worded(CommandLine(self, (str(name), *inner))))
        return name, command, rest

    def invoke(self, ctx: Any) -> object:
        with _one_line_errors():
            return super().invoke(ctx)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(_CLOSED) from None
    except SystemExit as end:  # Rich's, where it finds nobody reading
        raise SystemExit(_CLOSED if end.code == 1 else end.code) from None
    except Exception as error:
        if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
            raise
        messages.print(one_line(f"unmask: {_usage(error)}"), soft_wrap=True)
        raise SystemExit(2) from None


def _usage(error: Any) -> str:
    """Return one line about a usage error of Typer: what is wrong, and the nearest option."""
    context: Any = getattr(error, "ctx", None)
    where = "unmask" if context is None else context.command_path
    typed = getattr(error, "option_name", None)
    if typed is not None and type(error).__name__ == "NoSuchOption":
        offered = [name for each in context.command.params for name in each.opts]
        near = options.nearest(typed, offered)
        return f"{where} has no option {typed}{near or f'; see {where} --help'}"
    message = str(error.format_message()).rstrip(".")
    return message if message.endswith("?") else f"{message}; see {where} --help"


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
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    DATA: (data.info, data.propensity, data.hide, data.convert),
    TRAIN: (train.train, predict.predict),
    MEASURE: (evaluate.evaluate, threshold.threshold, diagnose.diagnose),
    FIND: (missing.missing, missing.complete),
    SHOW: (show.demo, show.report, show.reproduce, show.warm),
}
for _heading, _functions in COMMANDS.items():
    for _function in _functions:
        _kind = show.Reproduce if _function is show.reproduce else options.Command
        app.command(cls=_kind, rich_help_panel=_heading)(options.spread(_function))
app.add_typer(audit.app, name="audit", rich_help_panel=MEASURE)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, option("Print the version.", "--version")] = False,
    max_expansion: Annotated[
        float | None, option("Read files that unpack to this many times their size; default 200.")
    ] = None,
    max_columns: Annotated[
        int | None, option("Read files with this many features or labels; default 100 million.")
    ] = None,
    max_json: Annotated[
        int | None, option("Read JSON of this many bytes; default 200 million.")
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
