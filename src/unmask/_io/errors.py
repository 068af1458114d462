"""Errors in lines of text: their messages name file, line and token, and say what to do."""

from __future__ import annotations

import re
from typing import NamedTuple

from unmask._messages import setting


class Rules(NamedTuple):
    """How `_kernels.text.parse` reads lines."""

    layout: int
    base: int
    n_columns: int
    label_base: int
    n_labels: int


class Fault(NamedTuple):
    """One of the kernel's codes, and the byte where the offending token starts."""

    code: int
    where: int


def message(path: str, line: int, fault: Fault, block: bytes, rules: Rules) -> str:
    """The sentence about `fault`."""
    from unmask._kernels import text

    of_labels = rules.layout == text.LABELS
    noun = "label" if of_labels else "column" if rules.layout == text.PAIRS else "feature"
    shape = {text.LABELS: "label, or label:1"}.get(rules.layout, "index:value")
    in_list = fault.code in (text.BAD_LABEL, text.HIGH_LABEL, text.TWICE_LABEL)
    token = quoted(token_at(block, fault.where, b" \t\n," if in_list else b" \t\n"))
    says = {
        text.BAD_INDEX: f"expected {shape}, got {token}",
        text.BAD_LABEL: f"expected labels as whole numbers between commas, got {token}",
        text.HIGH_INDEX: _out_of_range(noun, token, rules.base, rules.n_columns),
        text.HIGH_LABEL: _out_of_range("label", token, rules.label_base, rules.n_labels),
        text.NO_VALUE: f"{noun} without a value: expected index:value, got {token}",
        text.BAD_VALUE: f"expected a number that is finite as float32, got {token}",
        text.TWICE_INDEX: f"a {noun} stands twice in one row: {token}",
        text.TWICE_LABEL: f"a label stands twice in one row: {token}",
        text.NOT_ONE: f"a label's value must be 1, got {token}; read a feature file with "
        f"{setting('format', 'features')}",
        text.BLANK_LINE: "empty line; a row without labels starts with a space, "
        "so remove the line or write a space",
    }
    return f"{path}, line {line}: {says[fault.code]}."


def token_at(block: bytes, start: int, ends: bytes = b" \t\n") -> bytes:
    """The bytes from `start` to the next of `ends`, without the \\r of a line end."""
    match = re.compile(b"[^" + ends + b"]*").match(block, start)
    token, end = (match.group(), match.end()) if match else (b"", start)
    return token.removesuffix(b"\r") if block[end : end + 1] in (b"\n", b"") else token


def quoted(token: bytes) -> str:
    """A token as messages quote it: readable, and not too long."""
    readable = token[:60].decode("utf-8", "backslashreplace")
    return repr(readable if len(readable) <= 40 else readable[:40] + "…")


def _out_of_range(noun: str, token: str, base: int, count: int) -> str:
    hint = "" if base else f"; if the file counts from 1, read it with {setting('base', 1)}"
    return f"{noun} must lie in {base} … {base + count - 1}, got {token}{hint}"
