"""Keys and envelopes for the tests of signatures: made in memory, the same each time."""

from __future__ import annotations

import functools

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opsplice.targets.registry.trust import envelope
from opsplice.targets.registry.trust.envelope import Statement
from opsplice.targets.registry.trust.keys import PrivateKey, PublicKey
from opsplice.targets.registry.trust.trust import Trust, TrustedKey

DIGEST, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@functools.cache
def key(number: int) -> PrivateKey:
    made = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return PrivateKey(PublicKey(made.public_key().public_bytes_raw()), made)


def trusting(*keys: PrivateKey, publishes: tuple[str, ...] = ("acme/*",), **fields) -> Trust:
    return Trust(tuple(TrustedKey(each.public, publishes) for each in keys), **fields)


def signed(*keys: PrivateKey, name: str = "acme/kernels", digest: str = DIGEST) -> bytes:
    return envelope.sign(Statement(name, digest, {"opsplice": "0.1.0"}), *keys)
