"""A real registry as a place, and behind a layer that does what networks and hostile servers do."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package
from opsplice.targets.registry.places import connection, oci
from opsplice.targets.registry.places.oci import EMPTY_CONFIG, Descriptor, Index, Manifest
from opsplice.targets.registry.places.place import InterruptedTransferError, NotFoundError
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.places.remote import Remote
from opsplice.targets.registry.trust import signing
from opsplice.targets.registry.trust.envelope import Statement
from tests.targets.registry import faulty, signers
from tests.targets.registry.faulty import Fault, Layer
from tests.targets.registry.sample import ABOUT, noise, parts
from tests.targets.registry.server import Server

NUMBERS = itertools.count()


@pytest.fixture
def name() -> str:
    """A repository of the test's own."""
    return f"acme/kernels{next(NUMBERS)}"


@pytest.fixture
def layer(registry: Server, tmp_path: Path) -> Iterator[Layer]:
    with faulty.over(registry, tmp_path) as running:
        yield running


def blob(tmp_path: Path, size: int = 200_000) -> tuple[Descriptor, Path]:
    file = tmp_path / "blob"
    file.write_bytes(noise(size, f"{tmp_path}"))
    return Descriptor.of(file.read_bytes(), package.ARTIFACT), file


def test_a_package_is_pushed_and_read_back(registry: Server, name: str, tmp_path: Path):
    place = registry.remote(name)
    put = package.write(place, ABOUT, parts(tmp_path / "files"), "1.4")
    assert package.write(place, ABOUT, parts(tmp_path / "files"), "1.5") == put
    other = registry.remote(name)
    assert other.tags() == ["1.4", "1.5"]
    assert other.resolve("1.4") == other.resolve(put.digest) == put
    read = package.read(other, put)
    assert [str(variant) for variant in read.variants] == ["cuda:sm_80", "x86_64", "x86_64 avx512f subgroup>=32"]
    for path, layer in package.contents(other, read, read.variants[0]).files.items():
        assert other.has(layer)
        other.fetch(layer, tmp_path / "out" / path)
        assert (tmp_path / "out" / path).read_bytes() == (tmp_path / "files" / path).read_bytes()


def test_what_is_not_there(registry: Server, name: str, tmp_path: Path):
    place = registry.remote(name)
    package.write(place, ABOUT, parts(tmp_path / "files"), "1.4")
    absent = Descriptor.of(b"absent", package.ARTIFACT)
    assert not place.has(absent)
    for act, message in (
        (lambda: place.resolve("2.0"), "has no 2.0\nhelp: it has 1.4"),
        (lambda: place.resolve(absent.digest), f"has no {absent.digest}"),
        (lambda: place.read(absent), f"has no {absent.digest}"),
        (lambda: place.fetch(absent, tmp_path / "absent"), f"has no {absent.digest}"),
        (lambda: registry.remote("nobody/nothing").resolve("1"), "has no 1"),
        (lambda: place.put_blob(absent, tmp_path / "absent"), "there is no .*absent"),
    ):
        with pytest.raises(NotFoundError, match=message):
            act()


def test_referrers_by_the_fallback_tag(registry: Server, name: str):
    refers(registry.remote(name), registry.remote(name))


def test_referrers_that_somebody_else_overwrote_are_listed_again(layer: Layer, name: str):
    place = layer.remote(name)
    subject = place.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    place.put_bytes(b"{}", EMPTY_CONFIG.media_type)
    overwritten = Fault(200, {"Content-Type": oci.INDEX}, Index(()).to_bytes())
    layer.next("GET", "/manifests/sha256-", Fault(), overwritten)
    signature = Manifest(EMPTY_CONFIG, (), "application/a", {}, subject).to_bytes()
    put = place.put_manifest(signature, oci.MANIFEST)
    assert [each.digest for each in layer.remote(name).referrers(subject.digest)] == [put.digest]
    assert len(layer.asked("PUT", "/manifests/sha256-")) == 2


def test_referrers_by_the_api(layer: Layer, name: str):
    layer.has_referrers = True
    refers(layer.remote(name), layer.remote(name))
    assert not layer.asked("GET", "manifests/sha256-")


