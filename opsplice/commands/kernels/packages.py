"""`opsplice kernel build`, `push`, `pull`, `list`, `show`, `mirror` and `gc`: packages and where they are."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from opsplice import packages
from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.jobs import package_options
from opsplice.common.errors import OpspliceError, counted
from opsplice.packages import BuiltPackage, Pushed
from opsplice.reports.render import aligned
from opsplice.targets.registry.package_cache import Kept
from opsplice.targets.registry.places.transfer_progress import size

_SECONDS = {"d": 86400.0, "h": 3600.0}


def run(options: argparse.Namespace) -> Answer:
    return _ACTIONS[options.action](options)


def _build(options: argparse.Namespace) -> Answer:
    built = packages.build(
        options.spec,
        options.target,
        name=options.name,
        version=options.version,
        licence=options.license,
        folder=options.output,
        partial=options.partial,
    )
    lines = [*_artifact_lines(built), f"{built.name} {built.version}  {built.digest}"]
    if options.output is not None:
        lines.append(f"wrote {options.output}")
    return Answer(_built_json(built), lines)


def _push(options: argparse.Namespace) -> Answer:
    pushed = packages.push(
        options.what,
        options.to,
        options.target,
        name=options.name,
        licence=options.license,
        partial=options.partial,
        sign=options.sign,
        progress=sys.stderr,
    )
    lines = _artifact_lines(pushed.built) if pushed.built is not None else []
    lines += [*_pushed_lines(pushed, "pushed"), *(f"signed by key {key}" for key in pushed.signed_by)]
    if pushed.before:
        lines.append(f"note: the tag meant {pushed.before} before")
    built = _built_json(pushed.built) if pushed.built is not None else {}
    found = {**_pushed_json(pushed), **built, "signed_by": pushed.signed_by, "before": pushed.before}
    return Answer(found, lines)


def _pull(options: argparse.Namespace) -> Answer:
    pulled = packages.pull(options.reference, options.target, options=package_options(options), progress=sys.stderr)
    unpacked = pulled.unpacked
    digest, total = unpacked.package.descriptor.digest, sum(file.size for file in unpacked.files.values())
    taken = [str(variant) for variant in unpacked.choice.taken]
    passed = {str(variant): reason for variant, reason in unpacked.choice.passed}
    found = {
        "name": pulled.name,
        "version": unpacked.about.version,
        "digest": digest,
        "key": pulled.key,
        "folder": str(unpacked.folder),
        "targets": taken,
        "passed_over": passed,
        "bytes": total,
        "notes": pulled.notes,
    }
    lines = [
        f"{unpacked.package}  {digest}",
        f"  {', '.join(taken)}: {len(unpacked.files)} files, {size(total)}",
        *(f"  without {target}: {reason}" for target, reason in passed.items()),
        f"  {pulled.signed}",
        *(f"note: {note}" for note in pulled.notes),
    ]
    return Answer(found, lines)


def _list(options: argparse.Namespace) -> Answer:
    listed = packages.listed(options.place)
    found: list[dict[str, Any]] = [
        {
            "name": each.name,
            "package": each.package.name,
            "version": each.package.version,
            "digest": each.package.descriptor.digest,
            "targets": [str(variant) for variant in each.package.variants],
        }
        for each in listed
    ]
    rows = [
        (each.name.partition("@")[0], str(each.package), f["digest"], ", ".join(dict.fromkeys(f["targets"])))
        for each, f in zip(listed, found, strict=True)
    ]
    return Answer(found, aligned(rows) or ["no packages"])


def _show(options: argparse.Namespace) -> Answer:
    shown = packages.show(options.what)
    about, package = shown.about, shown.package
    found = {
        "place": shown.place,
        "digest": package.descriptor.digest,
        "name": about.name,
        "version": about.version,
        "license": about.licence,
        "iree": about.iree,
        "main": about.main,
        "runs_code": about.runs_code,
        "kernels": about.kernels,
        "signatures_of": shown.keys,
        "targets": [
            {"target": v.target, "digest": v.digest, "files": v.files if v.pulled else None} for v in shown.variants
        ],
    }
    lines = [f"{package}  {package.descriptor.digest}"]
    lines += [f"  {what} {text}" for what, text in (("licence", about.licence), ("IREE", about.iree)) if text]
    lines += [f"  signature of key {key} (not checked: opsplice kernel verify)" for key in shown.keys]
    if about.runs_code:
        lines.append("  it has code that runs on the host: commands or generators (--allow-code)")
    lines += [f"  kernel {kernel}" for kernel in about.kernels]
    for variant in shown.variants:
        lines.append(f"{variant.target}  {variant.digest}" + ("" if variant.pulled else "  (not pulled)"))
        lines += aligned([("", path, size(count)) for path, count in variant.files.items()])
    return Answer(found, lines)


def _mirror(options: argparse.Namespace) -> Answer:
    copied = packages.mirror(options.source, options.to, targets=options.target, progress=sys.stderr)
    lines = [line for each in copied for line in _pushed_lines(each, "copied")]
    return Answer([_pushed_json(each) for each in copied], lines or ["there is nothing to copy"])


def _gc(options: argparse.Namespace) -> Answer:
    swept = packages.gc(_duration(options.older), dry_run=options.dry_run)
    verb = "would go" if options.dry_run else "gone"
    found = {
        "packages": [{"name": each.name, "bytes": each.size} for each in swept.packages],
        "staying": [{"name": each.name, "bytes": each.size, "used": each.used} for each in swept.staying],
        "artifacts": swept.artifacts,
        "freed": swept.freed,
        "dry_run": options.dry_run,
    }
    lines = [f"{verb}: {_kept(each)}" for each in swept.packages]
    lines += [f"stays: {_kept(each)}, {_ago(each.used)}" for each in swept.staying]
    if swept.artifacts:
        lines.append(f"{verb}: {counted(swept.artifacts, 'built artifact')}")
    return Answer(found, [*lines, f"{size(swept.freed)} {'would be ' if options.dry_run else ''}freed"])


def _kept(each: Kept) -> str:
    return f"{each.package} ({each.name.partition('@')[0]}), {size(each.size)}"


def _ago(used: float) -> str:
    if not used:
        return "never used"
    days = int((time.time() - used) // _SECONDS["d"])
    return "used today" if days < 1 else f"used {counted(days, 'day')} ago"


_ACTIONS = {
    "build": _build,
    "push": _push,
    "pull": _pull,
    "list": _list,
    "show": _show,
    "mirror": _mirror,
    "gc": _gc,
}


def _artifact_lines(built: BuiltPackage) -> list[str]:
    kernels: dict[tuple[str, ...], list[str]] = {}
    for a in built.artifacts:
        row = (a.target, " and ".join(a.conditions), a.path, size(a.size), a.toolchain or "as it was")
        kernels.setdefault(row, []).append(a.kernel)
    rows = [(*row, ", ".join(names)) for row, names in kernels.items()]
    notes = dict.fromkeys(note for each in built.artifacts for note in each.notes)
    lines = [*aligned(rows), *(f"note: {note}" for note in notes), *(f"left out: {line}" for line in built.left_out)]
    if built.runs_code:
        lines.append("note: it has code that runs on the host, which users take with --allow-code")
    return lines


def _built_json(built: BuiltPackage) -> dict[str, Any]:
    artifacts = [
        {
            "target": each.target,
            "when": each.conditions,
            "kernel": each.kernel,
            "path": each.path,
            "bytes": each.size,
            "toolchain": each.toolchain,
            "clause": each.clause,
            "notes": each.notes,
        }
        for each in built.artifacts
    ]
    return {
        "name": built.name,
        "version": built.version,
        "digest": built.digest,
        "artifacts": artifacts,
        "left_out": built.left_out,
        "runs_code": built.runs_code,
    }


def _pushed_lines(pushed: Pushed, verb: str) -> list[str]:
    return [f"{verb} {pushed.to}, {size(pushed.size)} of files that were not there", f"  {pushed.digest}"]


def _pushed_json(pushed: Pushed) -> dict[str, Any]:
    return {"to": pushed.to, "digest": pushed.digest, "bytes": pushed.size}


def _duration(text: str | None) -> float | None:
    """Seconds of `30d` or `12h`. Raises OpspliceError for anything else."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit not in _SECONDS or not number.isdecimal():
        raise OpspliceError(f"'{text}' is not a time", hint="write days or hours: 30d, 12h")
    return int(number) * _SECONDS[unit]
