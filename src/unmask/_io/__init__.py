"""Files as the rest of the package sees them: bytes in, sparse rows in, whole files out.

`stream` owns compression and atomic writing, `allowance` what a file may ask for; `rows`, `tables`
and `render` own the text formats, `faults` the wording of their errors; `archive` owns `.npz`,
`tree` JSON, `records` JSON lines that grow and are packed. `data` and `predictions` only say which
columns mean what.
"""

from unmask._io.errors import shown
from unmask._io.json_files import beside, tree
from unmask._io.limits import limits, refuse_columns
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
from unmask._io.streams import alone, blocks, compression, contents, writing

__all__ = [
    "INT32",
    "Block",
    "Text",
    "alone",
    "append_record",
    "beside",
    "blocks",
    "compression",
    "contents",
    "integers",
    "key_text",
    "limits",
    "numbers",
    "open_text",
    "pack_records",
    "parse",
    "read_records",
    "refuse_columns",
    "remove_records",
    "shown",
    "tree",
    "write_rows",
    "writing",
]
