"""The reference of the command line: every command and its examples, every option and its default.

All of it is read off the commands themselves, but for `EXAMPLES`: what to write after an option.
The tests hold it to be complete, and let the commands parse every example.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

EXAMPLES = {
    "SOURCE": "train.txt.gz", "TARGET": "train.npz", "MODEL": "model",
    "REVIEW": "findings.review.json",
    "STORED": "evaluation.json", "NAME": "recall-simulation", "FOLDER": "audit",
    "--C": "0.3", "--adjudicator": "ann", "--annotations": "first.txt second.txt",
    "--answers": "answers.json", "--argilla": "records.json", "--audit": "seen.txt complete.txt",
    "--bands": "5", "--base": "1", "--beam": "50", "--bias": "free", "--block": "500",
    "--budget": "100", "--compare": "theirs.txt", "--confidence": "0.9", "--correction": "unbiased",
    "--data": "datasets", "--dataset": "EURLex-4K", "--design": "stratified",
    "--estimators": "vanilla,unbiased", "--first": "smaller", "--for": "label-studio",
    "--format": "libsvm", "--groups": "years.txt", "--hierarchy": "terms.obo",
    "--html": "page.html",
    "--id": "doc_id", "--ids": "ids.txt", "--interval": "bca", "--judgements": "verified.txt",
    "--k": "10", "--l2": "1e-5", "--label-names": "names.txt", "--label-studio": "tasks.json",
    "--labels": "test.txt.gz", "--loss": "logistic", "--losses": "ova-bce,pal-n-cce",
    "--lowest": "0.05", "--metric": "macro-F1", "--metrics": "P@5,R@5", "--missing": "2",
    "--model": "tree", "--observed": "sampled", "--output": "result", "--page": "judge.html",
    "--part": "test", "--per": "label", "--per-label": "labels.csv",
    "--predictions": "predictions.txt",
    "--prior": "50", "--propensity": "constant:0.5", "--prune": "0.01",
    "--rank-by": "probability/propensity", "--reduction": "pal", "--rounds": "3",
    "--scheduler": "local:4", "--scores": "predictions.txt", "--seed": "1",
    "--sensitivity": "powers", "--size": "tiny", "--table": "'delimiter=;'",
    "--text": "title,abstract",
    "--texts": "texts.txt", "--threads": "2", "--threshold": "0.5", "--title": "'Our tags'",
    "--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem", "--to": "labels",
    "--max-iter": "200",
    "--tol": "1e-5", "--top": "100", "--train": "train.txt.gz", "--trees": "5", "--tune": "R@5",
    "--unit": "pairs", "--until-at-least": "0.8", "--until-width": "0.03",
    "--vocabulary": "subjects.ttl", "--wrong": "0.5",
    "--max-expansion": "1000", "--max-columns": "1000000000", "--max-json": "1000000000",
}  # fmt: skip
"""What may stand after an option, or in the place of an argument."""

OWN = {
    ("threshold", "--threshold"): "0.3",
    ("complete", "--threshold"): "0.99",
    ("hide", "--output"): "hidden.txt.gz",
    ("predict", "--output"): "predictions.txt",
    ("evaluate", "--threshold"): "thresholds.json",
    ("audit plan", "--design"): "stratified",
    **{(command, "--labels"): "tags" for command in
       ("info", "convert", "hide", "propensity", "train", "diagnose", "missing", "complete")},
}  # fmt: skip
"""Where the same name wants something else."""


def commands(group: Any | None = None, before: str = "") -> dict[str, Any]:
    """All commands by what is typed after `unmask`; those of groups as `group command`."""
    import typer

    from unmask.cli import app

    group = typer.main.get_command(app) if group is None else group
    named: dict[str, Any] = {}
    for name, command in group.commands.items():
        words = f"{before}{name}"
        inner = getattr(command, "commands", None)
        named |= commands(command, f"{words} ") if inner else {words: command}
    return named


def reference() -> str:
    """Every command: what it does, examples, and a table of its options."""
    import typer

    from unmask.cli import app

    first = "\n\n".join(
        ["## unmask", "Before the name of the command:", _options("", typer.main.get_command(app))]
    )
    return "\n\n".join([first, *("\n\n".join(_section(*each)) for each in commands().items())])


def _section(name: str, command: Any) -> Iterator[str]:
    words = inspect.getdoc(command.callback) or ""
    yield f"## unmask {name}"
    yield re.sub(r"\s*\[dim\].*?\[/\][^\n]*", "", words, flags=re.DOTALL).strip()
    yield "\n".join(["```sh", *examples(words), "```"])
    yield _options(name, command)


def _options(name: str, command: Any) -> str:
    rows = [_row(name, each) for each in command.params if not each.hidden]
    lines = [["option", "default", "example", "meaning"], ["---"] * 4, *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def examples(words: str) -> list[str]:
    """The examples in the help of a command, a line each.

    >>> examples("Say.\\n\\n[dim]unmask info a.txt[/]\\n[dim]unmask info \\\\\\n   b.txt[/]")
    ['unmask info a.txt', 'unmask info b.txt']
    """
    joined = re.sub(r"\\+\n\s*", "", words)
    return [" ".join(each.split()) for each in re.findall(r"\[dim\](.*?)\[/\]", joined, re.DOTALL)]


def _row(command: str, parameter: Any) -> list[str]:
    names = [f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts)]
    meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
    if parameter.param_type_name == "argument":
        names = [f"`{parameter.name.upper()}`"]
    return [", ".join(names), default(parameter), f"`{example(command, parameter)}`", meaning]


def default(parameter: Any) -> str:
    """The default as it would be typed; required options have none."""
    if parameter.required:
        return "required"
    value = parameter.default
    if getattr(parameter, "is_flag", False):
        return "on" if value else "off"
    if value is None or value == "" or callable(value):
        return "–"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`".replace("|", "\\|")


def example(command: str, parameter: Any) -> str:
    """An option with something after it, or an argument.

    >>> example("predict", next(p for p in commands()["predict"].params if p.name == "k"))
    '--k 10'
    """
    if parameter.param_type_name == "argument":
        return OWN.get((command, parameter.name.upper()), EXAMPLES[parameter.name.upper()])
    name = next((each for each in parameter.opts if each.startswith("--")), parameter.opts[0])
    if getattr(parameter, "is_flag", False):
        return parameter.secondary_opts[0] if parameter.secondary_opts else name
    return f"{name} {OWN.get((command, name), EXAMPLES[name])}"
