"""Names of packages in registries: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from opsplice.common.errors import OpspliceError

SCHEME = "oci://"
# For registries without TLS. It is part of the name, so that it shows in commands, locks and reviews.
PLAIN_SCHEME = "oci+http://"

_REFERENCE = re.compile(
    r"(?P<scheme>oci(?:\+http)?://)"
    r"(?P<host>(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,252}[a-zA-Z0-9])?|\[[0-9a-fA-F:]{2,45}\])(?::[0-9]{1,5})?)/"
    r"(?P<repository>[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_LONGEST = 600
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Reference:
    """host: with its port, if it has one. tag, digest: "" if not said. plain: spoken to without TLS."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""
    plain: bool = False

    @staticmethod
    def parse(text: str) -> Reference:
        """Raises OpspliceError for what is not a reference."""
        found = _REFERENCE.fullmatch(text) if len(text) <= _LONGEST else None
        if found is None:
            raise OpspliceError(
                f"{text!r:.200} names no package in a registry",
                hint="write oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST], the repository in lower case",
            )
        plain = found["scheme"] == PLAIN_SCHEME
        return Reference(found["host"], found["repository"], found["tag"] or "", found["digest"] or "", plain)

    @property
    def source(self) -> str:
        """The repository alone, as in `oci://localhost:5443/acme/kernels`."""
        return f"{PLAIN_SCHEME if self.plain else SCHEME}{self.host}/{self.repository}"

    @property
    def named(self) -> str:
        """What names it in its repository, the digest rather than the tag. Raises OpspliceError if neither is said."""
        if not (self.digest or self.tag):
            hint = f"write {self.source}:TAG; opsplice kernel list {self.source} shows the tags"
            raise OpspliceError(f"{self} has neither a tag nor a digest", hint=hint)
        return self.digest or self.tag

    def at(self, digest: str) -> Reference:
        """The same package, by its digest."""
        return replace(self, digest=digest)

    def __str__(self) -> str:
        return self.source + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def is_reference(text: str) -> bool:
    """Whether a text means a registry at all; `Reference.parse` says what is wrong with it."""
    return text.startswith((SCHEME, PLAIN_SCHEME))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name alone."""
    return bool(_LOOPBACK.fullmatch(host))
