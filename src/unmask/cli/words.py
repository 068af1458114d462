"""The words of the command line for settings of the library: options of the commands.

What the running command has no option for is named with the command that has one, such as
`unmask convert --base 1`; what no command has is said to be Python's.
"""

from __future__ import annotations

import shlex
from typing import Any

from unmask._messages import Setting

COMMANDS = {
    "data.read": ("convert",),
    "data.limits": (),
    "data.write": ("convert",),
    "audit.plan": ("audit", "plan"),
    "evaluate": ("evaluate",),
    "linear.predict_top": ("predict",),
    "linear.train": ("train",),
    "propensity.audit": ("propensity",),
    "thresholds.fit": ("threshold",),
    "tree.predict_top": ("predict",),
    "tree.train": ("train",),
}
"""The command whose options are the settings of a function; () is `unmask` itself."""

FUNCTIONS = {
    "audit.plan": "`unmask audit plan`",
    "audit.read": "`unmask audit estimate`",
    "data.read": "--labels",
    "predictions.read": "--predictions",
    "propensity.audit": "`unmask propensity --audit`",
    "propensity.clip": "`unmask propensity --lowest`",
    "propensity.write": "`unmask propensity --audit … -o FILE.json`",
}
"""Commands in place of functions."""


class CommandLine:
    """The words of one command.

    Parameters
    ----------
    root : command
        `unmask` itself.
    path : tuple of str
        The names of the running command, such as ("audit", "plan").
    """

    def __init__(self, root: Any, path: tuple[str, ...]) -> None:
        """See the class."""
        self.root, self.path = root, path

    def setting(self, setting: Setting) -> str:
        """Return an option with its value, of this command or of another."""
        other = COMMANDS.get(setting.of)
        if setting.of == "data.read" or self.path == other:
            here = _option(self._command(self.path), setting)
            if here is not None:
                return here
        there = None if other is None else _option(self._command(other), setting)
        if other is None or there is None:
            return f"`unmask.{setting.of}` in Python"
        return f"`{' '.join(('unmask', *other, there))}`"

    def function(self, name: str) -> str:
        """Return a command or an option; where there is none, the function in Python."""
        return FUNCTIONS.get(name, f"`unmask.{name}` in Python")

    def _command(self, path: tuple[str, ...]) -> Any:
        command = self.root
        for name in path:
            command = command.commands[name]
        return command


def _option(command: Any, setting: Setting) -> str | None:
    """Return the option with the name of a setting, or --table, which takes several."""
    from unmask.cli.options import TABLE_SETTINGS

    name = f"max_{setting.name}" if setting.of == "data.limits" else setting.name
    name = "to" if setting.of == "data.write" else name
    flag = f"--{name.replace('_', '-')}"
    words = {word for each in command.params for word in (*each.opts, *each.secondary_opts)}
    if setting.of == "data.read" and setting.name in TABLE_SETTINGS and "--text" not in words:
        words.discard(flag)  # this --labels is a file, not a column
    if setting.value is False:
        return f"--no-{flag[2:]}" if f"--no-{flag[2:]}" in words else None
    if flag in words:
        alone = setting.value is None or setting.value is True
        return flag if alone else f"{flag} {_written(setting.value)}"
    if setting.of == "data.read" and setting.name in TABLE_SETTINGS and "--table" in words:
        value = "…" if setting.value is None else _written(setting.value)
        return f"--table {setting.name}={value}"
    return None


def _written(value: object) -> str:
    """Return a value as one would type it."""
    several = isinstance(value, (list, tuple))
    return shlex.quote(",".join(map(str, value)) if several else str(value))  # type: ignore[call-overload]