def test_signatures_are_found_where_a_server_lists_the_type_of_their_configs(layer: Layer, name: str):
    layer.has_referrers = True
    place = layer.remote(name)
    subject = place.put_manifest(Index((), "application/x").to_bytes(), oci.INDEX, "1")
    signing.sign(place, subject, Statement("acme/kernels", subject.digest, {}), [signers.key(1)])
    for listed in layer.referrers.values():
        listed[0]["artifactType"] = oci.EMPTY
    assert len(signing.signatures(layer.remote(name), subject.digest)) == 1


def refers(place: Remote, other: Remote) -> None:
    subject = place.put_manifest(Index((), "application/x").to_bytes(), oci.INDEX, "1")
    assert other.referrers(subject.digest) == []
    place.put_bytes(b"{}", EMPTY_CONFIG.media_type)
    signatures = [Manifest(EMPTY_CONFIG, (), f"application/{kind}", {}, subject).to_bytes() for kind in "ab"]
    for data in signatures:
        place.put_manifest(data, oci.MANIFEST)
    found = other.referrers(subject.digest)
    assert {each.artifact_type for each in found} == {"application/a", "application/b"}
    assert [other.read(each) for each in found] == signatures
    assert other.tags() == ["1"]


# ---- who may, and how one gets there ---------------------------------------------------------------------------------


def test_credentials_and_certificates(registry: Server, name: str):
    reference = registry.reference(name)
    certificate = {"SSL_CERT_FILE": registry.environ["SSL_CERT_FILE"]}
    for environ, message in (
        ({}, f"the certificate of {registry.host} is not trusted: .*verify failed.*\nhelp: name the file"),
        ({"SSL_CERT_FILE": "/nowhere"}, "there is no file /nowhere, which SSL_CERT_FILE names"),
        (certificate, f"{registry.host} does not allow this: authentication required\nhelp: log in with: docker login"),
    ):
        with pytest.raises(OpspliceError, match=message):
            Remote(reference, environ).resolve("1")
    file = certificate["SSL_CERT_FILE"]
    for both in ({"SSL_CERT_FILE": "", "REQUESTS_CA_BUNDLE": file}, {"REQUESTS_CA_BUNDLE": "/nowhere"}):
        with pytest.raises(NotFoundError):
            Remote(reference, {**registry.environ, **both}).resolve("1")
    with pytest.raises(
        OpspliceError, match=r"answers with status 400: Client sent an HTTP request to an HTTPS server\.$"
    ):
        Remote(Reference(registry.host, name, plain=True), {}).resolve("1")


def test_a_wrong_password_is_said_once_and_not_shown(registry: Server, layer: Layer, name: str, tmp_path: Path):
    config = Path(layer.environ["DOCKER_CONFIG"]) / "config.json"
    config.write_text(json.dumps({"auths": {layer.host: {"username": "dev", "password": "not this one"}}}))
    with pytest.raises(OpspliceError, match="does not allow this") as failure:
        layer.remote(name).resolve("1")
    assert "not this one" not in str(failure.value)
    assert len(layer.seen) == 2


def test_without_its_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(
        OpspliceError, match=r"need the Python package requests\nhelp: pip install 'opsplice\[registry\]'"
    ):
        Remote(Reference("registry.example", "a"), {}).resolve("1")


@pytest.mark.parametrize("host", ["localhost:1", "no-such-host.invalid"])
def test_what_cannot_be_reached(host: str):
    with pytest.raises(OpspliceError, match=rf"cannot reach {host}(:\d+)?: .*(refused|resolve|resolution)[^<>]*$"):
        Remote(Reference(host, "a"), {}).resolve("1")


def test_a_server_without_tls_is_said_to_be_one(layer: Layer, name: str):
    with pytest.raises(OpspliceError, match=r"does not speak TLS\nhelp: .* write oci\+http://"):
        Remote(Reference(layer.host, name), layer.environ).resolve("1")


def test_credentials_go_over_tls_or_to_this_machine_only(layer: Layer, name: str, monkeypatch: pytest.MonkeyPatch):
    assert isinstance(layer.remote(name).tags, object)
    with pytest.raises(NotFoundError):
        layer.remote(name).resolve("1")
    assert "Authorization" in layer.asked("GET")[-1]
    monkeypatch.setattr(connection, "is_loopback", lambda _host: False)  # as if it were another machine
    layer.seen.clear()
    with pytest.raises(OpspliceError, match=r"does not allow this.*\nhelp: credentials are not sent without TLS"):
        layer.remote(name).resolve("1")
    assert not any("Authorization" in headers for headers in layer.asked("GET"))


