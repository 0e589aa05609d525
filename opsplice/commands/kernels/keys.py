"""`opsplice kernel keygen`, `sign`, `verify`, `trust`, `lock` and `audit`: who published what, and what is used."""

from __future__ import annotations

import argparse
import dataclasses
import getpass
import os
import sys
from pathlib import Path
from typing import Any

from opsplice.commands.shared import isolated
from opsplice.commands.shared.answer import Answer
from opsplice.commands.shared.jobs import package_options
from opsplice.common.errors import OpspliceError, printable
from opsplice.reports.render import colored, error_text, noted, style

# What reads a program, in a child process: IREE's runtime may crash.
_READ = "opsplice.provenance:read"


def run(options: argparse.Namespace) -> Answer:
    return _ACTIONS[options.action](options)


def _keygen(options: argparse.Namespace) -> Answer:
    from opsplice import signatures

    passphrase = _new_passphrase(options.key) if options.passphrase else ""
    public = signatures.keygen(options.key, passphrase)
    beside = str(Path(options.key).with_suffix(".pub"))
    lines = [
        f"key {public.id}",
        f"wrote {options.key}: the private part; keep it secret, and keep a copy",
        f"wrote {beside}: the public part, for those who are to trust it",
    ]
    return Answer({"id": public.id, "private": options.key, "public": beside}, lines)


def _new_passphrase(path: str) -> str:
    from opsplice.targets.registry.trust import keys

    if given := os.environ.get(keys.PASSPHRASE):
        return given
    if not sys.stdin.isatty():
        raise OpspliceError("there is no terminal to ask for a passphrase", hint=f"give it as {keys.PASSPHRASE}")
    first, again = getpass.getpass(f"passphrase for {path}: "), getpass.getpass("again: ")
    if first != again or not first:
        raise OpspliceError("the passphrases differ" if first else "the passphrase is empty")
    return first


def _sign(options: argparse.Namespace) -> Answer:
    from opsplice import signatures

    statement = signatures.sign(options.reference, options.key)
    found = {"name": statement.name, "digest": statement.digest, "made": dict(statement.made)}
    return Answer(found, [f"signed {statement.name}  {statement.digest}"])


def _verify(options: argparse.Namespace) -> Answer:
    from opsplice import signatures

    verified = signatures.verify(options.reference, package_options(options))
    statement, key = verified.statement, verified.key
    found = {"name": statement.name, "digest": verified.digest, **_key_json(key), "made": dict(statement.made)}
    made = [f"  {what}: {printable(text, '?')}" for what, text in sorted(statement.made.items())]
    return Answer(found, [f"{statement.name}  {verified.digest}", f"  signed by key {key}", *made])


def _trust(options: argparse.Namespace) -> Answer:
    from opsplice import signatures
    from opsplice.targets.registry.trust import trust

    if options.key and options.revoke:
        raise OpspliceError("a key is trusted or revoked, not both", hint="give KEY.pub or --revoke")
    if options.key and not options.publishes:
        raise OpspliceError("the key may publish nothing yet", hint="write --publishes='acme/*'")
    if options.publishes and not options.key:
        raise OpspliceError("--publishes needs a key", hint="opsplice kernel trust KEY.pub --publishes='acme/*'")
    if options.key:
        known = signatures.trust(options.key, options.publishes, options.owner, options.trust)
    elif options.revoke:
        known = signatures.revoke(options.revoke, options.reason, options.trust)
    else:
        known = trust.read_chosen(options.trust)
    lines = [f"key {each.key.id}{_owner(each)}\n  publishes {', '.join(each.publishes)}" for each in known.keys]
    lines += [f"revoked key {each}{_reason(why)}" for each, why in known.revoked_keys.items()]
    lines += [f"revoked {each}{_reason(why)}" for each, why in known.revoked_digests.items()]
    found = {
        "file": known.file,
        "keys": [_key_json(each) | {"publishes": each.publishes} for each in known.keys],
        "revoked": {**known.revoked_keys, **known.revoked_digests},
    }
    return Answer(found, [known.file, *(lines or ["no key is trusted"])])


def _lock(options: argparse.Namespace) -> Answer:
    from opsplice import signatures
    from opsplice.targets.registry.trust import trust

    if not options.references and not options.upgrade:
        raise OpspliceError("there is nothing to lock", hint="name packages, oci://HOST/REPOSITORY:TAG, or --upgrade")
    update = signatures.lock(
        options.references,
        options.output,
        upgrade=options.upgrade,
        options=package_options(options),
    )
    lines = []
    for each in update.added:
        entry = each.entry
        by = f"signed by key {trust.short(entry.key)}" if entry.key else "not signed, as allowed"
        lines += [f"{entry}  {entry.digest}", f"  {by}; {', '.join(entry.targets)}"]
        lines += [noted(note, sys.stdout) for note in each.notes]
    notes = [note for each in update.added for note in each.notes]
    entries = [dataclasses.asdict(each) for each in update.lock.packages]
    found = {"output": options.output, "packages": entries, "notes": notes}
    return Answer(found, [*lines, f"wrote {options.output}"])


def _audit(options: argparse.Namespace) -> Answer:
    from opsplice import provenance
    from opsplice.targets.registry.trust import trust

    known = trust.read_chosen(options.trust)
    program = Path(options.program)
    crashed = f"IREE's runtime crashed reading {program}"
    hint = "it is damaged, or was made to do that"
    found = isolated.call(_READ, program, crashed=crashed, hint=hint)
    if found is None:
        lines = [f"{options.program}: no kernels of opsplice in it"]
        return Answer({"file": options.program, "kernels": []}, lines)
    reasons = {each.kernel: each.reason for each in provenance.revoked(found, known)}
    listed = [{**dataclasses.asdict(each), "revoked": reasons.get(each)} for each in found.kernels]
    lines = [f"{options.program}: made with opsplice {found.opsplice} and IREE {found.iree}"]
    for each in found.kernels:
        lines += _kernel_lines(each, known)
        lines += [f"  {style(reasons[each], 'red', colored(sys.stdout))}"] if each in reasons else []
    many = f"{len(reasons)} of {len(found.kernels)} kernels are revoked"
    notes = [error_text(OpspliceError(many, hint="compile it without them"))] if reasons else []
    made = {"file": options.program, "opsplice": found.opsplice, "iree": found.iree, "kernels": listed}
    return Answer(made, lines, notes, code=int(bool(reasons)))


def _kernel_lines(use: Any, known: Any) -> list[str]:
    from opsplice.targets.registry.trust import trust

    code = f"{use.digest}  {use.form} of {use.file}" if use.digest else "comes from a plugin at run time"
    lines = [f"{use.kernel}  {use.approach} for {use.target}", f"  {code}"]
    if (package := use.package) is not None:
        owners = {each.key.id: str(each) for each in known.keys}
        lines.append(f"  {package.name} {package.version}".rstrip() + f"  {package.digest}".rstrip())
        if package.digest:
            by = f"signed by key {owners.get(package.key, trust.short(package.key))}" if package.key else "not signed"
            lines.append(f"  {by}")
    return lines


def _key_json(key: Any) -> dict[str, Any]:
    return {"key": key.key.id, "owner": key.owner}


def _owner(key: Any) -> str:
    return f"  {key.owner}" if key.owner else ""


def _reason(text: str) -> str:
    return f": {text}" if text else ""


_ACTIONS = {"keygen": _keygen, "sign": _sign, "verify": _verify, "trust": _trust, "lock": _lock, "audit": _audit}
