"""DSSE envelopes of in-toto statements: as others read and write them, and what a hostile one comes to."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib import dsse
from securesystemslib.signer import CryptoSigner, SSlibKey

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.trust import envelope
from opsplice.targets.registry.trust.envelope import Statement

from .signers import DIGEST, key, signed

ONE, TWO = key(1), key(2)
KEYS = [ONE.public, TWO.public]


def changed(data: bytes, **fields) -> bytes:
    return json.dumps({**json.loads(data), **fields}).encode()


@given(st.text(), st.dictionaries(st.text(), st.text(), max_size=4))
def test_random_statements_are_read_as_they_were_signed(name, made):
    statement = Statement(name, DIGEST, made)
    found = envelope.parse(envelope.sign(statement, ONE))
    assert found.signers(KEYS) == [ONE.public]
    assert envelope.parse_statement(found.payload) == statement


def test_the_statement_is_one_of_in_toto():
    payload = json.loads(envelope.parse(signed(ONE)).payload)
    assert payload == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "acme/kernels", "digest": {"sha256": "1" * 64}}],
        "predicateType": "https://opsplice.dev/package/v1",
        "predicate": {"opsplice": "0.1.0"},
    }


def test_another_library_verifies_what_we_sign():
    theirs = dsse.Envelope.from_dict(json.loads(signed(ONE, TWO)))
    keys = [SSlibKey.from_crypto(each._key.public_key(), keyid=each.public.id) for each in (ONE, TWO)]
    assert set(theirs.verify(keys, 2)) == {ONE.public.id, TWO.public.id}


def test_we_verify_what_another_library_signs():
    theirs = dsse.Envelope(Statement("acme/kernels", DIGEST).to_bytes(), envelope.STATEMENT, {})
    theirs.sign(CryptoSigner(ONE._key))
    found = envelope.parse(json.dumps(theirs.to_dict()).encode())
    assert found.signers(KEYS) == [ONE.public]
    assert envelope.parse_statement(found.payload).digest == DIGEST


def test_what_keys_an_envelope_names_is_no_matter():
    data = json.loads(signed(ONE))
    for claimed in (TWO.public.id, "", "x" * 1000):
        data["signatures"][0]["keyid"] = claimed
        assert envelope.parse(json.dumps(data).encode()).signers(KEYS) == [ONE.public]
    # A signature is no other key's because it stands beside that key's.
    both = json.loads(signed(ONE, TWO))
    for each in both["signatures"]:
        each["keyid"] = TWO.public.id
    assert envelope.parse(json.dumps(both).encode()).signers([TWO.public]) == [TWO.public]
    both["signatures"].pop()
    assert envelope.parse(json.dumps(both).encode()).signers([TWO.public]) == []


def test_a_changed_payload_is_signed_by_nobody():
    other = base64.b64encode(Statement("acme/kernels", "sha256:" + "2" * 64).to_bytes()).decode()
    assert envelope.parse(changed(signed(ONE), payload=other)).signers(KEYS) == []
    assert envelope.parse(changed(signed(ONE), signatures=[])).signers(KEYS) == []


def test_a_signature_of_the_payload_without_its_type_is_none():
    payload = Statement("acme/kernels", DIGEST).to_bytes()
    found = envelope.Envelope(payload, (envelope.Signature(ONE.public.id, ONE.sign(payload)),))
    assert found.signers(KEYS) == []


@given(st.integers(0), st.integers(0, 7))
def test_an_envelope_with_a_random_bit_flipped_says_the_same_or_nothing(place, bit):
    data = bytearray(signed(ONE))
    data[place % len(data)] ^= 1 << bit
    try:
        found = envelope.parse(bytes(data))
    except OpspliceError:
        return
    if found.signers(KEYS):
        assert envelope.parse_statement(found.payload) == Statement("acme/kernels", DIGEST, {"opsplice": "0.1.0"})


HOSTILE = {
    "nothing": (b"", "is not valid JSON"),
    "a list": (b"[]", "is not an object"),
    "another payload type": (changed(signed(ONE), payloadType="text/plain"), "payloadType: 'text/plain' is not"),
    "no signatures": (b'{"payload": "", "payloadType": "application/vnd.in-toto+json"}', "signatures: it is missing"),
    "many signatures": (changed(signed(ONE), signatures=[{"sig": ""}] * 17), "it has 17 entries; at most 16"),
    "signatures as text": (changed(signed(ONE), signatures="AAAA"), "signatures: it is not a list"),
    "a number as signature": (changed(signed(ONE), signatures=[{"sig": 1}]), "sig: it is not a string"),
    "no base64": (changed(signed(ONE), payload="?"), "payload: it is not base64"),
    "keys twice": (signed(ONE)[:-1] + b',"payload":"AAAA"}', "a key stands twice"),
    "deep": (b'{"payload":' * 90_000, "nested too deep"),
    "large": (changed(signed(ONE), more="x" * envelope.LARGEST), "at most 1 MiB are read"),
    "half a surrogate": (changed(signed(ONE), payload="\ud800"), "it is not valid Unicode"),
}


@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_envelope_is_an_error(data, message):
    with pytest.raises(OpspliceError, match=message):
        envelope.parse(data)


STATEMENTS = {
    "another type": ({"_type": "https://in-toto.io/Statement/v0.1"}, "_type: 'https://in-toto.io/Statement/v0.1' is"),
    "another predicate": ({"predicateType": "https://slsa.dev/provenance/v1"}, "predicateType: "),
    "no subject": ({"subject": []}, "subject: it names no package"),
    "two subjects": ({"subject": [{}, {}]}, "subject: it has 2 entries"),
    "another hash": ({"subject": [{"name": "a", "digest": {"md5": "00"}}]}, "sha256: it is missing"),
    "half a hash": ({"subject": [{"name": "a", "digest": {"sha256": "11"}}]}, "'sha256:11' is not a digest"),
    "numbers": ({"predicate": {"x": 1}}, "predicate.x: it is not a string"),
}


@pytest.mark.parametrize(("fields", "message"), STATEMENTS.values(), ids=STATEMENTS)
def test_what_is_signed_but_no_statement_of_ours_is_an_error(fields, message):
    with pytest.raises(OpspliceError, match=message):
        envelope.parse_statement(changed(Statement("a", DIGEST).to_bytes(), **fields))
