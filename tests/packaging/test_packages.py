"""Packages between a registry, folders and the cache, with Debian's docker-registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opsplice import cli, packages, signatures
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_sources import PackageOptions
from opsplice.targets.registry.trust import keys
from tests.targets.registry import server
from tests.targets.registry.server import Server

SPEC = """\
kernel twice(x: f32[n]) -> f32[n] {
  cpu "twice.c"
}

pattern p(x: tensor<n x f32>) {
  absf(x)
}

replace p with twice(x)
"""
C = """
#include <stddef.h>
void twice(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; i++) out[i] = 2 * x[i]; }
"""
TARGETS = ("x86_64", "aarch64", "riscv64")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def spec(tmp_path: Path, registry: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec of an author who is logged in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    for name in ("XDG_CONFIG_HOME", "OPSPLICE_TRUST", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in registry.environ.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "twice.c").write_text(C)
    (tmp_path / "twice.splice").write_text(SPEC)
    return tmp_path / "twice.splice"


def test_a_folder_is_pushed_as_its_spec_is(spec: Path, registry: Server, tmp_path: Path) -> None:
    to = f"oci://{registry.host}/acme/folder:1.0"
    first = packages.push(spec, to, TARGETS)
    assert first.size > 0
    assert [artifact.target for artifact in first.built.artifacts] == list(TARGETS)
    packages.build(spec, TARGETS, folder=tmp_path / "out")
    again = packages.push(tmp_path / "out", to)
    assert (again.digest, again.size, again.before) == (first.digest, 0, "")
    (found,) = packages.listed(f"oci://{registry.host}/acme/folder")
    assert (found.name, found.package.name, found.package.version) == (to, "acme_folder", "1.0")
    shown = packages.show(to)
    assert shown.about.kernels == ("twice(x: f32[n]) -> f32[n]",)
    assert [variant.target for variant in shown.variants] == sorted(TARGETS)
    with pytest.raises(OpspliceError, match="is built already"):
        packages.push(tmp_path / "out", to, TARGETS)
    with pytest.raises(OpspliceError, match=r"twice\.c is a source"):
        packages.push(tmp_path, to)
    with pytest.raises(OpspliceError, match="exists already"):
        packages.build(spec, TARGETS, folder=tmp_path / "out")


def test_a_push_without_targets_is_for_those_of_the_last_build(spec: Path, registry: Server) -> None:
    to = f"oci://{registry.host}/acme/last:1.0"
    for targets in (["riscv64"], ["x86_64", "aarch64"]):
        packages.build(spec, targets)
    pushed = packages.push(spec, to)
    assert [artifact.target for artifact in pushed.built.artifacts] == ["aarch64", "x86_64"]
    assert [variant.target for variant in packages.show(to).variants] == ["aarch64", "x86_64"]


def test_packages_of_the_cache_go_by_name_and_by_what_their_digest_begins_with(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = packages.build(spec, ["x86_64"])
    for name in ("twice", "local/twice", one.digest, one.digest[:13], one.digest[7:13]):
        assert packages.show(name).package.descriptor.digest == one.digest
    for name in ("other", one.digest[7:12], "sha256:"):
        with pytest.raises(OpspliceError, match="the cache has no package"):
            packages.show(name)
    packages.build(spec, ["aarch64"])
    with pytest.raises(OpspliceError, match="several packages in the cache are called 'twice'"):
        packages.show("twice")
    assert cli.main(["kernel", "gc", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.count("stays: twice 0 (local/twice), ") == 2
    assert said.count(", used today\n") == 2


def test_a_tag_that_moves_is_said_to_both_sides(
    spec: Path, registry: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = f"oci://{registry.host}/acme/moving:1.0"
    first = packages.push(spec, to, ["x86_64"])
    lock = tmp_path / "opsplice.lock"
    options = PackageOptions(lock, allow_unsigned=True)
    assert packages.pull(to, options=options).notes == ()
    (tmp_path / "twice.c").write_text(C.replace("2 *", "3 *"))
    assert cli.main(["kernel", "push", str(spec), to, "--target=x86_64"]) == 0
    assert f"note: the tag meant {first.digest} before" in capsys.readouterr().out
    (tmp_path / "cache").rename(tmp_path / "gone")
    pulled = packages.pull(to, options=options)
    assert pulled.unpacked.package.descriptor.digest == first.digest
    assert len(pulled.notes) == 1
    assert "the tag 1.0" in pulled.notes[0]
    assert "has moved" in pulled.notes[0]


def test_one_target_of_several_is_fetched_alone(spec: Path, registry: Server, tmp_path: Path) -> None:
    to = f"oci://{registry.host}/acme/one:1.0"
    packages.push(spec, to, TARGETS)
    (tmp_path / "cache").rename(tmp_path / "gone")
    pulled = packages.pull(to, ["aarch64"], options=PackageOptions(allow_unsigned=True))
    blobs = (tmp_path / "cache" / "packages" / "layout" / "blobs" / "sha256").iterdir()
    # The index, the manifest of one target, its config, the spec and the object.
    assert len(list(blobs)) == 5
    assert {path.partition("/")[0] for path in pulled.unpacked.files} == {"aarch64", "twice.splice"}


def test_signatures_go_along_with_mirrors(spec: Path, registry: Server, tmp_path: Path) -> None:
    to, copy = f"oci://{registry.host}/acme/signed:1.0", f"oci://{registry.host}/mirrors/signed:1.0"
    public = keys.generate(tmp_path / "acme.key")
    spec.write_text(spec.read_text().replace('cpu "twice.c"', 'cpu "twice.c" flags "-O3 -ffast-math"'))
    pushed = packages.push(spec, to, ["x86_64"], licence="MIT", sign=[tmp_path / "acme.key"])
    assert pushed.signed_by == (public.id,)
    assert packages.show(to).keys == (public.id,)
    signatures.trust(tmp_path / "acme.pub", ["acme/*"], trust_file=tmp_path / "trust.toml")
    made = signatures.verify(to, PackageOptions(trust=tmp_path / "trust.toml")).statement.made
    assert made["flags"] == "-O3 -ffast-math"
    assert made["toolchains"]
    (mirrored,) = packages.mirror(to, str(tmp_path / "mirror"))
    assert mirrored.digest == pushed.digest
    (again,) = packages.mirror(str(tmp_path / "mirror"), copy)
    assert again.digest == pushed.digest
    assert packages.show(copy).keys == (public.id,)
    assert packages.show(copy).about.licence == "MIT"
    packages.push(spec, f"oci://{registry.host}/acme/signed:2.0", ["x86_64"])
    with pytest.raises(OpspliceError, match=r"has .* packages, but .* takes one"):
        packages.mirror(to.removesuffix(":1.0"), f"oci://{registry.host}/mirrors/signed:3.0")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("push", "SPEC", "oci://HOST/acme/x"), "does not say under which tag"),
        (("push", "SPEC", "oci://HOST/acme/x:1"), "there is no target to build"),
        (("push", "SPEC", "oci://HOST/acme/x:1", "--target=x86_64", "--name=a-b"), "cannot be the name of a package"),
        (("push", "SPEC", "HOST/acme/x:1", "--target=x86_64"), "names no package in a registry"),
        (("push", "no.splice", "oci://HOST/acme/x:1", "--target=x86_64"), "no such file: no.splice"),
        (("show", "oci://HOST/acme/nothing"), "has neither a tag nor a digest"),
        (("show", "oci://HOST/acme/nothing:1"), "acme/nothing"),
        (("list", "oci://HOST/acme/nothing"), "acme/nothing"),
        (("mirror", "oci://HOST/acme/nothing:1", "mirror"), "acme/nothing"),
        (("mirror", "nowhere", "mirror"), "nowhere/oci-layout"),
        (("build", "SPEC", "--target=cuda"), "does not say what cuda code is to be built for"),
        (("pull", "oci://HOST/acme/nothing:1"), "acme/nothing"),
    ],
)
def test_mistakes_are_errors(
    spec: Path, registry: Server, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.replace("SPEC", str(spec)).replace("HOST", registry.host) for word in words]
    assert cli.main(["kernel", *given]) == 1
    assert said in capsys.readouterr().err
