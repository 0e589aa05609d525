"""The trust file: which key may publish what, rotation and revocation of keys, and what is wrong in a file."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.trust import trust
from opsplice.targets.registry.trust.keys import MissingExtraError
from opsplice.targets.registry.trust.trust import Trust, TrustedKey, UntrustedError

from .signers import DIGEST, OTHER, key, signed, trusting

ONE, TWO = key(1), key(2)
SIGNED = signed(ONE)

TEXT = f"""\
[keys.{ONE.public.id}]
public = "{ONE.public.text}"
publishes = ["acme/*"]
owner = "Acme's releases"

[revoked.keys]
{TWO.public.id} = "the laptop was stolen"

[revoked.digests]
"{OTHER}" = "wrong results for n = 0"
"""


def ask(trusted, *signatures, repository="acme/kernels", digest=DIGEST):
    return trust.vouched(trusted, signatures, repository, digest)[0]


def test_a_trust_file_is_written_in_one_order_and_read_again():
    written = Trust().with_key(ONE.public, ["acme/*"], "Acme's releases")
    written = written.revoking(OTHER, "wrong results for n = 0").revoking(TWO.public.id, "the laptop was stolen")
    assert written.text() == TEXT
    found = trust.parse(TEXT.encode())
    assert (found.keys, found.revoked_keys, found.revoked_digests) == (
        written.keys,
        written.revoked_keys,
        written.revoked_digests,
    )


LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=50)


@given(
    st.dictionaries(st.integers(0, 9), st.tuples(st.lists(st.sampled_from(["acme/*", "x", "*"]), max_size=3), LINES)),
    st.dictionaries(st.sampled_from([ONE.public.id, TWO.public.id]), LINES),
    st.dictionaries(st.sampled_from([DIGEST, OTHER]), LINES),
)
def test_random_trust_is_read_as_it_was_written(keys, revoked_keys, revoked_digests):
    made = [TrustedKey(key(number).public, tuple(names), owner) for number, (names, owner) in keys.items()]
    written = Trust(tuple(sorted(made, key=lambda each: each.key.id)), revoked_keys, revoked_digests, "trust.toml")
    assert trust.parse(written.text().encode()) == written


def test_a_package_is_trusted_by_a_signature_of_a_key_that_may_publish_it():
    assert ask(trusting(ONE), signed(ONE)).key == ONE.public
    assert ask(trusting(ONE), signed(TWO), b"rubbish", signed(ONE)).key == ONE.public
    assert ask(trusting(ONE), signed(ONE), repository="mirror/of/acme/kernels").key == ONE.public


REFUSED = {
    "nothing": (trusting(ONE), [], "has no signature$"),
    "of another key": (trusting(ONE), [signed(TWO)], f"by no key that you trust .*{TWO.public.id[:16]}"),
    "of another package": (trusting(ONE), [signed(ONE, digest=OTHER)], f"for another package: acme/kernels .{OTHER}"),
    "of another name": (trusting(ONE), [signed(ONE, name="acme/old")], "for acme/old, and acme/kernels was asked for"),
    "of a part of the name": (trusting(ONE, publishes=("*",)), [signed(ONE, name="nels")], "it is good, but for nels"),
    "of a key for others": (trusting(ONE, publishes=("other/*", "x")), [signed(ONE)], "may publish other/., x, not"),
    "of a key for nothing": (trusting(ONE, publishes=()), [signed(ONE)], "which may publish nothing, not acme/kernels"),
    "of a revoked key": (trusting(ONE, revoked_keys={ONE.public.id: "stolen"}), [signed(ONE)], "is revoked: stolen"),
    "of a key that went": (Trust(revoked_keys={ONE.public.id: ""}), [signed(ONE)], f"{ONE.public.id[:16]} is revoked$"),
    "damaged": (trusting(ONE), [b"{}"], "signature 1: the envelope, payloadType: it is missing"),
    "not to be read": (trusting(ONE), [OpspliceError("the server hangs up")], "signature 1: the server hangs up"),
}


@pytest.mark.parametrize(("trusted", "signatures", "message"), REFUSED.values(), ids=REFUSED)
def test_other_packages_are_refused_with_what_is_wrong(trusted, signatures, message):
    with pytest.raises(UntrustedError) as error:
        ask(trusted, *signatures)
    assert str(error.value).startswith(f"acme/kernels ({DIGEST}) has no signature")
    with pytest.raises(UntrustedError, match=rf"(?m){message}"):
        ask(trusted, *signatures)


def test_a_signature_with_another_payload_is_told_from_one_of_a_stranger():
    mine, other = signed(ONE), signed(ONE, digest=OTHER)
    start = mine.index(b'"signatures"')
    with pytest.raises(UntrustedError, match="did not sign this: it was changed, or made by somebody else"):
        ask(trusting(ONE), other[: other.index(b'"signatures"')] + mine[start:], digest=OTHER)


def test_a_revoked_digest_is_refused_whoever_signed_it():
    with pytest.raises(OpspliceError, match=f"acme/kernels is not used: {DIGEST} is revoked: wrong results"):
        ask(trusting(ONE, revoked_digests={DIGEST: "wrong results"}), signed(ONE))


def test_without_the_extra_a_signature_is_not_taken_for_a_bad_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'opsplice\[sign\]'"):
        ask(trusting(ONE), signed(ONE))
    # Nothing is to be verified where no key is trusted.
    with pytest.raises(UntrustedError, match="by no key that you trust"):
        ask(Trust(), SIGNED)


def test_a_key_is_rotated_without_a_day_on_which_nothing_is_trusted():
    old, new = trusting(ONE), trusting(TWO)
    both = trusting(ONE, TWO)
    of_old, of_both, of_new = signed(ONE), signed(ONE, TWO), signed(TWO)
    # Releases are signed by both for a while, so users with either key take them; so are two envelopes for one package.
    for users in (old, both, new):
        assert ask(users, of_both)
        assert ask(users, of_old, of_new)
    assert ask(both, of_old).key == ONE.public
    # Then the old one goes.
    after = both.revoking(ONE.public.id, "replaced")
    assert ask(after, of_both).key == TWO.public
    assert ask(after, of_new).key == TWO.public
    with pytest.raises(UntrustedError, match="is revoked: replaced"):
        ask(after, of_old)


def test_a_key_gets_more_to_publish_and_keeps_its_owner():
    trusted = Trust().with_key(ONE.public, ["b", "a"], "me").with_key(ONE.public, ["c"])
    assert trusted.keys == (TrustedKey(ONE.public, ("a", "b", "c"), "me"),)
    with pytest.raises(OpspliceError, match="is revoked: stolen"):
        Trust(revoked_keys={ONE.public.id: "stolen"}).with_key(ONE.public, ["a"])
    with pytest.raises(OpspliceError, match="'x' is neither a key's id nor a digest"):
        Trust().revoking("x", "")


def test_names_are_those_of_repositories():
    assert trust.check_patterns(["acme/*", "*", "a/b-c_d.e"]) == ("acme/*", "*", "a/b-c_d.e")
    for wrong in ("oci://acme/x", "Acme/*", "", "a[bc]", "acme/?"):
        with pytest.raises(OpspliceError, match="names no packages"):
            trust.check_patterns([wrong])


def test_a_key_that_publishes_a_name_is_found():
    assert trusting(ONE).publisher("acme/kernels").key == ONE.public
    assert trusting(ONE).publisher("mirror/acme/kernels").key == ONE.public
    assert trusting(ONE).publisher("acme") is trusting(ONE).publisher("other/kernels") is None
    assert trusting(ONE, revoked_keys={ONE.public.id: ""}).publisher("acme/kernels") is None


WRONG = {
    "an unknown table": ("[keys.", "[key.", 1, "'key' is not known here"),
    "another id": (ONE.public.id, "0" * 64, 1, f"the key's id is {ONE.public.id}"),
    "a key that is none": (ONE.public.text, "AAAA", 2, "'public' is not a key of ed25519"),
    "names as text": ('["acme/*"]', '"acme/*"', 3, "'publishes' is not a list of names of packages"),
    "names with a host": ('["acme/*"]', '["oci://x/y"]', 3, "'publishes' is not a list"),
    "a short id": (TWO.public.id, "abcd", 7, "'abcd' is not a key's id"),
    "no reason": ('"the laptop was stolen"', "1", 7, "is not a reason, one line"),
    "a short digest": (OTHER, "sha256:00", 10, "'sha256:00' is not a digest"),
}


@pytest.mark.parametrize(("old", "new", "line", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_trust_file_is_an_error_with_its_line(old, new, line, message):
    assert old in TEXT
    with pytest.raises(OpspliceError) as error:
        trust.parse(TEXT.replace(old, new).encode())
    assert error.value.message.startswith(f"trust.toml:{line}: ")
    assert message in error.value.message


def test_a_trust_file_that_others_may_write_to_is_not_used(tmp_path):
    path = tmp_path / "opsplice" / "trust.toml"
    trust.write(path, trusting(ONE))
    assert trust.read(path).keys == trusting(ONE).keys
    path.chmod(0o664)
    with pytest.raises(OpspliceError, match="others may write to the trust file"):
        trust.read(path)


def test_the_default_trust_file_need_not_be_there_but_a_named_one_must(tmp_path, monkeypatch):
    monkeypatch.delenv("OPSPLICE_TRUST", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert trust.default_path() == tmp_path / "opsplice" / "trust.toml"
    assert trust.read_chosen() == Trust(file=str(trust.default_path()))
    trust.write(trust.default_path(), trusting(ONE))
    assert trust.read_chosen().keys == trusting(ONE).keys
    for absent in ("named", "environment"):
        if absent == "environment":
            monkeypatch.setenv("OPSPLICE_TRUST", str(tmp_path / "absent"))
        with pytest.raises(OpspliceError, match="no such file"):
            trust.read_chosen(tmp_path / "absent" if absent == "named" else None)
    assert trust.default_path({"HOME": "/home/me", "XDG_CONFIG_HOME": "relative"}) == trust.Path(
        "/home/me/.config/opsplice/trust.toml"
    )
    assert trust.default_path({}) is None
