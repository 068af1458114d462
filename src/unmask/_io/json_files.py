"""JSON files, and the names of other files in them: neither is trusted.

Whatever is wrong with a JSON file is a ValueError that names it. It is not read if it is longer
than `allowance` permits.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from unmask._io import limits
from unmask._io.streams import reading


def tree(
    path: str | os.PathLike[str], contents: bytes | None = None, *, follow: bool = True
) -> Any:
    """What a JSON file holds; `contents` are its bytes, if those are known.

    >>> tree("a.json", b'{"n": 1}')
    {'n': 1}
    """
    if contents is None:
        with reading(path, follow=follow) as file:
            contents = read_json(path, file, os.fstat(file.fileno()).st_size)
    limits.refuse_json(path, len(contents))
    try:
        return json.loads(contents)
    except RecursionError:
        raise ValueError(f"{os.fspath(path)} is not JSON of ours: it is nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not JSON ({error}).") from None


def read_json(path: str | os.PathLike[str], file: BinaryIO, size: int) -> bytes:
    """The next `size` bytes of a file, if they are not too many to be JSON."""
    limits.refuse_json(path, size)
    return file.read(size)


def is_name(name: Any) -> bool:
    """Whether a name in a manifest can be that of a file in the folder itself.

    >>> is_name("shard-1"), is_name("../shard-1"), is_name("/etc/a"), is_name(".."), is_name(None)
    (True, False, False, False, False)
    """
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:"):
        return False
    return name.isprintable()


def beside(folder: Path, name: Any) -> bool:
    """Whether a name in a manifest means a file in the folder itself, links followed.

    >>> beside(Path("."), "shard-1"), beside(Path("."), "../shard-1"), beside(Path("."), "/etc/a")
    (True, False, False)
    """
    return is_name(name) and bool((folder / name).resolve().parent == folder.resolve())
