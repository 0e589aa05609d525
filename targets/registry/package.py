"""A package as OCI: an index with a manifest for each target, whose layers are the files that the target needs.

The index alone says what there is for which target, so choosing costs one small document. What a stranger's package may
say is limited here: paths stay in their folder and names are fit for a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import oci, strict_json
from opsplice.targets.registry.places.oci import Descriptor, Index, Manifest
from opsplice.targets.registry.places.place import Place, describe

KERNELS = "application/vnd.opsplice.kernels.v1"
CONFIG = "application/vnd.opsplice.config.v1+json"
SPEC = "application/vnd.opsplice.spec.v1"
ARTIFACT = "application/vnd.opsplice.artifact.v1"

# Says that an index is a package, and which version of this format it has. The field `artifactType` of OCI 1.1 would
# say it, but older tools lose it when they copy an index, and with it the digest.
FORMAT = "dev.opsplice.package"
FORMAT_1 = "1"
TARGET = "dev.opsplice.target"
FEATURES = "dev.opsplice.features"
IREE = "dev.opsplice.iree"

# A target that every machine is: specs without artifacts, or with such as fit anywhere.
ANY = "any"

_SPEC_SUFFIXES = (".splice", ".mlir")
_LONGEST_PATH = 200
_MOST_KERNELS = 1000
_PATH = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*(?:/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)*", re.ASCII)
_SHAPES = {
    "name": re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", re.ASCII),
    "version": re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_!-]{0,99}", re.ASCII),
    "licence": re.compile(r"[ -~]{0,200}", re.ASCII),
    "IREE version": re.compile(r"[A-Za-z0-9.+_~=!<>, -]{0,100}", re.ASCII),
    "target": re.compile(r"[a-z0-9_]{1,40}(?::[a-z0-9_.+-]{1,60})?", re.ASCII),
    "feature": re.compile(r"[A-Za-z0-9_.+:<>=!-]{1,100}", re.ASCII),
    "signature of a kernel": re.compile(r"[ -~]{1,4000}", re.ASCII),
}


@dataclass(frozen=True)
class About:
    """What a package says of itself.

    main:      the path of its main spec.
    iree:      the version of IREE that its artifacts were made for.
    kernels:   their signatures, as text.
    runs_code: whether it has code that runs on the host (commands, generators).
    """

    name: str
    version: str
    main: str
    licence: str = ""
    iree: str = ""
    kernels: tuple[str, ...] = ()
    runs_code: bool = False

    def __post_init__(self) -> None:
        _check("name", self.name)
        _check("version", self.version)
        _check("licence", self.licence)
        _check("IREE version", self.iree)
        check_path(self.main)
        for kernel in self.kernels:
            _check("signature of a kernel", kernel)
        if len(self.kernels) > _MOST_KERNELS:
            raise OpspliceError(f"the package {self.name} has more than {_MOST_KERNELS} kernels")

    def to_bytes(self) -> bytes:
        return strict_json.canonical(
            {
                "name": self.name,
                "version": self.version,
                "licence": self.licence,
                "iree": self.iree,
                "main": self.main,
                "kernels": list(self.kernels),
                "runsCode": self.runs_code,
            }
        )


@dataclass(frozen=True)
class Part:
    """What a package holds for one target. files: by their path in the package; specs are among them."""

    target: str
    features: tuple[str, ...]
    files: Mapping[str, Path]

    def __post_init__(self) -> None:
        _check("target", self.target)
        for feature in self.features:
            _check("feature", feature)
        for path in self.files:
            check_path(path)


@dataclass(frozen=True)
class Variant:
    """An entry of a package's index: the manifest of a target with features."""

    descriptor: Descriptor
    target: str
    features: tuple[str, ...]

    def __str__(self) -> str:
        return self.target + "".join(f" {feature}" for feature in self.features)


