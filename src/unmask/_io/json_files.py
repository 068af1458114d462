"""JSON files, and the names of other files in them: neither is trusted.

Whatever is wrong with a JSON file is a ValueError that names it. It is not read if it is longer
than `limits` permit.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from unmask._io.file_limits import refuse_json
from unmask._io.streams import open_readable
from unmask._typing import PathLike


def read_json(path: PathLike, contents: bytes | None = None, *, follow: bool = True) -> Any:
    """What a JSON file holds; `contents` are its bytes, if those are known.

    >>> read_json("a.json", b'{"n": 1}')
    {'n': 1}
    """
    if contents is None:
        with open_readable(path, follow=follow) as file:
            contents = read_json_bytes(path, file, os.fstat(file.fileno()).st_size)
    refuse_json(path, len(contents))
    try:
        return json.loads(contents, object_pairs_hook=distinct)
    except RecursionError:
        raise ValueError(f"{os.fspath(path)} is not JSON of ours: it is nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not JSON ({error}).") from None


def read_json_bytes(path: PathLike, file: BinaryIO, size: int) -> bytes:
    """The next `size` bytes of a file, if they are not too many to be JSON."""
    refuse_json(path, size)
    return file.read(size)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError if a key stands twice in it, which could mean two things."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return made


def is_name(name: object) -> TypeGuard[str]:
    """Whether a name in a manifest can be that of a file in the folder itself.

    >>> is_name("shard-1"), is_name("../shard-1"), is_name("/etc/a"), is_name(".."), is_name(None)
    (True, False, False, False, False)
    """
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:"):
        return False
    return name.isprintable()


def is_inside(folder: Path, name: object) -> bool:
    """Whether a name in a manifest means a file in the folder itself, links followed.

    >>> is_inside(Path("."), "shard-1"), is_inside(Path("."), "../shard-1")
    (True, False)
    """
    return is_name(name) and bool((folder / name).resolve().parent == folder.resolve())
