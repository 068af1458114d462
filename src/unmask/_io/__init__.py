"""Files as the rest of the package sees them: bytes in, sparse rows in, whole files out.

`streams` owns compression and atomic writes, `file_limits` what a file may ask for; `rows`,
`number_tables` and `render` own the text formats, `errors` the wording of their errors; `archive`
owns `.npz`, `json_files` JSON, `records` JSON lines that grow and are packed. `data` and
`predictions` only say which columns mean what.
"""

from unmask._io.errors import quoted
from unmask._io.file_limits import limits, refuse_columns
from unmask._io.json_files import distinct, is_inside, is_name, read_json, read_json_bytes
from unmask._io.number_tables import integers, numbers
from unmask._io.records import (
    append_record,
    key_text,
    pack_records,
    read_records,
    remove_records,
)
from unmask._io.render import write_rows
from unmask._io.rows import INT32, Block, Text, open_text, parse
from unmask._io.streams import (
    atomic_write,
    blocks,
    compression,
    contents,
    exclusive,
    is_standard_output,
    open_readable,
)

__all__ = [
    "INT32",
    "Block",
    "Text",
    "append_record",
    "atomic_write",
    "blocks",
    "compression",
    "contents",
    "distinct",
    "exclusive",
    "integers",
    "is_inside",
    "is_name",
    "is_standard_output",
    "key_text",
    "limits",
    "numbers",
    "open_readable",
    "open_text",
    "pack_records",
    "parse",
    "quoted",
    "read_json",
    "read_json_bytes",
    "read_records",
    "refuse_columns",
    "remove_records",
    "write_rows",
]
