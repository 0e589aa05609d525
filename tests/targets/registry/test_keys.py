"""Keys: what is made is read again, private parts are private, and what is no key is an error."""

import os
import stat
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.trust import keys
from opsplice.targets.registry.trust.keys import PublicKey


def never(_path):
    raise AssertionError("it asks for a passphrase")


def test_a_key_is_two_files_and_the_private_one_is_private(tmp_path):
    before = os.umask(0)
    try:
        public = keys.generate(tmp_path / "acme.key")
    finally:
        os.umask(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["acme.key", "acme.pub"]
    assert stat.S_IMODE((tmp_path / "acme.key").stat().st_mode) == 0o600
    assert keys.read_public(tmp_path / "acme.pub") == public
    private = keys.read_private(tmp_path / "acme.key", never)
    assert private.public == public
    signature = private.sign(b"message")
    assert public.verifies(signature, b"message")
    assert not public.verifies(signature, b"massage")
    assert not public.verifies(signature[:-1], b"message")


def test_other_tools_read_the_files(tmp_path):
    public = keys.generate(tmp_path / "acme.key")
    found = serialization.load_pem_public_key((tmp_path / "acme.pub").read_bytes())
    assert found.public_bytes_raw() == public.raw
    assert serialization.load_pem_private_key((tmp_path / "acme.key").read_bytes(), None).public_key() == found


def test_keys_are_never_overwritten(tmp_path):
    keys.generate(tmp_path / "acme.key")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OpspliceError, match=r"acme\.key is there already, and keys are never overwritten"):
        keys.generate(tmp_path / "acme.key")
    # A public key without its private one, and a link that leads nowhere.
    (tmp_path / "old.pub").write_bytes(b"")
    (tmp_path / "link.key").symlink_to("nowhere")
    for name, there in (("old.key", r"old\.pub"), ("link.key", r"link\.key")):
        with pytest.raises(OpspliceError, match=f"{there} is there already"):
            keys.generate(tmp_path / name)
    assert {path: path.read_bytes() for path in before} == before
    assert len(list(tmp_path.iterdir())) == 4


def test_no_key_is_left_where_a_file_appears_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(keys.os.path, "lexists", lambda _path: False)
    (tmp_path / "acme.pub").write_bytes(b"")
    with pytest.raises(OpspliceError, match=r"acme\.pub is there already"):
        keys.generate(tmp_path / "acme.key")
    assert [path.name for path in tmp_path.iterdir()] == ["acme.pub"]
    with pytest.raises(OpspliceError, match=r"cannot write .*: no such file"):
        keys.generate(tmp_path / "absent" / "acme.key")


def test_a_passphrase_comes_from_the_environment_or_is_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "acme.key"
    public = keys.generate(path, "open sesame")
    assert b"ENCRYPTED" in path.read_bytes()
    monkeypatch.delenv(keys.PASSPHRASE, raising=False)
    assert keys.read_private(path, lambda asked: {path: "open sesame"}[asked]).public == public
    for wrong in ("sesame", ""):
        with pytest.raises(
            OpspliceError, match=r"cannot open .*acme\.key with this passphrase|not a private key that is"
        ):
            keys.read_private(path, lambda _asked, wrong=wrong: wrong)
    monkeypatch.setenv(keys.PASSPHRASE, "open sesame")
    assert keys.read_private(path, never).public == public


def test_a_private_key_that_others_may_read_is_not_used(tmp_path):
    keys.generate(tmp_path / "acme.key")
    (tmp_path / "acme.key").chmod(0o640)
    with pytest.raises(OpspliceError, match="others may read the private key"):
        keys.read_private(tmp_path / "acme.key", never)


def pem(key, password=None):
    kind = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kind)


NO_KEYS = {
    "nothing": (b"", "not a private key in PEM"),
    "of another kind": (pem(ec.generate_private_key(ec.SECP256R1())), "not a key of ed25519"),
    "damaged": (pem(ed25519.Ed25519PrivateKey.generate())[:-40], "not a private key that is sound"),
    "a certificate": (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "not a private key in PEM"),
}


@pytest.mark.parametrize(("data", "message"), NO_KEYS.values(), ids=NO_KEYS)
def test_what_is_no_private_key_is_an_error(data, message, tmp_path):
    path = tmp_path / "k.key"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(OpspliceError, match=message):
        keys.read_private(path, never)


def test_what_is_no_public_key_is_an_error(tmp_path):
    public = keys.generate(tmp_path / "acme.key")
    with pytest.raises(OpspliceError, match=r"is a private key, and a public one is needed\n.*acme\.pub"):
        keys.read_public(tmp_path / "acme.key")
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    texts = [b"", public.pem[:-3].encode(), b"\xff", other.public_bytes(serialization.Encoding.PEM, form)]
    for text in (*texts, public.pem.replace(public.text, "AAAA").encode(), b"-----BEGIN PUBLIC KEY-----"):
        (tmp_path / "x.pub").write_bytes(text)
        with pytest.raises(OpspliceError, match="is not a public key of ed25519 in PEM"):
            keys.read_public(tmp_path / "x.pub")


@given(st.binary(min_size=32, max_size=32))
def test_a_public_key_is_read_from_its_line_alone_and_only_from_that(raw):
    key = PublicKey(raw)
    assert keys.public_from_text(key.text) == key
    assert len(key.id) == 64
    for other in (key.text[:-1], key.text + "\n", key.text[:-2] + "==", "é" + key.text, key.text + "AAAA"):
        assert keys.public_from_text(other) is None


def test_without_the_extra_it_is_said_how_to_get_it(tmp_path):
    code = f"""
import sys
sys.modules["cryptography"] = None
from pathlib import Path
from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.trust import keys
assert keys.PublicKey(bytes(32)).id
try:
    keys.generate(Path({str(tmp_path)!r}) / "acme.key")
except OpspliceError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "signatures need the package cryptography\nhelp: pip install 'opsplice[sign]'\n"
    assert list(tmp_path.iterdir()) == []
