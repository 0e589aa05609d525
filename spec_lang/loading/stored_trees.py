"""Trees of specs in the user's cache, so that a process need not read again what another has read.

    key: the code of `spec_lang`, and what trees are made from        <cache>/specs: a table

`common.data_tables` says what a table is.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import lark

from opsplice.common import data_tables
from opsplice.common.store import key_of, recalled
from opsplice.spec_lang import garbage

_ROOT = Path(__file__).parents[1]
_LARGEST = 64 << 20

_Made = TypeVar("_Made")


def stored(parts: Sequence[str], make: Callable[[], _Made]) -> _Made:
    """What `make` gives, or what it gave when it was made from the same parts. Raises what it raises."""

    def read(data: bytes) -> _Made:
        with garbage.kept():
            return cast("_Made", data_tables.unpacked(data))

    key = key_of(_own_code(), lark.__version__, json.dumps(parts))
    found: _Made = recalled("specs", key, _LARGEST, read=read, make=make, write=data_tables.packed)
    return found


@functools.cache
def _own_code() -> str:
    """The digest of the files that read specs."""
    files = sorted(path for path in _ROOT.rglob("*") if path.suffix in (".py", ".lark"))
    return key_of(*(path.read_bytes() for path in (*files, Path(data_tables.__file__))))
