"""Indexes and manifests: what is read, what is refused, and that the same content has the same digest."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import oci, strict_json
from opsplice.targets.registry.places.oci import Descriptor, Index, Manifest

ONE = Descriptor.of(b"one", "application/x")
GOOD: dict[str, Any] = {
    "schemaVersion": 2,
    "mediaType": oci.INDEX,
    "manifests": [{"mediaType": oci.MANIFEST, "digest": ONE.digest, "size": 3}],
}


def index(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def entry(**changes: Any) -> bytes:
    return index(manifests=[GOOD["manifests"][0] | changes])


texts = st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=9), max_size=3)
descriptors = st.builds(
    lambda data, notes, kind: Descriptor(f"application/{kind}", oci.digest_of(data), len(data), "", notes),
    st.binary(max_size=9),
    texts,
    st.sampled_from("abc"),
)


@given(st.lists(descriptors, max_size=4), texts, st.none() | descriptors)
def test_documents_are_read_as_they_were_written(layers: list[Descriptor], notes: dict, subject: Descriptor | None):
    for document, parse in (
        (Index(tuple(layers), "application/k", notes, subject), oci.parse_index),
        (Manifest(ONE, tuple(layers), "application/k", notes, subject), oci.parse_manifest),
    ):
        data = document.to_bytes()
        assert parse(data) == document
        assert strict_json.canonical(json.loads(data), sort_keys=False) == data


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "size", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from([*GOOD, "annotations", "subject", "artifactType"]), anything, st.booleans())
def test_whatever_stands_in_a_field_is_read_or_refused(field: str, value: Any, in_entry: bool):
    one = GOOD["manifests"][0]
    data = entry(**(one | {field: value})) if in_entry else index(**{field: value})
    with contextlib.suppress(OpspliceError):
        read = oci.parse_index(data)
        assert oci.parse_index(read.to_bytes()) == read


def test_absent_fields_have_defaults_and_unknown_ones_are_passed_over():
    read = oci.parse_index(index(mediaType=oci.INDEX, unknown=[1, None, {"a": True}]))
    assert read == Index((Descriptor(oci.MANIFEST, ONE.digest, 3),))
    without = {key: value for key, value in GOOD.items() if key != "mediaType"}
    assert oci.parse_index(json.dumps(without).encode()) == read


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"[]", "it is not an object"),
        (b"\xff", "not valid JSON"),
        (b'{"a": ' * 100_000, "nested too deep"),
        (b"[" * 1_000_000, "nested too deep"),
        (b" " * (4 << 20) + b"{}", "at most 4 MiB"),
        (index().replace(b"{", b'{"schemaVersion": 2, ', 1), "a key stands twice"),
        (entry().replace(b'"size": 3', b'"size": 3, "size": 4'), "a key stands twice"),
        (index(schemaVersion=1), "schemaVersion: only 2 is known"),
        (index(schemaVersion="2"), "schemaVersion: it is not an integer"),
        (index(mediaType=oci.MANIFEST), "is expected"),
        (index(layers=[], config={}), "it has config beside manifests"),
        (index(manifests=None), "manifests: it is missing"),
        (index(manifests={}), "manifests: it is not a list"),
        (index(manifests=[3]), r"manifests\[0\]: it is not an object"),
        (index(manifests=GOOD["manifests"] * 1001), "it has 1001 entries; at most 1000"),
        (index(annotations={"a": 1}), "annotations.a: it is not a string"),
        (index(annotations={"a": "\ud800"}), "not valid Unicode"),
        (entry(size=-1), "-1 is not from 0 to"),
        (entry(size=True), "it is not an integer"),
        (entry(size=3.0), "3.0 is not an integer"),
        (entry(size=(4 << 20) + 1), "is not from 0 to"),
        (entry().replace(b'"size": 3', b'"size": ' + b"9" * 5000), "a number is too large"),
        (entry().replace(b'"size": 3', b'"size": 1e999'), "is not an integer"),
        (entry().replace(b'"size": 3', b'"size": NaN'), "is not an integer"),
        (entry(digest="sha256:00"), "digest: it is not sha256:"),
        (entry(digest="sha512:" + "0" * 128), "digest: it is not sha256:"),
        (entry(digest=ONE.digest.upper()), "digest: it is not sha256:"),
        (entry(digest="sha256:../../../" + "0" * 55), "digest: it is not sha256:"),
        (entry(digest=ONE.digest + "\n"), "digest: it is not sha256:"),
        (entry(mediaType="application/x\x1b[2J"), "it is not a media type"),
    ],
)
def test_what_is_no_index_is_refused(data: bytes, message: str):
    with pytest.raises(OpspliceError, match=message) as failure:
        oci.parse_index(data)
    assert len(str(failure.value)) < 1000


def test_what_is_no_manifest_is_refused():
    good = json.loads(Manifest(ONE, ()).to_bytes())
    for changes, message in (
        ({"manifests": []}, "it has manifests beside layers"),
        ({"config": None}, "config: it is missing"),
        ({"layers": [good["config"] | {"size": (1 << 30) + 1}]}, r"layers\[0\].size: 1073741825 is not"),
        ({"layers": [good["config"]] * 10_001}, "it has 10001 entries"),
        ({"subject": []}, "subject: it is not an object"),
    ):
        with pytest.raises(OpspliceError, match=message):
            oci.parse_manifest(json.dumps(good | changes).encode())


def test_bytes_are_compared_with_their_descriptor():
    assert ONE.check(b"one", "here") == b"one"
    for other in (b"", b"two", b"one "):
        with pytest.raises(OpspliceError, match=f"here gives other bytes than those of {ONE.digest}"):
            ONE.check(other, "here")
