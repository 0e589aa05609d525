"""The packages of this machine: unpacked with their digests compared, found without a network, swept away."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package
from opsplice.targets.registry.package import Package
from opsplice.targets.registry.package_cache import Packages
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.oci import EMPTY_CONFIG, Manifest
from opsplice.targets.registry.places.place import NotFoundError, Place
from opsplice.targets.registry.places.reference import Reference
from tests.targets.registry.sample import ABOUT, parts

REFERENCE = Reference("registry.example", "acme/kernels", "1.4")
X86, CUDA = package.for_targets("x86_64"), package.for_targets("cuda:sm_80")


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    return Packages(tmp_path / "cache" / "packages")


@pytest.fixture
def source(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "source")


@pytest.fixture
def found(source: Layout, tmp_path: Path) -> Package:
    return package.read(source, package.write(source, ABOUT, parts(tmp_path / "files"), "1.4"))


class Never(Layout):
    """A place that nobody may ask."""

    def resolve(self, name: str) -> oci.Descriptor:
        raise AssertionError("no source is needed")


@pytest.fixture
def never(tmp_path: Path) -> Place:
    return Never(tmp_path / "never")


def test_what_was_pulled_is_a_folder(packages: Packages, source: Layout, found: Package, tmp_path: Path, never: Place):
    pulled = packages.pull(source, REFERENCE, found.descriptor, X86)
    assert sorted(pulled.files) == ["acme_kernels.splice", "x86_64/softmax-avx512f.o", "x86_64/softmax.o"]
    assert pulled.main == pulled.folder / "acme_kernels.splice"
    assert pulled.about == ABOUT
    for path in pulled.files:
        assert (pulled.folder / path).read_bytes() == (tmp_path / "files" / path).read_bytes()
    again = packages.get(REFERENCE, found.descriptor.digest, X86, [never])
    assert again == pulled
    # Each choice of targets has a folder of its own, in which nothing else lies.
    other = packages.pull(source, REFERENCE, found.descriptor, CUDA)
    assert sorted(path.name for path in other.folder.rglob("*.*")) == ["acme_kernels.splice", "softmax.ptx"]
    assert packages.unpack(found.descriptor.digest, X86).folder == pulled.folder


def test_what_was_not_pulled_is_fetched_from_the_first_source_that_has_it(
    packages: Packages, source: Layout, found: Package, tmp_path: Path, never: Place
):
    digest = found.descriptor.digest
    with pytest.raises(NotFoundError, match=r"is not in the cache\nhelp: opsplice kernel pull oci://registry.example"):
        packages.get(REFERENCE, digest, X86, [])
    packages.get(REFERENCE, digest, X86, [Layout(tmp_path / "empty"), source, never])
    with pytest.raises(NotFoundError):
        packages.unpack(digest, CUDA)
    unpacked = packages.get(REFERENCE, digest, CUDA, [source])
    assert [str(variant) for variant in unpacked.choice.taken] == ["cuda:sm_80"]
    with pytest.raises(OpspliceError, match="has nothing that fits"):
        packages.get(REFERENCE, digest, package.for_targets("vulkan"), [never])


def test_damage_is_found_at_each_use_and_mended(packages: Packages, source: Layout, found: Package, never: Place):
    digest = found.descriptor.digest
    pulled = packages.pull(source, REFERENCE, found.descriptor, X86)
    path = pulled.folder / "x86_64" / "softmax.o"
    good = path.read_bytes()
    bad = bytes([good[0] ^ 1]) + good[1:]
    # The file alone: it comes from the layout again.
    path.unlink()
    path.write_bytes(bad)
    assert packages.get(REFERENCE, digest, X86, [never]) == pulled
    assert path.read_bytes() == good
    # The bytes in the layout, which the file shares.
    path.write_bytes(bad)
    with pytest.raises(oci.DamagedError, match=pulled.files["x86_64/softmax.o"].digest):
        packages.get(REFERENCE, digest, X86, [])
    assert packages.get(REFERENCE, digest, X86, [source]) == pulled
    assert path.read_bytes() == good
    for descriptor in (found.descriptor, found.variants[1].descriptor):
        blob = packages.layout.path(descriptor)
        blob.write_bytes(blob.read_bytes().replace(b"x86_64", b"x86_65"))
        with pytest.raises(oci.DamagedError, match=descriptor.digest):
            packages.get(REFERENCE, digest, X86, [])
        assert packages.get(REFERENCE, digest, X86, [source]) == pulled
    for path in pulled.folder.rglob("*.o"):
        path.unlink()
    assert packages.get(REFERENCE, digest, X86, [never]) == pulled


def test_file_systems_without_hard_links(
    packages: Packages, source: Layout, found: Package, monkeypatch: pytest.MonkeyPatch
):
    def no_links(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "link", no_links)
    pulled = packages.pull(source, REFERENCE, found.descriptor, CUDA)
    assert pulled.main.stat().st_nlink == 1
    assert pulled.main.read_bytes() == source.read(pulled.files["acme_kernels.splice"])


def test_a_cache_that_others_write_to_is_not_used(packages: Packages, source: Layout, found: Package):
    packages.pull(source, REFERENCE, found.descriptor, CUDA)
    packages.root.chmod(0o777)
    with pytest.raises(OpspliceError, match="others may write to the cache"):
        packages.unpack(found.descriptor.digest, CUDA)


def age(packages: Packages, found: Package, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(packages.root / "used" / found.descriptor.hex, (then, then))


def test_a_cache_that_cannot_be_written_to_gives_what_it_has(
    packages: Packages, source: Layout, found: Package, never: Place, monkeypatch: pytest.MonkeyPatch
):
    pulled = packages.pull(source, REFERENCE, found.descriptor, X86)

    def refuse(*_given: object, **_more: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    opened = os.open

    def read_only(path: str, flags: int, *given: int, **more: int) -> int:
        return refuse() if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) else opened(path, flags, *given, **more)

    monkeypatch.setattr(os, "access", lambda _path, mode, **_more: not mode & os.W_OK)
    monkeypatch.setattr(os, "open", read_only)
    for where, name in ((os, "mkdir"), (os, "replace"), (Path, "touch")):
        monkeypatch.setattr(where, name, refuse)
    assert packages.get(REFERENCE, found.descriptor.digest, X86, [never]) == pulled


def test_what_is_kept_and_swept(packages: Packages, source: Layout, found: Package, tmp_path: Path):
    assert packages.sweep().freed == 0
    assert packages.kept() == []
    second = package.read(source, package.write(source, ABOUT, parts(tmp_path / "more", 5000), "1.5"))
    for each in (found, second):
        source.put_bytes(b"{}", EMPTY_CONFIG.media_type)
        signature = Manifest(EMPTY_CONFIG, (), "application/signature", {}, each.descriptor)
        source.put_manifest(signature.to_bytes(), oci.MANIFEST)
        packages.pull(source, REFERENCE, each.descriptor, X86)
    age(packages, found, 40)
    kept = {each.package: each for each in packages.kept()}
    assert set(kept) == {found, second}
    assert kept[found].name == f"registry.example/acme/kernels@{found.descriptor.digest}"
    assert kept[found].targets == ("x86_64", "x86_64 avx512f subgroup>=32")
    assert 6000 < kept[found].size < 10_000 < kept[second].size
    assert time.time() - kept[second].used < 60
    leftover = packages.layout.path(found.descriptor).with_name(".begun.part")
    leftover.write_bytes(b"x" * 1000)
    assert packages.sweep().freed == 1000
    swept = packages.sweep(30 * 86400)
    assert [each.package for each in swept.packages] == [found]
    assert swept.freed > 6000
    assert [each.package for each in packages.kept()] == [second]
    packages.unpack(second.descriptor.digest, X86)
    assert packages.layout.referrers(second.descriptor.digest)
    assert packages.layout.referrers(found.descriptor.digest) == []
    with pytest.raises(NotFoundError):
        packages.unpack(found.descriptor.digest, X86)
    # A package that is used again stays, and what is swept last leaves nothing.
    assert packages.sweep(30 * 86400).packages == ()
    age(packages, second, 31)
    packages.unpack(second.descriptor.digest, X86)
    assert packages.sweep(30 * 86400).packages == ()
    packages.sweep(-1)
    assert not list((packages.layout.root / "blobs" / "sha256").iterdir())
    assert not [path for part in ("unpacked", "used") for path in (packages.root / part).iterdir()]


def test_what_cannot_be_read_is_swept(packages: Packages, source: Layout, found: Package):
    packages.pull(source, REFERENCE, found.descriptor, CUDA)
    packages.layout.path(found.descriptor).write_bytes(b"{}")
    assert packages.kept() == []
    assert packages.sweep().freed > 3000
    assert packages.layout.names() == {}


def test_nothing_of_a_transport_is_loaded_for_what_is_there(
    packages: Packages, source: Layout, found: Package, tmp_path: Path
):
    import subprocess
    import sys

    packages.pull(source, REFERENCE, found.descriptor, CUDA)
    program = (
        "import sys; from pathlib import Path; from opsplice.targets.registry import package\n"
        "from opsplice.targets.registry.package_cache import Packages\n"
        "from opsplice.targets.registry.places.remote import Remote\n"
        "from opsplice.targets.registry.places.reference import Reference\n"
        "reference = Reference.parse('oci://registry.example/acme/kernels'); remote = Remote(reference)\n"
        f"Packages(Path({str(packages.root)!r})).get(reference, {found.descriptor.digest!r},"
        " package.for_targets('cuda:sm_80'), [remote])\n"
        "assert not {'requests', 'urllib3', 'ssl'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