@dataclass(frozen=True)
class Package:
    """A package's index. descriptor: of the index, whose digest is the package's."""

    descriptor: Descriptor
    name: str
    version: str
    licence: str
    iree: str
    variants: tuple[Variant, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Contents:
    """A variant's manifest. files: by their path in the package."""

    about: About
    config: Descriptor
    files: Mapping[str, Descriptor]


@dataclass(frozen=True)
class Choice:
    """The variants that are wanted, and the others with the reason why not."""

    taken: tuple[Variant, ...]
    passed: tuple[tuple[Variant, str], ...]


# Why a variant is not wanted, as in `it is for aarch64`; "" if it is.
WhyNot = Callable[[Variant], str]


def write(place: Place, about: About, parts: Sequence[Part], tag: str = "") -> Descriptor:
    """Put a package into a place, its index last; the descriptor of that. Nothing in it depends on the time."""
    config = about.to_bytes()
    if len({(part.target, frozenset(part.features)) for part in parts}) != len(parts):
        raise OpspliceError(f"two parts of the package {about.name} have the same target and the same features")
    _check_together(path for part in parts for path in part.files)
    entries = [_write_part(place, about, config, part) for part in sorted(parts, key=_order)]
    named = {oci.TITLE: about.name, oci.VERSION: about.version, oci.LICENSES: about.licence, IREE: about.iree}
    notes = {key: text for key, text in named.items() if text}
    index = Index(tuple(entries), annotations={FORMAT: FORMAT_1, **notes})
    return place.put_manifest(index.to_bytes(), oci.INDEX, tag)


def read(place: Place, descriptor: Descriptor) -> Package:
    """The package of an index. Raises OpspliceError for what is not a package."""
    if descriptor.media_type != oci.INDEX:
        raise _no_package(place, descriptor)
    index = oci.parse_index(place.read(descriptor), f"the index {descriptor.digest} of {place}")
    notes = index.annotations
    if (version := notes.get(FORMAT)) != FORMAT_1:
        if version:
            hint = "a newer version of opsplice may know it"
            raise OpspliceError(f"{descriptor.digest} in {place} is a package of format {version!r:.40}", hint=hint)
        raise _no_package(place, descriptor)
    return Package(
        descriptor,
        _check("name", notes.get(oci.TITLE, "")),
        _check("version", notes.get(oci.VERSION, "")),
        _check("licence", notes.get(oci.LICENSES, "")),
        _check("IREE version", notes.get(IREE, "")),
        tuple(_variant(entry) for entry in index.manifests),
    )


def contents(place: Place, package: Package, variant: Variant) -> Contents:
    """The files of a variant. Raises OpspliceError where it is none of this package, or names what it must not."""
    digest = variant.descriptor.digest
    manifest = oci.parse_manifest(place.read(variant.descriptor), f"the manifest {digest} of {place}")
    if manifest.artifact_type != KERNELS or manifest.config.media_type != CONFIG:
        raise OpspliceError(f"{digest} in {place} is listed by a package, but holds something else")
    files: dict[str, Descriptor] = {}
    for layer in manifest.layers:
        path = check_path(layer.annotations.get(oci.TITLE, ""))
        if layer.media_type not in (SPEC, ARTIFACT):
            raise OpspliceError(f"{path} of {package} is a {layer.media_type}, which no package holds")
        if path in files:
            raise OpspliceError(f"{package} for {variant} has {path} twice")
        files[path] = layer
    _check_together(files)
    about = _about(place.read(manifest.config), f"the config of {package}")
    if (about.name, about.version) != (package.name, package.version):
        raise OpspliceError(f"the config of {package} is that of {about.name} {about.version}")
    if about.main not in files:
        raise OpspliceError(f"{package} for {variant} lacks its main spec {about.main}")
    return Contents(about, manifest.config, files)


def merged(package: Package, each: Iterable[Contents]) -> dict[str, Descriptor]:
    """The files of several variants together. Raises OpspliceError where a path means two files."""
    files: dict[str, Descriptor] = {}
    for part in each:
        for path, layer in part.files.items():
            if files.setdefault(path, layer).digest != layer.digest:
                raise OpspliceError(
                    f"{path} is another file in one target of {package} than in the next",
                    hint="use one target at a time, or ask its publisher for names that differ",
                )
    _check_together(files)
    return files


def choose(package: Package, why_not: WhyNot) -> Choice:
    """The variants to which `why_not` has nothing to say. Raises OpspliceError, with all reasons, if there is none."""
    reasons = [(variant, why_not(variant)) for variant in package.variants]
    taken = tuple(variant for variant, reason in reasons if not reason)
    passed = tuple((variant, reason) for variant, reason in reasons if reason)
    if not taken:
        listed = "\n".join(f"  {variant}: {reason}" for variant, reason in passed)
        raise OpspliceError(f"{package} has nothing that fits", details=listed or "  it has no targets at all")
    return Choice(taken, passed)


def for_targets(*targets: str) -> WhyNot:
    """Wants all variants that a program for these targets can take, with whatever features; for no targets, all.

    A program for `cuda:sm_90` takes what is for older GPUs, too, and one for `cuda` or `vulkan` that of all chips.
    """

    def why_not(variant: Variant) -> str:
        if not targets or variant.target == ANY or any(_fits(variant.target, target) for target in targets):
            return ""
        return f"it is for {variant.target}, not {' or '.join(targets)}"

    return why_not


def _fits(offered: str, target: str) -> bool:
    (family, _, chip), (wanted_family, _, wanted_chip) = offered.partition(":"), target.partition(":")
    if family != wanted_family:
        return False
    numbers = [re.fullmatch(r"sm_(\d+)", each) for each in (chip, wanted_chip)]
    if numbers[0] and numbers[1]:
        return int(numbers[0][1]) <= int(numbers[1][1])
    return "" in (chip, wanted_chip) or chip == wanted_chip


def check_path(path: str) -> str:
    """`path` if a package may hold a file of that name; else OpspliceError."""
    if len(path) > _LONGEST_PATH or not _PATH.fullmatch(path):
        raise OpspliceError(
            f"{path!r:.220} cannot be a path in a package",
            hint=f"it is relative, of letters, digits and ._+- between `/`, begins no part with `.`, "
            f"and has at most {_LONGEST_PATH} characters",
        )
    return path


def _check_together(paths: Iterable[str]) -> None:
    """Raise OpspliceError for paths that are one on some file systems, or a file and a folder."""
    seen: dict[str, str] = {}
    for path in paths:
        if (other := seen.setdefault(path.lower(), path)) != path:
            raise OpspliceError(f"{other} and {path} differ in upper and lower case only", hint="rename one of them")
    for folded, path in seen.items():
        for end in (place for place, letter in enumerate(folded) if letter == "/"):
            if (file := seen.get(folded[:end])) is not None:
                raise OpspliceError(f"{file} is a file, and a folder of {path}", hint="rename one of them")


def _write_part(place: Place, about: About, config: bytes, part: Part) -> Descriptor:
    if about.main not in part.files:
        raise OpspliceError(f"the part for {part.target} lacks the main spec {about.main}")
    layers = []
    for path, file in sorted(part.files.items()):
        layer = _described(path, file)
        if not place.has(layer):
            place.put_blob(layer, file)
        layers.append(layer)
    about_it = place.put_bytes(config, CONFIG)
    manifest = place.put_manifest(Manifest(about_it, tuple(layers), KERNELS).to_bytes(), oci.MANIFEST)
    notes = {TARGET: part.target}
    if part.features:
        notes[FEATURES] = ",".join(sorted(part.features))
    return replace(manifest, annotations=notes)


def _described(path: str, file: Path) -> Descriptor:
    try:
        found = describe(file, SPEC if path.endswith(_SPEC_SUFFIXES) else ARTIFACT)
    except OSError as error:
        raise OpspliceError(f"cannot read {file}: {(error.strerror or str(error)).lower()}") from None
    if found.size > oci.LARGEST_BLOB:
        raise OpspliceError(f"{file} is larger than {oci.LARGEST_BLOB >> 30} GiB, the most that a package holds")
    return replace(found, annotations={oci.TITLE: path})


def _order(part: Part) -> tuple[str, list[str]]:
    return part.target, sorted(part.features)


def _variant(entry: Descriptor) -> Variant:
    if entry.media_type != oci.MANIFEST:
        raise OpspliceError(f"the package lists {entry.digest}, which is a {entry.media_type} and no manifest")
    named = entry.annotations.get(FEATURES, "")
    features = tuple(_check("feature", feature) for feature in named.split(",")) if named else ()
    return Variant(entry, _check("target", entry.annotations.get(TARGET, "")), features)


def _about(data: bytes, what: str) -> About:
    table = strict_json.parse(data, what)
    name, version, main = table.text("name"), table.text("version"), table.text("main")
    texts = table.text("licence", ""), table.text("iree", "")
    return About(name, version, main, *texts, table.texts("kernels"), table.truth("runsCode"))


def _check(kind: str, text: str) -> str:
    if not _SHAPES[kind].fullmatch(text):
        raise OpspliceError(f"{text!r:.200} cannot be the {kind} of a package")
    return text


def _no_package(place: Place, descriptor: Descriptor) -> OpspliceError:
    return OpspliceError(
        f"{descriptor.digest} in {place} is not a package of opsplice but something else, such as a container image"
    )
