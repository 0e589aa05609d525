"""The arguments of `opsplice kernel keygen`, `sign`, `verify`, `trust`, `lock` and `audit`."""

from __future__ import annotations

from typing import Any

from opsplice.commands.arguments.argument_parts import add_command, add_json, add_mirror, add_trust, add_unsigned

_REFERENCE = "oci://HOST/REPOSITORY:TAG"


def add_actions(actions: Any) -> None:
    """The actions on keys, signatures and locks."""
    about = "make a key to sign packages with: KEY, which is secret, and KEY.pub"
    keygen = add_command(actions, "keygen", about, flags=False)
    keygen.add_argument("key", help="the file for the private part, such as acme.key; the public one gets .pub")
    keygen.add_argument(
        "--passphrase",
        action="store_true",
        help="encrypt the private part: asks for a passphrase, or takes OPSPLICE_KEY_PASSPHRASE",
    )
    add_json(keygen)

    sign = add_command(actions, "sign", "sign a package that is in a registry", flags=False)
    sign.add_argument("reference", metavar=_REFERENCE, help="the package")
    sign.add_argument(
        "--key", action="append", required=True, metavar="KEY", help="the private key; several sign together"
    )
    add_json(sign)

    verify = add_command(actions, "verify", "show which trusted key signed a package; nothing is pulled", flags=False)
    verify.add_argument("reference", metavar=_REFERENCE, help="the package")
    add_mirror(verify)
    add_trust(verify)
    add_json(verify)

    about = "say which keys may publish which packages, and what is revoked; without arguments show it"
    trust = add_command(actions, "trust", about, flags=False)
    trust.add_argument("key", nargs="?", metavar="KEY.pub", help="a public key, from a source that you trust")
    trust.add_argument(
        "--publishes",
        action="append",
        default=[],
        metavar="NAME",
        help="what it may publish: repositories without their host, * for any text, as 'acme/*'",
    )
    trust.add_argument("--owner", default="", metavar="TEXT", help="whose key it is, for people")
    trust.add_argument("--revoke", metavar="WHAT", help="never use a key (id or .pub file) or a digest (sha256:...)")
    trust.add_argument("--reason", default="", metavar="TEXT", help="why it is revoked")
    add_trust(trust)
    add_json(trust)

    lock = add_command(actions, "lock", "pin packages by digest in a lock file", flags=False)
    lock.add_argument("references", nargs="*", metavar=_REFERENCE, help="packages to add; others in the lock stay")
    lock.add_argument(
        "-o", "--output", default="opsplice.lock", metavar="FILE", help="the lock file (default: opsplice.lock)"
    )
    lock.add_argument(
        "--upgrade",
        action="append",
        default=[],
        metavar="NAME",
        help="look up the tag of a package of the lock anew; all for all",
    )
    add_unsigned(lock)
    add_mirror(lock)
    add_trust(lock)
    add_json(lock)

    about = "show which kernels are in a compiled program, where they come from, and whether they are revoked"
    audit = add_command(actions, "audit", about, flags=False)
    audit.add_argument("program", metavar="model.vmfb", help="a program; nothing of it is run")
    add_trust(audit)
    add_json(audit)
