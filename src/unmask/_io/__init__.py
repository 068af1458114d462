"""Files as the rest of the package sees them: bytes in, sparse rows in, whole files out.

`stream` owns compression and atomic writing, `allowance` what a file may ask for; `rows`, `tables`
and `render` own the text formats, `faults` the wording of their errors; `archive` owns `.npz`,
`tree` JSON. `data` and `predictions` only say which columns mean what.
"""

from unmask._io.errors import shown
from unmask._io.json_files import beside, is_name, read_json, tree
from unmask._io.limits import limits, refuse_columns
from unmask._io.number_tables import integers, numbers
from unmask._io.render import write_rows
from unmask._io.rows import INT32, Block, Text, open_text, parse
from unmask._io.streams import (
    alone,
    blocks,
    compression,
    contents,
    is_standard_output,
    reading,
    writing,
)

__all__ = [
    "INT32",
    "Block",
    "Text",
    "alone",
    "beside",
    "blocks",
    "compression",
    "contents",
    "integers",
    "is_name",
    "is_standard_output",
    "limits",
    "numbers",
    "open_text",
    "parse",
    "read_json",
    "reading",
    "refuse_columns",
    "shown",
    "tree",
    "write_rows",
    "writing",
]
