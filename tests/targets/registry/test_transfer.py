"""Packages from place to place: whole or not at all, whatever happens on the way."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package, transfer
from opsplice.targets.registry.package import Package
from opsplice.targets.registry.package_cache import Packages
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.oci import EMPTY_CONFIG, Descriptor, Index, Manifest
from opsplice.targets.registry.places.place import NotFoundError, Place, is_sound
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.places.remote import Remote
from opsplice.targets.registry.places.transfer_progress import Meter
from tests.targets.registry import faulty
from tests.targets.registry.faulty import Fault, Layer
from tests.targets.registry.sample import ABOUT, parts
from tests.targets.registry.server import Server
from tests.test_faults import FAULTS, at_each_step, ids
from tests.waiting import PROCESSES, ended

NUMBERS = itertools.count()
X86 = package.for_targets("x86_64")


@pytest.fixture
def name() -> str:
    return f"transfer/kernels{next(NUMBERS)}"


@pytest.fixture
def layer(registry: Server, tmp_path: Path) -> Iterator[Layer]:
    with faulty.over(registry, tmp_path) as running:
        yield running


def made(place: Place, tmp_path: Path, size: int = 3000, tag: str = "1") -> Package:
    return package.read(place, package.write(place, ABOUT, parts(tmp_path / "files", size), tag))


def test_a_package_keeps_its_digest_on_every_way(registry: Server, name: str, tmp_path: Path):
    first, second = Layout(tmp_path / "first"), Layout(tmp_path / "second", "localhost:1/acme")
    found = made(first, tmp_path)
    one, two = registry.remote(f"{name}/one"), registry.remote(f"{name}/two")
    for source, target in ((first, one), (one, two), (two, second)):
        copied = transfer.copy(source, target, found, found.variants, "1")
        assert target.resolve("1") == found.descriptor
        assert copied > 9000
        assert transfer.copy(source, target, found, found.variants, "1") == 0
    assert {path.name for path in (first.root / "blobs/sha256").iterdir()} == {
        path.name for path in (second.root / "blobs/sha256").iterdir()
    }


def test_any_other_registry(tmp_path: Path, name: str):
    """With a registry of your own: OPSPLICE_TEST_REGISTRY=oci+http://localhost:5000/any/repository."""
    if not (named := os.environ.get("OPSPLICE_TEST_REGISTRY")):
        pytest.skip("OPSPLICE_TEST_REGISTRY names no other registry to test with")
    reference = Reference.parse(f"{named}/{os.getpid()}/{name}")
    source = Layout(tmp_path / "source")
    found = made(source, tmp_path, 300_000)
    for kind in "ab":
        sign(source, found.descriptor, kind)
    transfer.copy(source, Remote(reference), found, found.variants, "1")
    place = Remote(reference)
    assert place.resolve("1") == found.descriptor
    assert place.tags() == ["1"]
    referring = [oci.parse_manifest(place.read(each)) for each in place.referrers(found.descriptor.digest)]
    assert {each.artifact_type for each in referring} == {"application/a", "application/b"}
    packages = Packages(tmp_path / "cache" / "packages")
    unpacked = packages.pull(place, reference, found.descriptor, X86)
    for path in unpacked.files:
        assert (unpacked.folder / path).read_bytes() == (tmp_path / "files" / path).read_bytes()
    blob = max(unpacked.files.values(), key=lambda file: file.size)
    (tmp_path / ".copy.part").write_bytes((packages.layout.path(blob)).read_bytes()[:100_000])
    place.fetch(blob, tmp_path / "copy")
    with pytest.raises(NotFoundError):
        place.resolve("2")
    assert place.referrers(blob.digest) == []


