"""JSON files, and the names of other files in them: neither is trusted.

Whatever is wrong with a JSON file is a ValueError that names it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def read_json(path: str | os.PathLike[str], contents: bytes | None = None) -> Any:
    """What a JSON file holds; `contents` are its bytes, if those are known.

    >>> read_json("a.json", b'{"n": 1}')
    {'n': 1}
    """
    try:
        return json.loads(Path(path).read_bytes() if contents is None else contents)
    except RecursionError:
        raise ValueError(f"{os.fspath(path)} is not JSON of ours: it is nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not JSON ({error}).") from None


def is_inside(folder: Path, name: Any) -> bool:
    """Whether a name in a manifest means a file in the folder itself, links followed.

    >>> is_inside(Path("."), "shard-1"), is_inside(Path("."), "../shard-1")
    (True, False)
    """
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:"):
        return False
    return name.isprintable() and (folder / name).resolve().parent == folder.resolve()
