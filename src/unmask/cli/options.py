"""Options that several commands share, where defaults come from, and what `--help` shows first.

Defaults and help stand with the library: `RECIPE.C` is the default of the field `C` of a recipe,
and the field's help is the option's; other help stands in the docstring of a command, below the
topic of the option. A parameter of a command that is a record, such as `Columns`, makes an option
of each of its fields (`spread`). Registries of the library, which the shell completes, and records
are imported only when somebody asks.

An option with a topic (`rich_help_panel`) is shown by `--help-all`; the others open the help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from unmask.cli.output import progress_console, show_facts, show_json

if TYPE_CHECKING:
    from unmask.parallel import Backend

FIRST = 12
"""Options that `--help` shows at most."""
READING, ESTIMATES, TRAINING = "Reading files", "Estimates", "Training"
PAGES, RUNNING, CLUSTER = "Pages and files", "Running", "On a cluster"
"""Topics of the options that `--help-all` adds."""


@dataclass(frozen=True)
class _Parameter:
    """A field of a record or a parameter of a function of the library, by their names."""

    of: str
    name: str

    def fill(self, option: Any) -> None:
        """Give an option the default and, if it has none of its own, the help."""
        module, _, name = self.of.rpartition(".")
        target = getattr(import_module(module), name)
        default = inspect.signature(target).parameters[self.name].default
        option.default = default
        if option.is_flag:
            option.flag_value = not default
        if option.help is None and is_dataclass(target):
            metadata = {each.name: each.metadata for each in fields(target)}
            option.help = metadata[self.name]["help"]


class Defaults:
    """Defaults of a record or a function: `Defaults("unmask.linear.Recipe").C` is that of C.

    Parameters
    ----------
    of : str
        The record or function.
    """

    def __init__(self, of: str) -> None:
        """See the class."""
        self._of = of

    def __getattr__(self, name: str) -> Any:
        """Return what stands for the default of a field or parameter."""
        return _Parameter(self._of, name)


RECIPE, TREE = Defaults("unmask.linear.Recipe"), Defaults("unmask.tree.TreeRecipe")
REQUEST = Defaults("unmask.metrics.request.Request")


class Command(TyperCommand):
    """A command whose help opens with at most `FIRST` options, and shows all by `--help-all`."""

    @property
    def params(self) -> list[Any]:
        """The parameters, with the defaults that stand in the library."""
        for each in self._params:
            if isinstance(each.default, _Parameter):
                each.default.fill(each)
        return self._params

    @params.setter
    def params(self, params: list[Any]) -> None:
        self._params = params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: its first options, or all of them."""
        options = [each for each in self.params if each.param_type_name == "option"]
        offered = [each for each in options if not each.hidden]
        if len(offered) <= FIRST or ctx.meta.get("unmask.help-all"):
            return super().format_help(ctx, formatter)
        later = [each for each in offered if each.rich_help_panel]
        epilog = self.epilog
        self.epilog = "\n\n".join(filter(None, [epilog, f"more: {ctx.command_path} --help-all"]))
        for each in later:
            each.hidden = True
        try:
            return super().format_help(ctx, formatter)
        finally:
            self.epilog = epilog
            for each in later:
                each.hidden = False


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta["unmask.help-all"] = True
        typer.echo(context.get_help())
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all", is_eager=True, expose_value=False, hidden=True, callback=_show_all
        ),
    ],
)


def names(
    module: str, registry: str, *others: str, several: bool = False
) -> Callable[[str], list[str]]:
    """Return a completion from a registry and `others`; `several` is for lists with commas."""

    def complete(incomplete: str) -> list[str]:
        choices = [*getattr(import_module(module), registry), *others]
        before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        return [f"{before}{comma}{name}" for name in choices if name.startswith(last)]

    return complete