def test_one_target_costs_one_target(layer: Layer, name: str, tmp_path: Path):
    files = parts(tmp_path / "files")
    for number in range(5):
        files.append(package.Part(f"cuda:sm_9{number}", (), files[-1].files))
    place = layer.remote(name)
    put = package.write(place, ABOUT, files, "1")
    layer.seen.clear()
    place = layer.remote(name)
    packages = Packages(tmp_path / "cache" / "packages")
    unpacked = packages.pull(place, layer.reference(name), place.resolve("1"), package.for_targets("cuda:sm_80"))
    assert sorted(unpacked.files) == ["acme_kernels.splice", "cuda-sm_80/softmax.ptx"]
    allowed = [path for how, path, headers in layer.seen if how == "GET" and "Authorization" in headers]
    # The index, one of the eight manifests, its config, the spec and one artifact.
    assert len([path for path in allowed if "/manifests/" in path and "sha256-" not in path]) == 2, allowed
    assert len([path for path in allowed if "/blobs/" in path]) == 3
    assert unpacked.package.descriptor == put
    assert len(unpacked.choice.passed) == 7


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Server, name: str):
    layout = Layout(tmp_path / "layout")
    found = made(layout, tmp_path)
    with pytest.raises(OpspliceError, match="is a registry and takes whole packages"):
        transfer.copy(layout, registry.remote(name), found, found.variants[:1])
    monkeypatch.setattr(transfer, "LARGEST", 9000)
    with pytest.raises(OpspliceError, match=r"acme_kernels 1.4 has 0 MiB of files; at most"):
        transfer.copy(layout, Layout(tmp_path / "other"), found, found.variants)
    assert not (tmp_path / "other").exists()


def sign(place: Place, subject: Descriptor, kind: str = "signature") -> None:
    place.put_bytes(b"{}", EMPTY_CONFIG.media_type)
    place.put_manifest(Manifest(EMPTY_CONFIG, (), f"application/{kind}", {}, subject).to_bytes(), oci.MANIFEST)


def test_what_refers_to_a_package_goes_with_it(layer: Layer, name: str, tmp_path: Path):
    found = made(layer.remote(name), tmp_path)
    layer.has_referrers = True
    sign(layer.remote(name), found.descriptor)
    places: list[Place] = [layer.remote(name), Layout(tmp_path / "folder"), layer.remote(f"{name}/other")]
    for source, target in itertools.pairwise(places):
        transfer.copy(source, target, found, found.variants, "1")
        (entry,) = target.referrers(found.descriptor.digest)
        assert oci.parse_manifest(target.read(entry)).artifact_type == "application/signature"


def test_referrers_that_refer_to_something_else_are_refused(tmp_path: Path):
    source, target = Layout(tmp_path / "source"), Layout(tmp_path / "target")
    found, other = made(source, tmp_path), source.put_manifest(Index((), "a/b").to_bytes(), oci.INDEX)
    sign(source, other)
    listed = Index(tuple(source.referrers(other.digest)))
    source.put_manifest(listed.to_bytes(), oci.INDEX, found.descriptor.digest.replace(":", "-"))
    with pytest.raises(OpspliceError, match=r"which it does not refer to"):
        transfer.copy(source, target, found, found.variants, "1")
    assert target.tags() == []


def test_the_first_failure_ends_the_rest(layer: Layer, name: str, tmp_path: Path):
    found = made(layer.remote(name), tmp_path, 1_000_000)
    place = layer.remote(name)
    contents = [package.contents(place, found, variant) for variant in found.variants]
    bad = contents[0].files["cuda-sm_80/softmax.ptx"]
    layer.next("GET", bad.digest, Fault(flip=0))
    others = [file for each in contents[1:] for path, file in each.files.items() if path.endswith(".o")]
    for file, pause in zip(others, (0.2, 30), strict=True):
        layer.next("GET", file.digest, Fault(pause=pause))
    begun = time.monotonic()
    with pytest.raises(oci.DamagedError, match=bad.digest):
        transfer.copy(place, Layout(tmp_path / "folder"), found, found.variants, "1")
    assert time.monotonic() - begun < 2.5  # whole, they would take 3 s and 8 minutes
    assert not (tmp_path / "folder" / "index.json").exists()


