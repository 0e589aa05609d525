"""Names of packages in registries."""

from __future__ import annotations

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places.reference import Reference, is_loopback, is_reference

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://registry.example/acme/kernels:1.4", Reference("registry.example", "acme/kernels", "1.4")),
        ("oci://localhost:5443/k", Reference("localhost:5443", "k")),
        (f"oci://[::1]:80/a/b/c@{DIGEST}", Reference("[::1]:80", "a/b/c", "", DIGEST)),
        (f"oci+http://10.0.0.1/a:V1.0_rc-1@{DIGEST}", Reference("10.0.0.1", "a", "V1.0_rc-1", DIGEST, True)),
    ],
)
def test_references_are_read_and_written(text: str, expected: Reference):
    assert Reference.parse(text) == expected
    assert str(expected) == text
    assert is_reference(text)
    assert text.startswith(expected.source)
    assert Reference.parse(expected.source).tag == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "oci://",
        "oci://host",
        "oci://host/",
        "oci:/host/a",
        "https://host/a",
        "oci://user:password@host/a",
        "oci://host/Acme",
        "oci://host/a/../b",
        "oci://host//a",
        "oci://host/a:",
        "oci://host/a:.x",
        "oci://host/a:1 4",
        "oci://host/a?x=1",
        "oci://host/a#x",
        "oci://host/a@sha256:00",
        "oci://host/a@sha512:" + "0" * 128,
        "oci://host/a\n",
        "oci://höst/a",
        "oci://host:123456/a",
        "oci://-host/a",
        "oci://host/" + "a" * 1000,
        "oci://host/" + "a-" * 200 + "!",
    ],
)
def test_what_is_no_reference_is_refused(text: str):
    with pytest.raises(OpspliceError, match="names no package in a registry"):
        Reference.parse(text)


def test_this_machine_is_told_from_others():
    assert all(is_loopback(host) for host in ("localhost", "localhost:5000", "127.0.0.1", "127.1.2.3:1", "[::1]:5000"))
    assert not any(is_loopback(host) for host in ("localhost.example", "127.example", "128.0.0.1", "a.localhost.com"))
