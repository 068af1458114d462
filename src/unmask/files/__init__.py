"""Files as the rest of the package sees them: bytes and tables in, whole files out.

`streams` owns compression, limits and atomic writes; `text` and `archive` sparse matrices as text
and as `.npz`, `fields` JSON, its fields and records; `tables`, `delimited`, `json_lines` and
`parquet` columns of strings. `data` and `predictions` only say which columns mean what.
"""

from unmask.files.fields import (
    append_record,
    is_inside,
    is_name,
    key_text,
    pack_records,
    read_json,
    read_json_bytes,
    read_records,
    remove_records,
)
from unmask.files.streams import (
    atomic_write,
    contents,
    exclusive,
    is_standard_output,
    limits,
    open_readable,
    refuse_columns,
)
from unmask.files.text import numbers

__all__ = [
    "append_record",
    "atomic_write",
    "contents",
    "exclusive",
    "is_inside",
    "is_name",
    "is_standard_output",
    "key_text",
    "limits",
    "numbers",
    "open_readable",
    "pack_records",
    "read_json",
    "read_json_bytes",
    "read_records",
    "refuse_columns",
    "remove_records",
]
