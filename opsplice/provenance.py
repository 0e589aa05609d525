"""What the kernels of a program are: noted in the program when it is compiled, and read from the .vmfb alone.

The note is JSON in the reflection of the first function that the program exports, where IREE's own tools show it. It
costs nothing at run time and has names and digests, no paths. It says what the compile was given; it is not signed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsplice import __version__
from opsplice.common.errors import printable
from opsplice.reports.report import PackageUse, Report

if TYPE_CHECKING:
    from iree.compiler import ir

    from opsplice.targets.registry.places.strict_json import Table
    from opsplice.targets.registry.trust.trust import Trust

NOTE = "opsplice.kernels"

# No program has that many; a note of 4 MiB could.
_MOST = 20_000


@dataclass(frozen=True)
class KernelUse:
    """Code of a kernel in a program, for one of its targets.

    file: what the spec names, without its folder. digest: `sha256:` and that of the code; "" if it comes from a plugin
    at run time. package: what the kernel came with, None for a spec that is in no package.
    """

    kernel: str
    approach: str
    target: str
    form: str
    file: str
    digest: str
    package: PackageUse | None = None


@dataclass(frozen=True)
class Provenance:
    """What made a program: versions, and the code of its kernels."""

    opsplice: str
    iree: str
    kernels: tuple[KernelUse, ...]

    def to_text(self) -> str:
        from opsplice.targets.registry.places import strict_json  # compiles without kernels do without it

        packages = list(dict.fromkeys(each.package for each in self.kernels if each.package))
        kernels = [
            {**_texts(each), **({"package": packages.index(each.package)} if each.package else {})}
            for each in self.kernels
        ]
        values = {"opsplice": self.opsplice, "iree": self.iree, "kernels": kernels}
        return strict_json.canonical({**values, "packages": [*map(_texts, packages)]}).decode()


@dataclass(frozen=True)
class Finding:
    """A kernel that is revoked, and why."""

    kernel: KernelUse
    reason: str


def of(report: Report) -> Provenance | None:
    """What a report says of a program's kernels; None if there are none."""
    uses = [
        KernelUse(
            _shown(replacement.kernel),
            replacement.action,
            _shown(use.target),
            use.form,
            _shown(Path(use.source).name),
            f"sha256:{use.digest}" if use.digest else "",
            use.package,
        )
        for replacement in report.replacements
        for use in replacement.artifacts
        if use.form != "compiler"
    ]
    return Provenance(__version__, _iree(), tuple(dict.fromkeys(uses))) if uses else None


def note(module: ir.Module, report: Report) -> None:
    """Note in a module what its kernels are, with what was noted there before; one without kernels stays as it is."""
    from opsplice.rewrites.ir import reflection

    found = of(report)
    if found is None:
        return
    for text in reflection.texts(module, NOTE):
        found = _joined([parse(text), found])
    reflection.add_to_first(module, {NOTE: found.to_text()})


def read(path: Path) -> Provenance | None:
    """What a .vmfb says of its kernels; None if it has none of opsplice's. It is read by IREE's native code.

    Raises OpspliceError for what is not a compiled program, or holds a note that opsplice does not write.
    """
    from iree.runtime import VmInstance

    from opsplice.runtime.loaded_program import read_module

    module = read_module(path, str(path), VmInstance())
    notes = [module.lookup_function(name).reflection.get(NOTE) for name in module.function_names]
    found = [parse(text) for text in notes if text is not None]
    return _joined(found) if found else None


def revoked(provenance: Provenance, trust: Trust) -> list[Finding]:
    """The kernels that a trust file revokes: their code, their package, or the key that signed this."""
    found = []
    for kernel in provenance.kernels:
        package = kernel.package or PackageUse("")
        if reason := trust.why_revoked(package.key, kernel.digest, package.digest):
            found.append(Finding(kernel, reason))
    return found


def _joined(parts: Iterable[Provenance]) -> Provenance:
    *_, last = parts = tuple(parts)
    return dataclasses.replace(last, kernels=tuple(dict.fromkeys(use for part in parts for use in part.kernels)))


def parse(text: str) -> Provenance:
    """What a note says. Raises OpspliceError for one that opsplice does not write."""
    from opsplice.targets.registry.places import strict_json

    table = strict_json.parse(text.encode("utf-8", "surrogateescape"), "the note on the program's kernels")
    packages = [_package(each) for each in table.tables("packages", _MOST)]
    kernels = tuple(_kernel(each, packages) for each in table.tables("kernels", _MOST))
    return Provenance(_word(table, "opsplice"), _word(table, "iree"), kernels)


def _package(table: Table) -> PackageUse:
    from opsplice.targets.registry.trust.lock import DIGEST, KEY

    digest, key = table.text("digest", ""), table.text("key", "")
    if not (DIGEST.fullmatch(digest) or not digest) or not (KEY.fullmatch(key) or not key):
        raise table.error("it has no digest or key that is one")
    return PackageUse(_word(table, "name"), _word(table, "version"), digest, key)


def _kernel(table: Table, packages: list[PackageUse]) -> KernelUse:
    from opsplice.targets.registry.trust.lock import DIGEST

    digest = table.text("digest", "")
    if digest and not DIGEST.fullmatch(digest):
        raise table.error("it is not a digest", "digest")
    package = None
    if "package" in table:
        number = table.integer("package")
        if not 0 <= number < len(packages):
            raise table.error(f"there is no package {number}", "package")
        package = packages[number]
    words = {key: _word(table, key) for key in ("kernel", "approach", "target", "form", "file")}
    return KernelUse(**words, digest=digest, package=package)


def _word(table: Table, key: str) -> str:
    """A text for a terminal, which nothing in it can command."""
    if not (text := table.text(key, "")).isprintable():
        raise table.error("it has characters that cannot be shown", key)
    return text


def _texts(value: Any) -> Mapping[str, str]:
    """The fields that are texts and not empty."""
    fields = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
    return {name: text for name, text in fields if text and isinstance(text, str)}


def _shown(text: str) -> str:
    return printable(text, "\\u{:04x}")


def _iree() -> str:
    from importlib import metadata

    return metadata.version("iree-base-compiler")