def test_bytes_that_are_flipped_in_the_storage_never_reach_a_folder(registry: Server, name: str, tmp_path: Path):
    found = made(registry.remote(name), tmp_path, 4321)
    reference = registry.reference(name)
    whole = Packages(tmp_path / "whole" / "packages")
    whole.pull(registry.remote(name), reference, found.descriptor, X86)
    for number, blob in enumerate(sorted((whole.layout.root / "blobs" / "sha256").iterdir())):
        stored = registry.blob(blob.name)
        good = stored.read_bytes()
        middle = len(good) // 2
        stored.write_bytes(good[:middle] + bytes([good[middle] ^ 4]) + good[middle + 1 :])
        packages = Packages(tmp_path / f"{number}" / "packages")
        with pytest.raises(oci.DamagedError, match=blob.name):
            packages.get(reference, found.descriptor.digest, X86, [registry.remote(name)])
        assert packages.kept() == []
        assert not (packages.root / "unpacked").exists()
        stored.write_bytes(good)
        assert packages.get(reference, found.descriptor.digest, X86, [registry.remote(name)]).main.exists()
    assert number == 6  # the index, two manifests, the config they share, the spec and two artifacts


# ---- killed, full, many at once --------------------------------------------------------------------------------------


def killed(process: BaseProcess, now: Callable[[], bool]) -> None:
    """Run a process, which is killed as soon as `now`."""
    process.start()
    until = time.monotonic() + 60
    while process.is_alive() and not now():
        assert time.monotonic() < until
        time.sleep(0.002)
    if process.is_alive() and process.pid:
        os.kill(process.pid, signal.SIGKILL)
    ended(process)
    assert process.exitcode == -signal.SIGKILL


class Killed(Meter):
    """Kills its process once so many bytes have come in it."""

    def __init__(self, after: int) -> None:
        super().__init__("")
        self.after = after

    def __call__(self, count: int) -> None:
        super().__call__(count)
        if self._done >= self.after:
            os.kill(os.getpid(), signal.SIGKILL)


def _pull_until_killed(packages: Packages, place: Place, reference: Reference, found: Package, after: int) -> None:
    packages.pull(place, reference, found.descriptor, X86, Killed(after))


@pytest.mark.parametrize("requests", [3, 6, 12, 18, 24])
def test_a_killed_push_leaves_no_name(requests: int, layer: Layer, name: str, tmp_path: Path):
    source = Layout(tmp_path / "layout")
    found = made(source, tmp_path, 100_000)
    # The name is not written before the process that asks for it is dead, however late that is.
    layer.next("PUT", f"/{name}/manifests/1", Fault(early=True))
    push = PROCESSES.Process(target=transfer.copy, args=(source, layer.remote(name), found, found.variants, "1"))
    killed(push, lambda: len(layer.seen) >= requests)
    with pytest.raises(NotFoundError):
        layer.remote(name).resolve("1")
    transfer.copy(source, layer.remote(name), found, found.variants, "1")
    place = layer.remote(name)
    assert place.resolve("1") == found.descriptor
    for variant in found.variants:
        for file in package.contents(place, found, variant).files.values():
            place.fetch(file, tmp_path / "out" / file.hex)


def test_a_killed_pull_leaves_nothing_half_and_is_resumed(layer: Layer, name: str, tmp_path: Path):
    found = made(layer.remote(name), tmp_path, 2_000_000)
    packages = Packages(tmp_path / "cache" / "packages")
    reference = layer.reference(name)
    blobs = packages.layout.root / "blobs" / "sha256"
    for begun in (1, 500_000, 1_500_000):
        arguments = (packages, layer.remote(name), reference, found, begun)
        pull = PROCESSES.Process(target=_pull_until_killed, args=arguments)
        pull.start()
        ended(pull)
        assert pull.exitcode == -signal.SIGKILL
        assert packages.kept() == []
        for path in blobs.glob("[!.]*"):
            assert is_sound(path, Descriptor("a/b", f"sha256:{path.name}", path.stat().st_size))
    layer.faults.clear()
    layer.seen.clear()
    unpacked = packages.pull(layer.remote(name), reference, found.descriptor, X86)
    assert any("Range" in headers for headers in layer.asked("GET", "/blobs/"))
    for path in unpacked.files:
        assert (unpacked.folder / path).read_bytes() == (tmp_path / "files" / path).read_bytes()
    assert list(blobs.glob(".*")) == []


