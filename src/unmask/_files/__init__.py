"""Files as the rest of the package sees them: bytes in, sparse rows in, whole files out.

`stream` owns compression and atomic writing, `allowance` what a file may ask for; `rows`, `tables`
and `render` own the text formats, `faults` the wording of their errors; `archive` owns `.npz`,
`tree` JSON. `data` and `predictions` only say which columns mean what.
"""

from unmask._files.allowance import limits, refuse_columns
from unmask._files.faults import shown
from unmask._files.render import write_rows
from unmask._files.rows import INT32, Block, Text, open_text, parse
from unmask._files.stream import alone, blocks, compression, contents, writing
from unmask._files.tables import integers, numbers
from unmask._files.tree import beside, tree

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
    "limits",
    "numbers",
    "open_text",
    "parse",
    "refuse_columns",
    "shown",
    "tree",
    "write_rows",
    "writing",
]
