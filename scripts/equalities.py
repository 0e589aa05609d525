"""The table of equal spellings in docs/language.md, made from the one that the code runs by: `make table`."""

from __future__ import annotations

import re
from pathlib import Path

from opsplice.matchers.terms.equalities import TABLE, Row

_PAGE = Path(__file__).parent.parent / "docs" / "language.md"
_TABLE = re.compile(r"(<!-- equalities -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def written_into(page: str) -> str:
    """The page with the table as it is now."""
    lines = ["| spelling | | is | licence |", "|---|---|---|---|", *map(_line, TABLE)]
    text = "\n".join(lines) + "\n"
    return _TABLE.sub(lambda found: found[1] + text + found[3], page)


def _line(row: Row) -> str:
    kinds = f" with {', '.join(f'`{name}`' for name in row.each)} for `op`" if row.each else ""
    when = f", if {row.when}" if row.when else ""
    return f"| `{row.left}`{kinds}{when} | `{row.form}` | `{row.right}` | {row.licence} |"


if __name__ == "__main__":
    _PAGE.write_text(written_into(_PAGE.read_text()))
