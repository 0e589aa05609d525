"""Signatures as others read them, too: a DSSE envelope around an in-toto statement about a package's digest.

The bytes that were signed are compared with signatures before anything in them is parsed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import strict_json
from opsplice.targets.registry.places.oci import check_digest
from opsplice.targets.registry.trust.keys import PrivateKey, PublicKey

ENVELOPE = "application/vnd.dsse.envelope.v1+json"
STATEMENT = "application/vnd.in-toto+json"
LARGEST = 1 << 20

_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://opsplice.dev/package/v1"
_MOST_SIGNATURES = 16


@dataclass(frozen=True)
class Statement:
    """What is signed. name: the repository. digest: of the package's index. made: from what and with what, as text."""

    name: str
    digest: str
    made: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        algorithm, _, value = self.digest.partition(":")
        return strict_json.canonical(
            {
                "_type": _STATEMENT_TYPE,
                "subject": [{"name": self.name, "digest": {algorithm: value}}],
                "predicateType": PREDICATE_TYPE,
                "predicate": dict(self.made),
            }
        )


@dataclass(frozen=True)
class Signature:
    """key: the id that the envelope claims; only `PublicKey.verifies` says whose it is."""

    key: str
    value: bytes


@dataclass(frozen=True)
class Envelope:
    """payload: bytes that claim to be a statement."""

    payload: bytes
    signatures: tuple[Signature, ...]

    def to_bytes(self) -> bytes:
        signatures = [{"keyid": each.key, "sig": _base64(each.value)} for each in self.signatures]
        return strict_json.canonical(
            {"payload": _base64(self.payload), "payloadType": STATEMENT, "signatures": signatures}
        )

    def signers(self, keys: Iterable[PublicKey]) -> list[PublicKey]:
        """Those of the keys that signed the payload, whatever the envelope claims."""
        message = _message(self.payload)
        return [key for key in keys if any(key.verifies(each.value, message) for each in self.signatures)]


def sign(statement: Statement, *keys: PrivateKey) -> bytes:
    """An envelope of a statement, signed by all the keys."""
    payload = statement.to_bytes()
    return Envelope(payload, tuple(Signature(key.public.id, key.sign(_message(payload))) for key in keys)).to_bytes()


def parse(data: bytes, what: str = "the signature") -> Envelope:
    """An envelope from its bytes; nothing in its payload is looked at. Raises OpspliceError."""
    if len(data) > LARGEST:
        raise OpspliceError(f"{what} has {len(data)} bytes; at most {LARGEST >> 20} MiB are read")
    table = strict_json.parse(data, what)
    if (kind := table.text("payloadType")) != STATEMENT:
        raise table.error(f"{kind!r:.100} is not {STATEMENT}", "payloadType")
    given = table.tables("signatures", _MOST_SIGNATURES)
    signatures = tuple(Signature(each.text("keyid", ""), _decoded(each, "sig")) for each in given)
    return Envelope(_decoded(table, "payload"), signatures)


def parse_statement(payload: bytes) -> Statement:
    """The statement that a payload holds, which was verified before. Raises OpspliceError."""
    table = strict_json.parse(payload, "the signed statement")
    for key, wanted in (("_type", _STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
        if (kind := table.text(key)) != wanted:
            raise table.error(f"{kind!r:.100} is not {wanted}", key)
    subjects = table.tables("subject", 1)
    if not subjects:
        raise table.error("it names no package", "subject")
    digest = check_digest(f"sha256:{subjects[0].table('digest').text('sha256')}")
    return Statement(subjects[0].text("name"), digest, table.mapping("predicate"))


def _message(payload: bytes) -> bytes:
    """What is signed of a payload: DSSE's pre-authentication encoding, which binds it to its type."""
    return b"DSSEv1 %d %s %d %s" % (len(STATEMENT), STATEMENT.encode(), len(payload), payload)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(table: strict_json.Table, key: str) -> bytes:
    try:
        return base64.b64decode(table.text(key), validate=True)
    except (binascii.Error, ValueError):
        raise table.error("it is not base64", key) from None