def presets(incomplete: str) -> list[str]:
    """Return names of public data sets that begin so, for the shell."""
    from unmask.propensity.models import PRESETS

    return [preset.name for preset in PRESETS if preset.name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Return names of propensity models that begin so, for the shell."""
    from unmask.propensity import MODELS

    model, colon, rest = incomplete.partition(":")
    if model == "jain" and colon:
        return [f"jain:{name}" for name in presets(rest)]
    return [name for name in MODELS if name.startswith(incomplete)]


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with an option for each parameter, and for each field of a record.

    Help stands in sections of the docstring, whose headings are the topics of the options.
    """
    signature = inspect.signature(function, eval_str=True)
    summary, help_of = _sections(function)
    records: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    spread_out = [_HELP_ALL]
    for each in signature.parameters.values():
        if not is_dataclass(each.annotation):
            parameters.append(_documented(each.replace(kind=each.KEYWORD_ONLY), help_of))
            continue
        records[each.name] = each.annotation
        hints = get_type_hints(each.annotation, include_extras=True)
        for kind in reversed(inspect.getmro(records[each.name])[:-1]):
            help_of = help_of | _sections(kind)[1]
        spread_out += [
            _documented(
                each.replace(
                    name=one.name,
                    default=one.default,
                    annotation=hints[one.name],
                    kind=each.KEYWORD_ONLY,
                ),
                help_of,
            )
            for one in fields(each.annotation)
        ]

    parameters += spread_out

    @wraps(function)
    def run(**values: Any) -> Any:
        values.pop(_HELP_ALL.name, None)
        for name, record in records.items():
            values[name] = record(**{one.name: values.pop(one.name) for one in fields(record)})
        return function(**values)

    run.__doc__ = summary
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _sections(documented: Any) -> tuple[str, dict[str, tuple[str, str | None]]]:
    """Return what a docstring says before its sections, and help and topic of each option."""
    summary, *rest = re.split(r"(?m)\n+^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(documented) or "")
    options: dict[str, tuple[str, str | None]] = {}
    for topic, text in zip(rest[::2], rest[1::2], strict=True):
        for name, words in re.findall(r"(?m)^(\w+)\n((?: {4}.*(?:\n|$))+)", text):
            options[name] = " ".join(words.split()), None if topic == "Options" else topic
    return summary, options


def _documented(
    parameter: inspect.Parameter, help_of: Mapping[str, tuple[str, str | None]]
) -> inspect.Parameter:
    """Return a parameter whose option has the help and the topic that the docstring says."""
    if parameter.name not in help_of:
        return parameter
    annotated = get_origin(parameter.annotation) is Annotated
    kind, made = get_args(parameter.annotation) if annotated else (parameter.annotation, option())
    made = copy(made)
    made.help, made.rich_help_panel = help_of[parameter.name]
    unnamed = made.default is ... and not made.param_decls
    if kind is bool and parameter.default is False and unnamed:
        made.param_decls = (f"--{parameter.name.replace('_', '-')}",)
    return parameter.replace(annotation=Annotated[kind, made])


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a question after the likeliest of some names, or nothing."""
    near = get_close_matches(name, list(choices), n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def existing(path: Path | Sequence[Path] | None) -> Path | Sequence[Path] | None:
    """Return files to read; one that does not exist is refused before anything else is said."""
    for each in [path] if isinstance(path, Path) else path or ():
        if not each.exists():
            from unmask.data.reading import locate

            try:
                locate(each)  # which finds files that begin so, or raises
            except FileNotFoundError as error:
                beside = each.parent.iterdir() if each.parent.is_dir() else ()
                near = nearest(each.name, (other.name for other in beside))
                raise FileNotFoundError(f"{str(error).rstrip('.')}{near or '.'}") from None
    return path


def option(help: str | None = None, *names: str, topic: str | None = None, **more: Any) -> Any:
    """Return an option; one with a topic is shown by `--help-all` only."""
    return typer.Option(*names, help=help, rich_help_panel=topic, **more)


def choice(module: str, registry: str, *others: str, several: bool = False) -> Any:
    """Return an option whose values the shell completes from a registry and `others`."""
    return option(autocompletion=names(module, registry, *others, several=several))


File = Annotated[Path, option(callback=existing)]
OptionalFile = Annotated[Path | None, option(callback=existing)]
OptionalFiles = Annotated[list[Path] | None, option(callback=existing)]
"""Files that have to exist."""


def _use_threads(count: int | None) -> int | None:
    from unmask._kernels import set_threads

    set_threads(count)
    return count


def _set_quiet(quiet: bool) -> bool:
    progress_console.quiet = quiet
    return quiet


def _page_file(path: Path | None) -> Path | None:
    """Refuse a page under the name of something else."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(
            f"a page is HTML; name it {path.with_suffix('.html').name}. For the numbers as a file, "
            "send those of --json into one."
        )
    return path


Source = Annotated[
    Path, typer.Argument(help="A data file, or a folder that holds one.", callback=existing)
]
Labels = Annotated[
    Path, option("File with the observed labels of the test rows.", callback=existing)
]
Judgements = Annotated[
    Path | None,
    option(
        "Pairs of row and label that are verified or ignored: lines `row label` are ignored; "
        "or a table row (or id), label, judgement (positive, negative, ignore).",
        topic=READING,
        callback=existing,
    ),
]
Train = Annotated[
    Path | None,
    option("Training file, from whose labels propensities are computed.", callback=existing),
]
Propensity = Annotated[
    str,
    option(
        "jain, jain:a,b, jain:DATASET, constant:p, inverse_linear:head,tail, or a file "
        "with one number per label.",
        autocompletion=models,
    ),
]
Output = Annotated[Path, option("File to write.", "--output", "-o")]
Title = Annotated[str | None, option("Title of the page.")]
Confidence = Annotated[float, option(topic=ESTIMATES)]
Html = Annotated[
    Path | None, option("Also write a page to this file.", "--html", "-o", callback=_page_file)
]
Seed = Annotated[int, option("Seed of the random numbers.", topic=RUNNING)]
TableSettings = Annotated[
    list[str] | None,
    option(
        "How tables are read: labels, id, text, layout, delimiter, separator, encoding, "
        "nulls, repeated, negative or ignored, such as delimiter=';'; may be repeated.",
        "--table",
        metavar="NAME=VALUE",
        topic=READING,
    ),
]
TABLE_SETTINGS = (
    "labels", "id", "text", "layout", "delimiter", "separator", "encoding", "nulls", "repeated",
    "negative", "ignored",
)  # fmt: skip
"""Names that --table takes."""


def table_columns(table: Sequence[str] | None, **columns: str | None) -> dict[str, str]:
    """Return what --table, --text, --labels and --id say of tables, as `data.read` takes it."""
    from unmask.arrays.checks import one_of

    settings: dict[str, str] = {}
    for setting in table or ():
        name, equals, value = setting.partition("=")
        if not equals or not value:
            raise ValueError(
                f"--table takes NAME=VALUE, such as --table 'delimiter=;'; got {setting!r}."
            )
        settings[one_of(name, TABLE_SETTINGS, "name for --table")] = value
    return settings | {name: value for name, value in columns.items() if value is not None}


@dataclass(frozen=True)
class Files:
    """Options that say how the source is read.

    Reading files
    -------------
    part
        Which part of a folder to read, for example train or test.
    format
        File format, when it should not be found from the content.
    """

    part: str | None = None
    format: Annotated[str | None, option(autocompletion=names("unmask.data", "FORMATS"))] = None
    table: TableSettings = None

    @property
    def named(self) -> dict[str, str]:
        """The columns that were named, by what they hold."""
        columns = {name: getattr(self, name, None) for name in ("text", "labels", "id")}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def columns(self) -> dict[str, str]:
        """Columns and settings of tables, as `data.read` takes them."""
        return table_columns(self.table, **self.named)


@dataclass(frozen=True)
class Texts(Files):
    """Options for a source whose rows have texts and ids.

    Options
    -------
    text
        Column or columns of texts in a table, separated by commas.

    Reading files
    -------------
    id
        Column of ids in a table; default: id, doc_id …
    """

    text: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Columns(Texts):
    """Options for a source whose rows have texts, ids and labels.

    Options
    -------
    labels
        Column of labels in a table, or columns of 0 and 1, separated by commas; default: labels,
        tags …
    """

    labels: str | None = None


@dataclass(frozen=True)
class Cluster:
    """Options that say where tasks run.

    On a cluster
    ------------
    scheduler
        Run on a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT, or local:N for N processes here.
    tls_ca_file
        For tls://: PEM file of the authority that signs certificates.
    tls_cert
        For tls://: PEM file of our certificate.
    tls_key
        For tls://: PEM file of its key; default: in the file of --tls-cert.
    """

    scheduler: str | None = None
    tls_ca_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def backend(self) -> Backend:
        """The place where tasks run, for the library; None is here."""
        if self.tls_ca_file is None and self.tls_cert is None and self.tls_key is None:
            return self.scheduler
        if self.scheduler is None:
            raise ValueError(
                "--tls-ca-file, --tls-cert and --tls-key go with --scheduler tls://HOST:PORT."
            )
        if self.scheduler.startswith("local:"):
            raise ValueError(
                f"{self.scheduler} makes its own certificates; leave out the --tls options."
            )
        from unmask.parallel import Scheduler

        return Scheduler(self.scheduler, self.tls_ca_file, self.tls_cert, self.tls_key)


@dataclass(frozen=True)
class Printing:
    """Options that say what is printed.

    Options
    -------
    as_json
        Print JSON instead of a table.

    Running
    -------
    quiet
        No progress; only results and errors.
    """

    as_json: Annotated[bool, option(None, "--json")] = False
    quiet: Annotated[bool, option(None, "--quiet", "-q", callback=_set_quiet)] = False

    def show(self, title: str, facts: Mapping[str, object]) -> None:
        """Print names and values, or JSON of them."""
        show_json(facts) if self.as_json else show_facts(title, facts)


@dataclass(frozen=True)
class Running(Printing):
    """Options of every command that computes.

    Running
    -------
    threads
        Threads to use; default: one per core.
    """

    threads: Annotated[int | None, option(callback=_use_threads)] = None


def changed(context: typer.Context, **settings: object) -> dict[str, Any]:
    """Return the settings that were typed; left out, they may have other defaults elsewhere."""
    sources = {name: context.get_parameter_source(name) for name in settings}
    return {
        name: value
        for name, value in settings.items()
        if (source := sources[name]) is not None and source.name != "DEFAULT"
    }
