"""For mkdocstrings: examples in docstrings become code blocks; nothing in them is markup."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that was found in the source."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Docstring text with every run of lines from `>>>` to the next empty line as a code block.

    >>> fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nMore.")
    'Adds.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nMore.'
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(_paragraph(paragraph) for paragraph in paragraphs)


def _paragraph(text: str) -> str:
    lines = text.strip("\n").splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith(">>>")), None)
    if start is None:
        return text
    return "\n".join([*lines[:start], "```pycon", *lines[start:], "```"])