@pytest.mark.parametrize("error", FAULTS, **ids)
def test_disks_that_are_full_or_broken(error: Exception, tmp_path: Path):
    source = Layout(tmp_path / "source")
    found = made(source, tmp_path, 10)
    roots: list[Path] = []

    def act() -> None:
        roots.append(tmp_path / f"cache{len(roots)}")
        packages = Packages(roots[-1] / "packages")
        transfer_one(packages)

    def transfer_one(packages: Packages) -> None:
        packages.pull(
            source, Reference("registry.example", "acme"), found.descriptor, package.for_targets("cuda:sm_80")
        )

    def check() -> None:
        packages = Packages(roots[-1] / "packages")
        for path in packages.root.glob("layout/blobs/sha256/[!.]*"):
            assert is_sound(path, Descriptor("a/b", f"sha256:{path.name}", path.stat().st_size))
        assert all((path.read_bytes() != b"") for path in packages.root.glob("layout/*.json"))
        transfer_one(packages)
        assert [each.package for each in packages.kept()] == [found]

    at_each_step(error, act, check, least=30)


def _pull_whole(packages: Packages, place: Place, reference: Reference, found: Package, files: Path) -> None:
    unpacked = packages.pull(place, reference, found.descriptor, X86)
    same = [(unpacked.folder / path).read_bytes() == (files / path).read_bytes() for path in unpacked.files]
    sys.exit(same != [True] * 3)


def test_twenty_processes_pull_at_once(layer: Layer, name: str, tmp_path: Path):
    found = made(layer.remote(name), tmp_path, 500_000)
    packages = Packages(tmp_path / "cache" / "packages")
    layer.seen.clear()
    arguments = (packages, layer.remote(name), layer.reference(name), found, tmp_path / "files")
    children = [PROCESSES.Process(target=_pull_whole, args=arguments) for _ in range(20)]
    for child in children:
        child.start()
    ended(*children)
    assert [child.exitcode for child in children] == [0] * 20
    # Each file came once: the others waited for it.
    contents = [package.contents(packages.layout, found, variant) for variant in found.variants[1:]]
    for file in {file for each in contents for file in each.files.values()}:
        assert len(layer.asked("GET", f"/blobs/{file.digest}")) <= 2  # one of them without credentials
    assert len(packages.kept()) == 1


# ---- what is shown ---------------------------------------------------------------------------------------------------


class Terminal:
    def __init__(self, is_terminal: bool) -> None:
        self.text, self._is_terminal = "", is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_a_bar_on_a_terminal_and_one_line_elsewhere(monkeypatch: pytest.MonkeyPatch):
    from opsplice.targets.registry.places import transfer_progress as progress

    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    for columns, is_terminal, expected in (
        (100, True, "pulling x  50 bytes of 100 bytes  [###############...............]"),
        (50, True, "pulling x  50 bytes of 100 bytes  [######.......]"),
        (20, True, "pulling x  50 bytes"),
        (20, False, "pulling x: 100 bytes\n"),
    ):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = Terminal(is_terminal)
        with Meter("pulling x", stream) as meter:  # type: ignore[arg-type]
            meter.expect(100)
            meter(50)
            assert stream.text.removeprefix("\r\x1b[K") == expected
            meter(50)
        assert stream.text.endswith("\r\x1b[K" if is_terminal else expected)
    assert [progress.size(count) for count in (0, 999, 1000, 12_340_000, 2 << 30)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "12.3 MB",
        "2.1 GB",
    ]
