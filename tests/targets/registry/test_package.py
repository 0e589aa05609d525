"""Packages as OCI: written, read, chosen from, and what a stranger's package must not say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package
from opsplice.targets.registry.package import About, Part, Variant
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.oci import EMPTY_CONFIG, Descriptor, Index, Manifest
from tests.targets.registry.sample import ABOUT, SPEC, parts


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


def test_a_package_is_read_as_it_was_written(layout: Layout, tmp_path: Path):
    descriptor = package.write(layout, ABOUT, parts(tmp_path / "files"), "1.4")
    assert layout.resolve("1.4") == descriptor
    read = package.read(layout, descriptor)
    assert (read.name, read.version, read.licence, read.iree) == ("acme_kernels", "1.4", "MIT", "3.13.0")
    assert [str(variant) for variant in read.variants] == ["cuda:sm_80", "x86_64", "x86_64 avx512f subgroup>=32"]
    for variant in read.variants:
        contents = package.contents(layout, read, variant)
        assert contents.about == ABOUT
        assert len(contents.files) == 2
        assert layout.read(contents.files["acme_kernels.splice"]) == SPEC
    # The spec is there once: 1 index, 3 manifests, 1 config, 3 artifacts, 1 spec.
    assert len(list((layout.root / "blobs" / "sha256").iterdir())) == 9


def test_the_same_content_has_the_same_digest(tmp_path: Path):
    made = parts(tmp_path / "files")
    digests = {
        package.write(Layout(tmp_path / f"{n}"), ABOUT, made[::step], "").digest for n, step in ((0, 1), (1, -1))
    }
    assert len(digests) == 1
    other = package.write(Layout(tmp_path / "other"), replace(ABOUT, version="1.5"), made)
    assert other.digest not in digests


def test_choosing_reads_the_index_alone_and_gives_reasons(layout: Layout, tmp_path: Path):
    descriptor = package.write(layout, ABOUT, parts(tmp_path / "files"))
    for path in (layout.root / "blobs" / "sha256").iterdir():
        if path.name != descriptor.hex:
            path.unlink()
    read = package.read(layout, descriptor)
    choice = package.choose(read, package.for_targets("x86_64"))
    assert [str(variant) for variant in choice.taken] == ["x86_64", "x86_64 avx512f subgroup>=32"]
    assert [(str(variant), reason) for variant, reason in choice.passed] == [
        ("cuda:sm_80", "it is for cuda:sm_80, not x86_64")
    ]
    with pytest.raises(OpspliceError, match=r"acme_kernels 1.4 has nothing that fits\n  cuda:sm_80: it is for"):
        package.choose(read, package.for_targets("vulkan", "aarch64"))
    anything = Variant(descriptor, "any", ())
    assert package.for_targets("vulkan")(anything) == ""


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "../a", "a/../b", "a//b", "./a", "a/.", ".hidden", "a/.b", "C:\\a", "a\\b", "a b", "a\n"),
        *("ä", "a/", "a" * 201, "a\x1b[2J", "a:b", "~", "a\0b"),
    ],
)
def test_paths_stay_in_their_folder(path: str, layout: Layout, tmp_path: Path):
    with pytest.raises(OpspliceError, match="cannot be a path in a package"):
        Part("x86_64", (), {path: tmp_path})
    with pytest.raises(OpspliceError, match="cannot be a path in a package"):
        read_layers(layout, [layer(path)])


def layer(path: str, data: bytes = b"code", media_type: str = package.ARTIFACT) -> Descriptor:
    return Descriptor.of(data, media_type, {oci.TITLE: path})


def read_layers(
    layout: Layout, layers: list[Descriptor], about: Any = ABOUT, kind: str = package.KERNELS, **notes: str
):
    config = layout.put_bytes(about if isinstance(about, bytes) else about.to_bytes(), package.CONFIG)
    spec = layer(ABOUT.main, SPEC, package.SPEC)
    manifest = layout.put_manifest(Manifest(config, (spec, *layers), kind).to_bytes(), oci.MANIFEST)
    named = {package.FORMAT: "1", oci.TITLE: ABOUT.name, oci.VERSION: ABOUT.version}
    index = Index((replace(manifest, annotations={package.TARGET: "x86_64", **notes}),), annotations=named)
    read = package.read(layout, layout.put_manifest(index.to_bytes(), oci.INDEX))
    return package.contents(layout, read, read.variants[0])


def test_what_a_strangers_package_must_not_say(layout: Layout):
    assert set(read_layers(layout, [layer("a.o")]).files) == {ABOUT.main, "a.o"}
    config = json.loads(ABOUT.to_bytes())
    for layers, rest, message in (
        ([layer("a.o"), layer("a.o")], {}, "has a.o twice"),
        ([layer("a.o"), layer("A.o")], {}, "differ in upper and lower case only"),
        ([layer("a/b.o"), layer("A")], {}, "A is a file, and a folder of a/b.o"),
        ([layer("a.o", media_type="application/gzip")], {}, "which no package holds"),
        ([], {"kind": "application/x"}, "holds something else"),
        ([], {package.TARGET: "x86\x1b[2J"}, "cannot be the target"),
        ([], {package.FEATURES: "a,,b"}, "cannot be the feature"),
        ([], {"about": replace(ABOUT, version="9")}, "the config of acme_kernels 1.4 is that of acme_kernels 9"),
        ([], {"about": replace(ABOUT, main="b.splice")}, "lacks its main spec b.splice"),
        ([], {"about": b"{"}, "not valid JSON"),
        ([], {"about": json.dumps(config | {"main": "../x"}).encode()}, "cannot be a path"),
        ([], {"about": json.dumps(config | {"kernels": ["\x1b"]}).encode()}, "cannot be the signature of a kernel"),
        ([], {"about": json.dumps(config | {"kernels": ["k"] * 1001}).encode()}, "more than 1000 kernels"),
    ):
        with pytest.raises(OpspliceError, match=message):
            read_layers(layout, layers, **rest)


@pytest.mark.parametrize(
    ("name", "value"), [("name", "a b"), ("name", ""), ("version", "1\n2"), ("licence", "x\x07"), ("iree", "é")]
)
def test_names_are_fit_for_a_terminal(name: str, value: str, layout: Layout):
    with pytest.raises(OpspliceError, match="cannot be the"):
        replace(ABOUT, **{name: value})
    key = {"name": oci.TITLE, "version": oci.VERSION, "licence": oci.LICENSES, "iree": package.IREE}[name]
    notes = {package.FORMAT: "1", oci.TITLE: "a", oci.VERSION: "1", key: value}
    put = layout.put_manifest(Index((), annotations=notes).to_bytes(), oci.INDEX)
    with pytest.raises(OpspliceError, match="cannot be the"):
        package.read(layout, put)


def test_what_is_no_package_is_said_to_be_none(layout: Layout):
    image = layout.put_manifest(Manifest(EMPTY_CONFIG, ()).to_bytes(), oci.MANIFEST)
    for descriptor in (image, layout.put_manifest(Index((image,)).to_bytes(), oci.INDEX)):
        with pytest.raises(OpspliceError, match="is not a package of opsplice but something else"):
            package.read(layout, descriptor)
    # An index of indexes, such as one that lists itself would be.
    listed = Descriptor(oci.INDEX, image.digest, image.size)
    nested = Index((listed,), annotations={package.FORMAT: "1", oci.TITLE: "a", oci.VERSION: "1"})
    with pytest.raises(OpspliceError, match="and no manifest"):
        package.read(layout, layout.put_manifest(nested.to_bytes(), oci.INDEX))
    later = replace(nested, annotations={package.FORMAT: "2\x1b"})
    with pytest.raises(OpspliceError, match=r"is a package of format '2\\x1b'\nhelp: a newer version"):
        package.read(layout, layout.put_manifest(later.to_bytes(), oci.INDEX))


def test_what_cannot_be_published(layout: Layout, tmp_path: Path):
    first, second, third = parts(tmp_path / "files")
    (tmp_path / "A.o").write_bytes(b"")
    for made, message in (
        ([first, first], "the same target and the same features"),
        ([replace(first, files={"a.o": tmp_path / "A.o"})], "lacks the main spec acme_kernels.splice"),
        ([replace(first, files={ABOUT.main: tmp_path / "absent"})], "cannot read .*absent: no such file"),
        (
            [first, replace(second, files={**second.files, "X86_64/softmax.o": tmp_path / "A.o"})],
            "differ in upper and lower case only",
        ),
    ):
        with pytest.raises(OpspliceError, match=message):
            package.write(layout, ABOUT, made)
    assert layout.tags() == []
    assert third.target == "cuda:sm_80"


def test_targets_together_must_agree_on_their_files(layout: Layout, tmp_path: Path):
    first, second, _ = parts(tmp_path / "files")
    other = next(file for path, file in second.files.items() if path != ABOUT.main)
    clash = replace(second, files={ABOUT.main: second.files[ABOUT.main], "x86_64/softmax.o": other})
    read = package.read(layout, package.write(layout, ABOUT, [first, clash]))
    both = [package.contents(layout, read, variant) for variant in read.variants]
    with pytest.raises(OpspliceError, match=r"x86_64/softmax.o is another file in one target"):
        package.merged(read, both)
    assert len(package.merged(read, both[:1])) == 2


def test_a_name_of_a_package_may_be_a_repository():
    assert About("acme-kernels.v2", "1.0+cu12", "a.splice").name == "acme-kernels.v2"
