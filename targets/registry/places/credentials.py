"""Who the user is to a registry: docker's `config.json`, with its credential helpers; what `docker login` wrote."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.targets.registry.places import strict_json
from opsplice.targets.registry.places.strict_json import Table

_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", re.ASCII)
_HELPER_SECONDS = 60
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Credentials:
    """Never printed. token: an identity token, which stands for user and secret."""

    user: str = field(repr=False)
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


def find(host: str, environ: Mapping[str, str] = os.environ) -> Credentials | None:
    """The user's credentials for a host (with its port); None if there are none. Raises OpspliceError."""
    path = _config_file(environ)
    if path is None or not path.exists():
        return None
    config = strict_json.parse(read_file(path, _LARGEST), str(path))
    helper = config.mapping("credHelpers").get(host) or config.text("credsStore", "")
    if helper:
        return _ask(helper, host, environ)
    if "auths" not in config:
        return None
    auths = config.table("auths")
    keys = [key for key in auths.values if _host(key) == host]
    # The plain host comes before its URLs.
    return _written(auths.table(min(keys, key=len))) if keys else None


def _config_file(environ: Mapping[str, str]) -> Path | None:
    if folder := environ.get("DOCKER_CONFIG"):
        return Path(folder) / "config.json"
    return Path(home) / ".docker" / "config.json" if (home := environ.get("HOME")) else None


def _host(key: str) -> str:
    """The host of a key such as `https://registry.example/v1/`."""
    return re.sub(r"^https?://", "", key).partition("/")[0]


def _written(entry: Table) -> Credentials | None:
    if token := entry.text("identitytoken", ""):
        return Credentials("", "", token)
    if coded := entry.text("auth", ""):
        try:
            user, colon, secret = base64.b64decode(coded, validate=True).decode().partition(":")
        except ValueError:  # no base64, or no UTF-8
            colon = ""
        if not colon:
            raise entry.error("it is not the base64 of USER:PASSWORD", "auth")
        return Credentials(user, secret.rstrip("\0"))
    if user := entry.text("username", ""):
        return Credentials(user, entry.text("password", ""))
    return None


def _ask(helper: str, host: str, environ: Mapping[str, str]) -> Credentials | None:
    if not _HELPER.fullmatch(helper):
        raise OpspliceError(f"{helper!r:.100} in docker's config.json cannot be a credential helper")
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"], input=host.encode(), capture_output=True, timeout=_HELPER_SECONDS, env=dict(environ)
        )
    except FileNotFoundError:
        raise OpspliceError(
            f"docker's config.json names the credential helper {helper}, and there is no {program}",
            hint="install it, or take it out of config.json",
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpspliceError(f"{program} does not answer: {type(error).__name__}") from None
    if done.returncode:
        # What it prints may hold secrets, so nothing of it is shown.
        if b"not found" in done.stdout + done.stderr:
            return None
        raise OpspliceError(f"{program} failed for {host} with status {done.returncode}")
    answer = strict_json.parse(done.stdout[:_LARGEST], f"the answer of {program}")
    user, secret = answer.text("Username"), answer.text("Secret")
    return Credentials("", "", secret) if user == "<token>" else Credentials(user, secret)