def test_tokens(layer: Layer, name: str, tmp_path: Path):
    layer.wants_tokens = True
    place = layer.remote(name)
    descriptor, file = blob(tmp_path)
    place.put_blob(descriptor, file)
    assert place.has(descriptor)
    assert len(layer.asked("GET", "/token?service=here&scope=repository%3Ax%3Apull%2Cpush")) == 1
    layer.tokens.clear()  # they expired
    place.fetch(descriptor, tmp_path / "copy")
    place.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    assert len(layer.asked("GET", "/token")) == 2
    layer.tokens.clear()
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(place.has, [descriptor] * 6)) == [True] * 6
    assert len(layer.asked("GET", "/token")) == 3
    # The password goes to the token server, and nowhere else.
    assert all(headers.get("Authorization", "Bearer").startswith("Bearer") for headers in layer.asked("GET", "/v2/"))
    config = Path(layer.environ["DOCKER_CONFIG"]) / "config.json"
    config.write_text(json.dumps({"auths": {layer.host: {"identitytoken": "an identity token"}}}))
    assert layer.remote(name).resolve("1")
    assert len(layer.asked("POST", "/token")) == 1
    config.write_text("{}")
    with pytest.raises(OpspliceError, match="does not allow this"):
        layer.remote(name).resolve("1")


@pytest.mark.parametrize(
    ("realm", "message"),
    [
        ("http://198.51.100.1/token", "sends to http://198.51.100.1, which is not protected by TLS"),
        ("file:///etc/passwd", "sends to file://"),
        ("", "sends to"),
    ],
)
def test_a_token_server_without_tls_is_not_asked(
    realm: str, message: str, layer: Layer, name: str, monkeypatch: pytest.MonkeyPatch
):
    layer.next("GET", "", Fault(401, {"WWW-Authenticate": f'Bearer realm="{realm}",service="x"'}, b""))
    place = layer.remote(name)
    monkeypatch.setattr(place._connection, "_plain", False)
    monkeypatch.setattr(place._connection, "base", f"http://elsewhere.example/v2/{name}/")
    monkeypatch.setattr(place._connection, "_once", lambda *_: layer_answer(layer, realm))
    with pytest.raises(OpspliceError, match=message):
        place.resolve("1")


def layer_answer(_layer: Layer, realm: str) -> Any:
    import requests

    response = requests.Response()
    response.status_code = 401
    response.headers["WWW-Authenticate"] = f'Bearer realm="{realm}",service="x"'
    return response


