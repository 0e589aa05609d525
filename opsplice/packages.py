"""Packages of kernels: built of specs, pushed to registries, pulled, mirrored, listed and swept from the cache.

    built = packages.build("kernels.splice", ["x86_64", "cuda:sm_80"])
    packages.push("kernels.splice", "oci://registry.example/acme/kernels:1.4", targets=["x86_64", "cuda:sm_80"])
    packages.pull("oci://registry.example/acme/kernels:1.4", options=PackageOptions(allow_unsigned=True))

What `opsplice kernel` does, from Python. A place is a registry (`oci://HOST/REPOSITORY[:TAG]`) or a folder that is an
OCI image layout.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from opsplice import __version__
from opsplice.common import cache
from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file
from opsplice.common.store import Store
from opsplice.compiling import spec_sources
from opsplice.compiling.spec_sources import PackageOptions, SpecSource
from opsplice.packaging import package_parts
from opsplice.packaging.package_folder import Built, PackageFolder
from opsplice.packaging.package_parts import Contents
from opsplice.packaging.pulling import Pulled, Puller, targets_of
from opsplice.signatures import ask_passphrase
from opsplice.spec_lang.loading.libraries import Library
from opsplice.targets.registry import package, transfer
from opsplice.targets.registry.package import About, Package
from opsplice.targets.registry.package_cache import Packages, Swept
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.oci import Descriptor
from opsplice.targets.registry.places.place import NotFoundError, Place
from opsplice.targets.registry.places.reference import Reference, is_reference
from opsplice.targets.registry.places.remote import Remote
from opsplice.targets.registry.places.transfer_progress import Meter
from opsplice.targets.registry.trust import envelope, keys, signing
from opsplice.targets.registry.trust import lock as locks
from opsplice.targets.registry.trust.envelope import Statement

# What packages are called that were built here and pushed nowhere.
LOCAL = "local"
UNVERSIONED = "0"

_SHORTEST = 6  # digits of a digest that say which
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True)
class BuiltPackage:
    """A package that was built into the cache.

    digest: of its index. artifacts: what was built, in the spec's order. left_out: what could not be, and why.
    runs_code: whether it has code that runs on the host.
    """

    digest: str
    name: str
    version: str
    artifacts: tuple[Built, ...]
    left_out: tuple[str, ...]
    runs_code: bool


@dataclass(frozen=True)
class Pushed:
    """A package that was copied. digest: of its index. size: the bytes of files that were not there yet.

    before: the digest that the tag meant until then, "" if it meant none, or the same. signed_by: ids of keys.
    """

    to: str
    digest: str
    size: int
    built: BuiltPackage | None = None
    before: str = ""
    signed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variant:
    """What a package holds for one target. files: their sizes, by path. pulled: whether the place has the files."""

    target: str
    digest: str
    files: Mapping[str, int]
    pulled: bool


@dataclass(frozen=True)
class Shown:
    """What is in a package. keys: the ids of keys that its signatures claim; nobody has checked them."""

    place: str
    package: Package
    about: About
    variants: tuple[Variant, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Named:
    """A package and what it is called in a place."""

    name: str
    package: Package


def build(
    spec: str | os.PathLike[str],
    targets: Sequence[str],
    *,
    name: str = "",
    version: str = UNVERSIONED,
    licence: str = "",
    folder: str | os.PathLike[str] | None = None,
    partial: bool = False,
) -> BuiltPackage:
    """Build all artifacts of a spec for targets, into the cache.

    spec: a `.splice` file, or a library by its name. targets: `x86_64`, `cuda:sm_80`, `vulkan`, ...
    name: of the package, the spec's by default. folder: where to write the package as a plain folder, too.
    partial: leave out what no compiler here makes.
    Raises SpecError for errors in the spec, OpspliceError for what cannot be built.
    """
    (source,) = spec_sources.resolve(spec)
    chosen = check_name(name or _own_name(source))
    made = _built(source, targets, partial)
    if folder is not None:
        made.write(Path(folder))
    return _kept(made, chosen, version, licence)


def push(
    what: str | os.PathLike[str],
    to: str,
    targets: Sequence[str] = (),
    *,
    name: str = "",
    licence: str = "",
    partial: bool = False,
    sign: Sequence[str | os.PathLike[str]] = (),
    progress: TextIO | None = None,
) -> Pushed:
    """Publish a package under a tag of a registry.

    what: a spec, which is built for the targets (by default those that it was last built for), or a folder of prebuilt
    files. name: by which specs import it; by default the repository with `_` for `/` and `-`.
    sign: files of keys. progress: where to tell how far it is.
    Raises what `build` raises, and OpspliceError where the registry refuses.
    """
    reference = Reference.parse(to)
    if not reference.tag or reference.digest:
        raise OpspliceError(f"{to} does not say under which tag to publish", hint=f"write {reference.source}:1.0")
    chosen = check_name(name or re.sub(r"\W", "_", reference.repository))
    private = [keys.read_private(Path(each), ask_passphrase) for each in sign]
    local = Packages().layout
    folder = Path(what)
    if folder.is_dir():
        if targets:
            raise OpspliceError(f"{folder} is built already, so --target has no effect", hint="push the spec itself")
        built = _put(package_parts.read(_of_folder(folder, chosen)), chosen, reference.tag, licence)
    else:
        (source,) = spec_sources.resolve(what)
        targets = targets or _last_built(source, chosen)
        built = _kept(_built(source, targets, partial), chosen, reference.tag, licence)
    remote = Remote(reference)
    before = _digest_of(remote, reference.tag)
    found = package.read(local, local.resolve(built.digest))
    size = _copy(local, remote, found, reference.tag, f"pushing {reference}", progress)
    if private:
        statement = Statement(reference.repository, built.digest, _made(folder, built, found.iree))
        signing.sign(remote, found.descriptor, statement, private)
    before = "" if before == built.digest else before
    return Pushed(str(reference), built.digest, size, built, before, tuple(key.public.id for key in private))


def mirror(source: str, to: str, *, targets: Sequence[str] = (), progress: TextIO | None = None) -> list[Pushed]:
    """Copy packages with their signatures from one place to another.

    source: a package in a registry, a repository (all its tags), a folder (all that is in it) or a lock file.
    to: a folder, or a registry for one package. targets: only these; registries take whole packages.
    """
    found = list(_sources(source))
    if is_reference(to):
        reference = Reference.parse(to)
        if len(found) != 1:
            named = [(place, each, descriptor) for place, each, descriptor in found if each.tag == reference.tag]
            if len(named) != 1:
                listed = ", ".join(str(each) for _, each, _ in found) or "none"
                raise OpspliceError(
                    f"{source} has {len(found)} packages, but {to} takes one", hint=f"name one of: {listed}"
                )
            found = named
        place, _, descriptor = found[0]
        chosen = package.read(place, descriptor)
        size = _copy(place, Remote(reference), chosen, reference.tag, f"copying {chosen}", progress, targets)
        return [Pushed(str(reference), descriptor.digest, size)]
    copied = []
    for place, each, descriptor in found:
        chosen = package.read(place, descriptor)
        tag = each.tag or descriptor.digest.replace(":", ".")
        size = _copy(place, Layout.of(Path(to), each), chosen, tag, f"mirroring {each}", progress, targets)
        copied.append(Pushed(f"{to}: {each}", descriptor.digest, size))
    return copied


def pull(
    reference: str,
    targets: Sequence[str] = (),
    *,
    options: PackageOptions | None = None,
    progress: TextIO | None = None,
) -> Pulled:
    """Copy a package from its registry or a mirror into the cache, and unpack it, if it may be used.

    targets: what a program would be for; all that the package has by default.
    """
    puller = Puller(options or PackageOptions(), targets_of(targets, ()) if targets else (), progress)
    found = puller.pull(Reference.parse(reference))
    puller.finish()
    return found


def show(what: str) -> Shown:
    """What is in a package, without its artifacts.

    what: a package of a registry; or of the cache, by its name, as `listed` has it, or by what its digest begins with.
    """
    if is_reference(what):
        reference = Reference.parse(what)
        place: Place = Remote(reference)
        descriptor = place.resolve(reference.named)
    else:
        place = Packages().layout
        descriptor = _in_cache(what)
    found = package.read(place, descriptor)
    variants, abouts = [], []
    for variant in found.variants:
        try:
            contents = package.contents(place, found, variant)
        except NotFoundError:
            variants.append(Variant(str(variant), variant.descriptor.digest, {}, False))
            continue
        abouts.append(contents.about)
        files = {path: file.size for path, file in sorted(contents.files.items())}
        variants.append(Variant(str(variant), variant.descriptor.digest, files, True))
    if not abouts:
        raise OpspliceError(f"{place} holds only the index of {found}, no files", hint="pull it first")
    return Shown(str(place), found, abouts[0], tuple(variants), _claimed(place, descriptor.digest))


def listed(place: str | None = None) -> list[Named]:
    """The packages of the cache, of a repository of a registry (by tags), or of a folder."""
    if place is None:
        return [Named(each.name, each.package) for each in Packages().kept()]
    if not is_reference(place):
        return named(Layout(Path(place)))
    reference = Reference.parse(place)
    remote = Remote(reference)
    return [
        Named(f"{reference.source}:{tag}", package.read(remote, remote.resolve(tag)))
        for tag in ([reference.tag] if reference.tag else _tags(remote))
    ]


def gc(older: float | None = None, *, dry_run: bool = False) -> Swept:
    """Take out of the cache what nobody needs, and what was not used for so many seconds.

    dry_run: only say what would go; `freed` is then what it takes together.
    """
    packages = Packages()
    stores = [Store(path.parent) for path in (cache.folder() / "keys", *cache.folder().glob("*/keys"))]
    swept_stores = [store.sweep(older, dry_run) for store in stores]
    artifacts, freed = (sum(numbers) for numbers in zip(*swept_stores, strict=True))
    if not dry_run:
        swept = packages.sweep(older)
        return replace(swept, freed=swept.freed + freed, artifacts=artifacts)
    oldest = 0.0 if older is None else time.time() - older
    kept = packages.kept()
    gone = tuple(each for each in kept if each.used < oldest)
    staying = tuple(each for each in kept if each not in gone)
    return Swept(gone, sum(each.size for each in gone) + freed, artifacts, staying)


def check_name(name: str) -> str:
    """`name`, if specs can import a package by it. Raises OpspliceError otherwise."""
    if not _NAME.fullmatch(name):
        hint = "--name=NAME, a word as kernels' names are"
        raise OpspliceError(f"'{name}' cannot be the name of a package", hint=hint)
    return name


def _sources(text: str) -> Iterable[tuple[Place, Reference, Descriptor]]:
    """The packages that a text stands for, each with where it is and what it is called."""
    if text.endswith(".lock"):
        for locked in locks.read(Path(text)).packages:
            reference = Reference.parse(f"{locked.source}:{locked.version}" if locked.version else locked.source)
            remote = Remote(reference)
            yield remote, reference, remote.resolve(locked.digest)
        return
    if not is_reference(text):
        for each in named(Layout(Path(text))):
            reference = Reference.parse(f"oci://{each.name}")
            yield Layout.of(Path(text), reference), reference, each.package.descriptor
        return
    reference = Reference.parse(text)
    remote = Remote(reference)
    if name := reference.digest or reference.tag:
        yield remote, reference, remote.resolve(name)
        return
    for tag in _tags(remote):
        yield remote, Reference.parse(f"{reference.source}:{tag}"), remote.resolve(tag)


def named(layout: Layout) -> list[Named]:
    """The packages of a folder by their names; what else there is in it is passed over."""
    check_file(layout.root / "oci-layout", hint="a folder of packages is an OCI image layout")
    found = []
    for name, descriptor in sorted(layout.names().items()):
        if descriptor.media_type == oci.INDEX and not name.rpartition(":")[2].startswith("sha256-"):
            plain = Descriptor(descriptor.media_type, descriptor.digest, descriptor.size)
            found.append(Named(name, package.read(layout, plain)))
    return found


def _built(source: SpecSource, targets: Sequence[str], partial: bool) -> PackageFolder:
    from opsplice.compiling.resolution import Artifacts
    from opsplice.packaging.package_folder import build as build_folder  # these import IREE's compiler

    return build_folder(source, targets, Artifacts(Store()), partial=partial)


def _in_cache(what: str) -> Descriptor:
    """The index of a package in the cache. Raises OpspliceError unless there is just one that is called so."""
    digits = what.removeprefix("sha256:")
    found = {
        each.package.descriptor: f"{each.name} ({each.package})"
        for each in Packages().kept()
        if what in (each.package.name, each.name.partition("@")[0], each.name)
        or (len(digits) >= _SHORTEST and each.package.descriptor.hex.startswith(digits))
    }
    if not found:
        hint = "opsplice kernel list shows what there is; a package of a registry begins with oci://"
        raise NotFoundError(f"the cache has no package '{what}'", hint=hint)
    if len(found) > 1:
        details = "\n".join(found.values())
        raise OpspliceError(f"several packages in the cache are called '{what}'", hint="name a digest", details=details)
    return next(iter(found))


def _own_name(source: SpecSource) -> str:
    return re.sub(r"\W", "_", source.path.stem)


def _last_built(source: SpecSource, name: str) -> Sequence[str]:
    """The targets that a spec was last built for. Raises OpspliceError if it was not."""
    names = (f"{LOCAL}/{_own_name(source)}", f"{LOCAL}/{name}")
    built = [each for each in Packages().kept() if each.name.partition("@")[0] in names]
    if not built:
        hint = "--target=x86_64,cuda:sm_80, or build it first: opsplice kernel build"
        raise OpspliceError(f"there is no target to build {source} for", hint=hint)
    last = max(built, key=lambda each: each.used)
    return tuple(dict.fromkeys(each.target for each in last.package.variants if each.target != package.ANY))


def _of_folder(folder: Path, name: str) -> SpecSource:
    library = Library(name, folder, str(folder))
    return SpecSource(str(folder), library.spec(), library)


def _kept(made: PackageFolder, name: str, version: str, licence: str) -> BuiltPackage:
    """What was built, put into the cache."""
    with tempfile.TemporaryDirectory(prefix="opsplice-") as folder:
        made.write(Path(folder))
        contents = package_parts.read(SpecSource(made.main, Path(folder) / made.main))
        return replace(_put(contents, name, version, licence), artifacts=made.built, left_out=made.lacking)


def _put(contents: Contents, name: str, version: str, licence: str) -> BuiltPackage:
    descriptor = Packages().put(contents.about(name, version, licence), contents.parts, f"{LOCAL}/{name}")
    return BuiltPackage(descriptor.digest, name, version, (), (), contents.runs_code)


def _copy(
    source: Place,
    target: Place,
    chosen: Package,
    tag: str,
    what: str,
    progress: TextIO | None,
    targets: Sequence[str] = (),
) -> int:
    wanted = targets_of(targets, ()) if targets else ()
    variants = package.choose(chosen, package.for_targets(*wanted)).taken
    with Meter(what, progress) as meter:
        return transfer.copy(source, target, chosen, variants, tag, meter)


def _tags(remote: Remote) -> list[str]:
    """The tags of a repository, without those that are for signatures."""
    try:
        return [tag for tag in remote.tags() if not tag.startswith("sha256-")]
    except NotFoundError as error:
        raise NotFoundError(f"there is no {remote}, or nothing in it", hint=error.hint) from None


def _claimed(place: Place, digest: str) -> tuple[str, ...]:
    signatures = (envelope.parse(each) for each in signing.signatures(place, digest) if isinstance(each, bytes))
    return tuple(dict.fromkeys(each.key for one in signatures for each in one.signatures))


def _made(folder: Path, built: BuiltPackage, iree: str) -> dict[str, str]:
    """From what and with what a package was made, for its signature."""
    toolchains = sorted({artifact.toolchain for artifact in built.artifacts if artifact.toolchain})
    flags = sorted({" ".join(artifact.flags) for artifact in built.artifacts if artifact.flags})
    found = {"opsplice": __version__, "iree": iree, "toolchains": ", ".join(toolchains), "flags": "; ".join(flags)}
    found["source"] = _commit(folder)
    return {name: text for name, text in found.items() if text}


def _commit(path: Path) -> str:
    """The commit of git that a file or folder is at, and whether something there differs; "" without git."""
    where = path if path.is_dir() else path.parent
    try:
        commit, changed = (
            subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, check=True, timeout=30).stdout
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", "."))
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit.strip() + (" with changes" if changed else "")


def _digest_of(place: Place, tag: str) -> str:
    try:
        return place.resolve(tag).digest
    except NotFoundError:
        return ""
