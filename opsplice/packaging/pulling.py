"""Packages as specs: `oci://HOST/REPOSITORY:TAG` and what specs import from a lock, as folders of this machine.

A package is used if the lock, the trust file or the user's word allows that; what the lock pins and the cache or a
mirror has is used without a network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from opsplice.compiling import spec_sources
from opsplice.compiling.spec_sources import PackageOptions, SpecPath, SpecSource
from opsplice.pipeline.flags import named_backends, named_devices
from opsplice.spec_lang.loading import libraries
from opsplice.spec_lang.loading.libraries import Library
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.backends.backend_table import gpus, name_of
from opsplice.targets.registry import package
from opsplice.targets.registry.package_cache import Packages, Unpacked
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.place import Place
from opsplice.targets.registry.places.reference import Reference, is_reference
from opsplice.targets.registry.places.remote import Remote
from opsplice.targets.registry.places.transfer_progress import Meter
from opsplice.targets.registry.trust import admission, trust
from opsplice.targets.registry.trust import lock as locks
from opsplice.targets.registry.trust.admission import Policy
from opsplice.targets.registry.trust.lock import Lock

_TRIPLE = "--iree-llvmcpu-target-triple="
_CHIP = re.compile(r"--iree-(cuda|rocm|vulkan)-target=(.+)")
_IMPORT = re.compile(r'^\s*import\s+"([^"\n]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Pulled:
    """A package that is on this machine and may be used. notes: what the user is told."""

    name: str
    unpacked: Unpacked
    source: str
    key: str
    notes: tuple[str, ...] = ()

    @property
    def signed(self) -> str:
        """Who vouches for it, in words."""
        return f"signed by key {trust.short(self.key)}" if self.key else "not signed"

    def library(self, options: PackageOptions) -> Library:
        """The package as specs import it."""
        about, digest = self.unpacked.about, self.unpacked.package.descriptor.digest
        return Library(
            self.name,
            self.unpacked.folder,
            self.source,
            about.version,
            about.licence,
            prebuilt_only=not options.allow_code,
            digest=digest,
            key=self.key,
            main=about.main,
        )


@dataclass
class Puller:
    """Pulls packages with the same options; the lock grows meanwhile. targets: those of the program, none for all."""

    options: PackageOptions
    targets: tuple[str, ...] = ()
    progress: TextIO | None = None
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        self.policy = policy_of(self.options)
        self.packages = Packages()

    def pull(self, reference: Reference) -> Pulled:
        """The package of a reference. Raises OpspliceError for one that is not there or may not be used."""
        sources = sources_of(reference, self.options)
        admitted = admission.admit(reference, self.packages.layout, sources, self.policy)
        with Meter(f"pulling {reference}", self.progress) as meter:
            digest, wanted = admitted.package.descriptor.digest, package.for_targets(*self.targets)
            unpacked = self.packages.get(reference, digest, wanted, sources, meter)
        self.policy = Policy(self.policy.trust, admitted.lock, self.policy.locked, self.policy.allow_unsigned)
        entry = admitted.entry
        return Pulled(entry.name, unpacked, str(replace(reference, digest="")), entry.key, admitted.notes)

    def locked(self, name: str) -> Pulled | None:
        """The package that specs import by a name, if the lock has it."""
        entry = self.policy.lock.named(name)
        if entry is None:
            return None
        version = f":{entry.version}" if entry.version else ""
        return self.pull(Reference.parse(f"{entry.source}{version}@{entry.digest}"))

    def finish(self) -> None:
        """Write the lock file, if there is one to be written."""
        if self.options.lock is not None and not self.options.locked:
            locks.write(self.options.lock, self.policy.lock)


def sources_of(reference: Reference, options: PackageOptions) -> list[Place]:
    """Where a package may be, the mirrors before its registry."""
    return [*(Layout.of(folder, reference) for folder in options.mirrors), Remote(reference)]


def policy_of(options: PackageOptions) -> Policy:
    """What the files say. Raises OpspliceError for damaged ones, and with `locked` for a lock that is not there."""
    lock = Lock()
    if options.locked:
        lock = locks.read(options.lock or Path(locks.DEFAULT))
    elif options.lock is not None:
        lock = locks.read_if_there(options.lock)
    return Policy(trust.read_chosen(options.trust), lock, options.locked, options.allow_unsigned)


def pulled(
    specs: SpecPath | SpecSource | Iterable[SpecPath | SpecSource],
    options: PackageOptions,
    targets: Sequence[str] | None = (),
    flags: Sequence[str] = (),
    progress: TextIO | None = None,
) -> tuple[SpecSource, ...]:
    """The sources of specs, in the order given, with the packages among them and those that they import pulled.

    targets, flags: of the program; None for all that packages have. progress: where the user is told what happens.
    """
    given = (specs,) if isinstance(specs, (str, os.PathLike, SpecSource)) else tuple(specs)
    puller = Puller(options, () if targets is None else targets_of(targets, flags), progress)
    found = [
        puller.pull(Reference.parse(each)) if isinstance(each, str) and is_reference(each) else each for each in given
    ]
    known = {each.name: each.library(options) for each in found if isinstance(each, Pulled)}
    files = [each.unpacked.main if isinstance(each, Pulled) else each for each in found]
    waiting = [name for file in files for name in _imported(file)]
    told = [each for each in found if isinstance(each, Pulled)]
    while waiting:
        name = waiting.pop()
        if name not in known and (more := puller.locked(name)) is not None:
            known[name] = more.library(options)
            told.append(more)
            waiting += _imported(more.unpacked.main)
    puller.finish()
    for each in told:
        _tell(each, progress)
    return tuple(
        SpecSource(str(each.source), each.unpacked.main, known[each.name], known)
        if isinstance(each, Pulled)
        else spec_sources.resolve(each, known)[0]
        for each in found
    )


def targets_of(targets: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """What a program is for, as packages name it: of `--target`, else of IREE's flags, else this machine's CPU."""
    if targets:
        return tuple(_told(text) for text in targets)
    families = dict.fromkeys(name_of(name) for name in (*named_devices(flags), *named_backends(flags)))
    chips = {found[1]: found[2] for flag in flags if (found := _CHIP.fullmatch(flag))}
    names = [f"{name}:{chips[name]}" if name in chips else name for name in families] or ["cpu"]
    triples = [flag.removeprefix(_TRIPLE) for flag in flags if flag.startswith(_TRIPLE)]
    arch = archs.of_triple(triples[-1]) if triples else None
    return tuple(arch if name == "cpu" and arch else _told(name) for name in names)


def _told(text: str) -> str:
    """A target of a program as packages name it: without features, and this machine's CPU by its name."""
    name = text.strip().partition("+")[0]
    if name == "cpu":
        return archs.host_arch() or name
    return name if ":" in name or name in gpus() else archs.normalize(name)


def _imported(file: Path | SpecPath | SpecSource) -> list[str]:
    """The libraries that a spec imports by name, and the files that it imports; by its text."""
    waiting, seen, names = [file.path if isinstance(file, SpecSource) else Path(file)], set(), []
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for imported in _IMPORT.findall(path.read_text("utf-8", "replace")):
            if named := libraries.reference(imported, path.parent):
                names.append(named.library)
            else:
                waiting.append(path.parent / imported)
    return names


def _tell(pulled: Pulled, stream: TextIO | None) -> None:
    if stream is None:
        return
    digest = pulled.unpacked.package.descriptor.digest
    print(f"{pulled.name} is {pulled.source} ({digest[:19]}...), {pulled.signed}", file=stream)
    for note in pulled.notes:
        print(f"note: {note}", file=stream)
