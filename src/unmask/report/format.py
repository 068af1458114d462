"""Values as text; they live in `unmask._text`, which every room may use."""

from unmask._text import format_value, printable

__all__ = ["format_value", "printable"]
