"""Keys that sign packages: ed25519, as PEM files.

A key's id is the SHA-256 of its public part in DER (SubjectPublicKeyInfo), so that an id stands for one key. Only what
signs or verifies needs `cryptography`, the extra `sign`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file

PASSPHRASE = "OPSPLICE_KEY_PASSPHRASE"
PUBLIC_SUFFIX = ".pub"

_LARGEST = 64 << 10
# What stands before the 32 bytes of a key: RFC 8410.
_PREFIX = bytes.fromhex("302a300506032b6570032100")
_BEGIN, _END = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"

# Asks for the passphrase of a file.
Ask = Callable[[Path], str]


class MissingExtraError(OpspliceError):
    """There is nothing here to make or verify signatures with."""


@dataclass(frozen=True)
class PublicKey:
    """raw: its 32 bytes."""

    raw: bytes

    @property
    def id(self) -> str:
        return hashlib.sha256(_PREFIX + self.raw).hexdigest()

    @property
    def text(self) -> str:
        """One line: what stands between the first and the last line of a PEM file."""
        return base64.b64encode(_PREFIX + self.raw).decode()

    @property
    def pem(self) -> str:
        return f"{_BEGIN}\n{self.text}\n{_END}\n"

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether a signature is one of this message by this key. Raises OpspliceError without the extra."""
        ed25519, exceptions = _library("hazmat.primitives.asymmetric.ed25519"), _library("exceptions")
        try:
            ed25519.Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (exceptions.InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """A key to sign with, opened."""

    public: PublicKey
    _key: Any

    def sign(self, message: bytes) -> bytes:
        return bytes(self._key.sign(message))


def public_from_text(text: str) -> PublicKey | None:
    """A key from the line that `PublicKey.text` gives; None for what is no such line."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    key = PublicKey(data[len(_PREFIX) :])
    # Some texts that are not the canonical one decode to the same bytes.
    return key if len(key.raw) == 32 and key.text == text else None


def read_public(path: Path) -> PublicKey:
    """The key of a `.pub` file. Raises OpspliceError for anything else."""
    data = read_file(path, _LARGEST)
    if b"PRIVATE KEY" in data:
        raise OpspliceError(
            f"{path} is a private key, and a public one is needed", hint=f"give {path.with_suffix(PUBLIC_SUFFIX)}"
        )
    lines = data.decode("ascii", "replace").split()
    body = "".join(lines[3:-3]) if " ".join(lines[:3]) == _BEGIN and " ".join(lines[-3:]) == _END else ""
    if (key := public_from_text(body)) is None:
        raise OpspliceError(
            f"{path} is not a public key of ed25519 in PEM", hint="`opsplice kernel keygen` makes such keys"
        )
    return key


def generate(path: Path, passphrase: str = "") -> PublicKey:
    """Make a key: the private part at `path`, for its owner alone, the public part beside it with the ending `.pub`.

    passphrase: what the private part is encrypted with, "" for nothing. Raises OpspliceError if a file is there.
    """
    serialization = _library("hazmat.primitives.serialization")
    key = _library("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey.generate()
    kind = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kind)
    public = PublicKey(key.public_key().public_bytes_raw())
    beside = path.with_suffix(PUBLIC_SUFFIX)
    if beside == path:
        raise OpspliceError(f"{path} ends as public keys do", hint=f"name it {path.with_suffix('.key')}")
    for each in (path, beside):
        if os.path.lexists(each):
            raise _exists(each)
    _write_new(path, private, 0o600)
    try:
        _write_new(beside, public.pem.encode(), 0o644)
    except OpspliceError:
        path.unlink()
        raise
    return public


def read_private(path: Path, ask: Ask) -> PrivateKey:
    """A private key. ask: for its passphrase, where it has one and `OPSPLICE_KEY_PASSPHRASE` is not set.

    Raises OpspliceError for one that others may read, that is damaged, or whose passphrase is another.
    """
    data = read_file(path, _LARGEST)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise OpspliceError(
            f"others may read the private key {path}, so it is not used",
            hint=f"chmod 600 {path}; if others can have read it, make a new key and revoke this one",
        )
    if b"PRIVATE KEY-----" not in data:
        raise OpspliceError(f"{path} is not a private key in PEM", hint="`opsplice kernel keygen` makes one")
    passphrase = None
    if b"ENCRYPTED" in data:
        passphrase = os.environ.get(PASSPHRASE) or ask(path)
    serialization = _library("hazmat.primitives.serialization")
    try:
        key = serialization.load_pem_private_key(data, passphrase.encode() if passphrase else None)
    except (ValueError, TypeError, _library("exceptions").UnsupportedAlgorithm):
        if passphrase:
            raise OpspliceError(f"cannot open {path} with this passphrase", hint=f"it can be in {PASSPHRASE}") from None
        raise OpspliceError(f"{path} is not a private key that is sound") from None
    if not isinstance(key, _library("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey):
        raise OpspliceError(f"{path} is not a key of ed25519", hint="`opsplice kernel keygen` makes one")
    return PrivateKey(PublicKey(key.public_key().public_bytes_raw()), key)


def _library(name: str) -> Any:
    try:
        return import_module(f"cryptography.{name}")
    except ImportError:
        hint = "pip install 'opsplice[sign]'"
        raise MissingExtraError("signatures need the package cryptography", hint=hint) from None


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not be there yet, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.link(temporary, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise OpspliceError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _exists(path: Path) -> OpspliceError:
    return OpspliceError(f"{path} is there already, and keys are never overwritten", hint="name another file")