def test_redirects_take_no_credentials_along(layer: Layer, name: str, registry: Server, tmp_path: Path):
    descriptor, file = blob(tmp_path)
    with faulty.over(registry, tmp_path) as elsewhere:
        place = layer.remote(name)
        place.put_blob(descriptor, file)
        url = f"http://{elsewhere.host}/v2/{name}/blobs/{descriptor.digest}"
        layer.next("GET", "/blobs/", Fault(307, {"Location": url}))
        elsewhere.next("GET", "/blobs/", Fault(200, body=file.read_bytes()))
        place.fetch(descriptor, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == file.read_bytes()
        assert "Authorization" in layer.asked("GET", "/blobs/")[-1]
        assert [("Authorization" in headers) for headers in elsewhere.asked("GET")] == [False]
    for location, message in (
        ("ftp://localhost/x", "sends to ftp://localhost, which is not protected by TLS"),
        (f"http://{layer.host}/v2/{name}/blobs/{descriptor.digest}", "redirects more than 5 times"),
    ):
        layer.next("GET", "/blobs/", *[Fault(307, {"Location": location})] * 5)
        with pytest.raises(OpspliceError, match=message):
            layer.remote(name).fetch(descriptor, tmp_path / "other")
        layer.faults.clear()


def test_proxies_of_the_environment_are_used_and_not_for_this_machine(
    layer: Layer, name: str, monkeypatch: pytest.MonkeyPatch
):
    for key in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(key, f"http://{layer.host}")
    for key in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(key, raising=False)
    layer.next("GET", "http://registry.example/v2/", Fault(404, body=b""))
    with pytest.raises(NotFoundError):
        Remote(Reference("registry.example", name, plain=True), {}).resolve("1")
    monkeypatch.setenv("HTTP_PROXY", "http://localhost:1")
    monkeypatch.setenv("http_proxy", "http://localhost:1")
    with pytest.raises(NotFoundError):
        layer.remote(name).resolve("1")


def test_netrc_is_not_read(layer: Layer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "netrc").write_text("machine localhost login dev password word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr(connection, "is_loopback", lambda _host: False)
    monkeypatch.setenv("NO_PROXY", "localhost")
    with pytest.raises(OpspliceError, match="does not allow this"):
        layer.remote(name).resolve("1")
    assert not any("Authorization" in headers for _, _, headers in layer.seen)


# ---- networks --------------------------------------------------------------------------------------------------------


def test_what_is_cut_off_is_resumed(layer: Layer, name: str, tmp_path: Path):
    descriptor, file = blob(tmp_path)
    place = layer.remote(name)
    place.put_blob(descriptor, file)
    layer.next("GET", "/blobs/", Fault(cut=70_000), Fault(cut=70_000), Fault(cut=0))
    counted: list[int] = []
    place.fetch(descriptor, tmp_path / "copy", counted.append)
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()
    ranges = [headers.get("Range") for headers in layer.asked("GET", "/blobs/")]
    assert ranges[0] is None
    assert {headers["Accept-Encoding"] for headers in layer.asked("GET")} == {"identity"}
    assert ranges[-1] == ranges[-2] != ranges[-3]
    assert all(each and each.startswith("bytes=") for each in ranges[1:])
    assert [path.name for path in tmp_path.glob("*copy*")] == ["copy"]


def test_a_server_that_knows_no_ranges_is_read_from_the_beginning(layer: Layer, name: str, tmp_path: Path):
    descriptor, file = blob(tmp_path)
    place = layer.remote(name)
    place.put_blob(descriptor, file)
    for second in (Fault(200, {"Content-Range": ""}, file.read_bytes()), Fault(416, body=b"")):
        layer.next("GET", "/blobs/", Fault(cut=100_000), second)
        place.fetch(descriptor, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == file.read_bytes()
        (tmp_path / "copy").unlink()
    layer.next("GET", "/blobs/", Fault(cut=100_000), Fault(206, {"Content-Range": "bytes 5-9/10"}))
    with pytest.raises(OpspliceError, match="gives another range"):
        place.fetch(descriptor, tmp_path / "copy")


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_busy_servers_are_asked_again(status: int, layer: Layer, name: str, tmp_path: Path):
    descriptor, file = blob(tmp_path, 1000)
    place = layer.remote(name)
    busy = Fault(status, {"Retry-After": "0"}, b"")
    for method, part in (("POST", "/uploads/"), ("PUT", "/uploads/"), ("HEAD", "/blobs/"), ("GET", "/blobs/")):
        layer.next(method, part, busy, busy)
    layer.next("PUT", "/manifests/", busy, Fault(early=True))
    layer.next("GET", "/manifests/", busy, Fault(early=True), Fault(cut=10))
    counted: list[int] = []
    place.put_blob(descriptor, file, counted.append)
    assert sum(counted) == 1000
    assert place.has(descriptor)
    place.fetch(descriptor, tmp_path / "copy")
    put = place.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    assert layer.remote(name).resolve("1") == put
    assert not layer.faults
    layer.next("GET", "/tags/", *[busy] * 9)
    with pytest.raises(
        InterruptedTransferError, match=f"cannot answer now \\(status {status}\\)\nhelp: try again later"
    ):
        place.tags()
    assert len(layer.faults) == 9 - connection.ATTEMPTS


def test_a_server_does_not_say_how_long_to_sleep(monkeypatch: pytest.MonkeyPatch, layer: Layer, name: str):
    slept: list[float] = []
    monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=slept.append))
    waits = ("1", "1e9", "-5", "nan", "Fri, 31 Dec 2100 23:59:59 GMT")
    for wait in waits:
        layer.next("GET", "/tags/", Fault(429, {"Retry-After": wait}, b""), Fault(200, body=b'{"tags":[]}'))
        layer.remote(name).tags()
    assert slept[0] == 1.0
    assert all(0 <= pause <= connection.LONGEST_PAUSE for pause in slept)
    assert slept[2] < 1
    assert slept[4] < 1


def test_silent_servers_are_left(layer: Layer, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(connection, "ATTEMPTS", 2)
    place = layer.remote(name)
    monkeypatch.setattr(Remote._pages, "__defaults__", None)
    layer.next("GET", "/tags/", Fault(200, body=b"x", pause=0.5), Fault(200, body=b"x", pause=0.5))
    send = place._connection.send
    monkeypatch.setattr(place._connection, "send", lambda *args, **more: send(*args, **{"seconds": 0.1, **more}))
    with pytest.raises(InterruptedTransferError, match="was cut off: Read timed out"):
        place.tags()


# ---- servers that lie ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault(flip=0),
        Fault(flip=199_999),
        Fault(shorter=1),
        Fault(body=b""),
        Fault(body=noise(200_000, "other")),
        Fault(body=noise(200_001, "other")),
        Fault(headers={"Content-Length": "999999999999"}, cut=200_000, flip=5),
        Fault(headers={"Content-Encoding": "gzip"}, flip=5),
    ],
    ids=["first", "last", "short", "empty", "other", "longer", "announced", "gzip"],
)
def test_other_bytes_never_become_a_file(fault: Fault, layer: Layer, name: str, tmp_path: Path):
    descriptor, file = blob(tmp_path)
    place = layer.remote(name)
    place.put_blob(descriptor, file)
    layer.next("GET", "/blobs/", *[fault] * connection.ATTEMPTS)
    with pytest.raises(OpspliceError, match=r"gives other bytes|of the 200000 bytes|was cut off: Incomplete"):
        place.fetch(descriptor, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    layer.faults.clear()
    place.fetch(descriptor, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()


def test_a_compressed_body_is_not_unpacked(layer: Layer, name: str, tmp_path: Path):
    import gzip

    descriptor, file = blob(tmp_path)
    place = layer.remote(name)
    place.put_blob(descriptor, file)
    layer.next("GET", "/blobs/", Fault(headers={"Content-Encoding": "gzip"}, body=gzip.compress(file.read_bytes())))
    with pytest.raises(OpspliceError, match="gives other bytes"):
        place.fetch(descriptor, tmp_path / "copy")


def test_a_server_that_never_ends_is_left_when_it_gave_enough(layer: Layer, name: str, tmp_path: Path):
    descriptor, file = blob(tmp_path)
    place = layer.remote(name)
    place.put_blob(descriptor, file)
    place.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    endless = Fault(headers={"Content-Length": str(1 << 40)}, longer=64 << 20, flip=3)
    layer.next("GET", "/blobs/", endless)
    with pytest.raises(OpspliceError, match="gives other bytes"):
        place.fetch(descriptor, tmp_path / "copy")
    assert sum(path.stat().st_size for path in tmp_path.glob(".copy*")) == 0
    layer.next("GET", "/manifests/", Fault(headers={"Content-Length": str(1 << 40)}, longer=64 << 20))
    with pytest.raises(OpspliceError, match="is larger than 4194304 bytes"):
        layer.remote(name).resolve("1")


def test_another_manifest_for_a_digest_is_refused_and_for_a_tag_it_has_another_digest(layer: Layer, name: str):
    place = layer.remote(name)
    put = place.put_manifest(Index((), "application/x").to_bytes(), oci.INDEX, "1")
    other = Index((), "application/other").to_bytes()
    for act in (lambda: layer.remote(name).resolve(put.digest), lambda: layer.remote(name).read(put)):
        layer.next("GET", "/manifests/", Fault(body=other))
        with pytest.raises(oci.DamagedError, match=f"gives other bytes than those of {put.digest}"):
            act()
    # The header is the registry's word alone.
    layer.next("GET", "/manifests/", Fault(body=other, headers={"Docker-Content-Digest": put.digest}))
    assert layer.remote(name).resolve("1").digest == oci.digest_of(other)
    layer.next("PUT", "/manifests/", Fault(headers={"Docker-Content-Digest": oci.digest_of(other)}))
    with pytest.raises(OpspliceError, match="gives other bytes"):
        place.put_manifest(Index((), "application/x").to_bytes(), oci.INDEX, "1")


def test_answers_that_are_no_answers(layer: Layer, name: str):
    place = layer.remote(name)
    place.put_manifest(Index(()).to_bytes(), oci.INDEX, "1")
    html = {"Content-Type": "text/html"}
    escape = json.dumps({"errors": [{"message": "\x1b[2Jno\u202e" + "x" * 900}]}).encode()
    for method, part, fault, act, message in (
        ("GET", "/manifests/", Fault(headers=html), lambda: place.resolve("1"), "is not a package of opsplice"),
        ("GET", "/tags/", Fault(body=b"<html>"), place.tags, "the list of tags of .* is not valid JSON"),
        ("GET", "/tags/", Fault(body=b'{"tags": [1]}'), place.tags, r"tags\[0\]: it is not a string"),
        ("GET", "/tags/", Fault(403, body=escape), place.tags, r"does not allow this: \[2Jnox{190,200}\n"),
        ("GET", "/tags/", Fault(418, body=b"{" * 70_000), place.tags, "answers with status 418$"),
        ("GET", "/referrers/", Fault(200, body=b"[]"), lambda: place.referrers(EMPTY_CONFIG.digest), "not an object"),
        (
            "POST",
            "/uploads/",
            Fault(202, {"Location": "ftp://x/"}),
            lambda: place.put_bytes(b"a", "a/b"),
            "sends to ftp",
        ),
    ):
        layer.next(method, part, fault)
        with pytest.raises(OpspliceError, match=message) as failure:
            act()
        assert "\x1b" not in str(failure.value)
    names = ["1", "sha256-0", "\x1b[2J", "../x", "a" * 129]
    layer.next("GET", "/tags/", Fault(body=json.dumps({"tags": names}).encode()))
    assert place.tags() == ["1"]


def test_lists_come_in_pages_and_end(layer: Layer, name: str):
    place = layer.remote(name)
    page = f"/v2/{name}/tags/list?last="
    for number in range(3):
        layer.next("GET", "/tags/", Fault(200, {"Link": f'<{page}{number}>; rel="next"'}, b'{"tags":["%d"]}' % number))
    layer.next("GET", "/tags/", Fault(200, {"Link": '<http://elsewhere.example/x>; rel="next"'}, b'{"tags":["3"]}'))
    assert place.tags() == ["0", "1", "2", "3"]
    assert [path.partition("last=")[2] for _, path, _ in layer.seen[-3:]] == ["0", "1", "2"]
    loop = Fault(200, {"Link": f'<{page}>; rel="next"'}, b'{"tags":["1"]}')
    layer.next("GET", "/tags/", *[loop] * 50)
    assert place.tags() == ["1"]
    assert len(layer.faults) == 30


def test_a_file_that_changes_while_it_is_sent_is_not_pushed(registry: Server, name: str, tmp_path: Path):
    descriptor, file = blob(tmp_path)
    place = registry.remote(name)
    for other in (noise(200_000, "other"), file.read_bytes()[:-1], b""):
        file.write_bytes(other)
        with pytest.raises(OpspliceError, match="blob gives other bytes than those of"):
            place.put_blob(descriptor, file)
        assert not place.has(descriptor)


def test_flipped_bytes_in_the_registrys_storage(registry: Server, name: str, tmp_path: Path):
    """At every layer: index, manifest, config, spec and artifact."""
    place = registry.remote(name)
    put = package.write(place, ABOUT, parts(tmp_path / "files", 4000 + next(NUMBERS)), "1")

    def read_all() -> None:
        other = registry.remote(name)
        read = package.read(other, other.resolve(put.digest))
        for path, layer in package.contents(other, read, read.variants[0]).files.items():
            other.fetch(layer, tmp_path / "out" / f"{next(NUMBERS)}" / path)

    read_all()
    read = package.read(place, put)
    contents = package.contents(place, read, read.variants[0])
    digests = [put.digest, read.variants[0].descriptor.digest, contents.config.digest]
    for digest in (*digests, *(layer.digest for layer in contents.files.values())):
        path = registry.blob(digest)
        good = path.read_bytes()
        for place_of_byte in (0, len(good) // 2, len(good) - 1):
            bad = bytearray(good)
            bad[place_of_byte] ^= 0x20
            path.write_bytes(bad)
            with pytest.raises(OpspliceError):
                read_all()
        path.write_bytes(good)
    read_all()
    assert os.listdir(tmp_path / "out")
