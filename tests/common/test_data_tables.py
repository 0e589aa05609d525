"""Tables hold what was put into them, and make nothing but data of what they hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opsplice.common import data_tables
from opsplice.reports.report import PackageUse


def test_values_come_back_as_they_were() -> None:
    shared = (1, True, 1.0, -0.0, "1", None, float("inf"))
    value = {"a": [shared, shared, Path("x")], ("b", 2): {"s"}, "p": PackageUse("p", "1")}
    read = data_tables.unpacked(data_tables.packed(value))
    assert repr(read) == repr(value)
    assert read["a"][0] is read["a"][1]


@pytest.mark.parametrize(
    "kind", ["os:system", "opsplice.common.files:write_file", "opsplice.spec_lang.loading.loader:load", "opsplice.x:y"]
)
def test_a_table_makes_nothing_but_data(kind: str) -> None:
    with pytest.raises(ValueError, match=r"ours|no table of data"):
        data_tables.unpacked(json.dumps(["true", [kind, 0]]).encode())
    with pytest.raises(TypeError, match="no data"):
        data_tables.packed([object()])


def test_other_bytes_are_no_table() -> None:
    for data in (b"", b"{}", b"[]", b"[[1]]", b'[["tuple", 3]]'):
        with pytest.raises(ValueError, match=r"no table of data|line 1"):
            data_tables.unpacked(data)
