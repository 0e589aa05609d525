"""Where the cache is, and whether it may be trusted: what is in it becomes part of programs."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_name

_CHOOSE = "set OPSPLICE_CACHE to a folder of your own"

# Temporary caches by process.
_temporaries: dict[int, Path] = {}


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`$OPSPLICE_CACHE`, else `$XDG_CACHE_HOME/opsplice`, else `$HOME/.cache/opsplice`, as an absolute path.

    Without a home folder it is a private temporary folder, which goes with the process.
    """
    if chosen := environ.get("OPSPLICE_CACHE"):
        return Path(os.path.abspath(chosen))
    # The XDG specification ignores relative paths.
    if os.path.isabs(base := environ.get("XDG_CACHE_HOME", "")):
        return Path(base) / "opsplice"
    home = environ.get("HOME", "")
    if os.path.isabs(home) and (_is_known_user() or os.access(home, os.W_OK)):
        return Path(home) / ".cache" / "opsplice"
    return temporary()


def temporary() -> Path:
    """A private folder that goes with the process."""
    return _temporary(os.getpid())


def is_temporary(root: Path) -> bool:
    """Whether a cache goes with the process, so that paths into it are of no use to others."""
    return root == _temporaries.get(os.getpid())


def make(root: Path) -> None:
    """Make the cache's folder, for its owner alone. Raises OSError, and OpspliceError as `check` does."""
    if not root.is_dir():
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
    check(root)


def check(*folders: Path) -> None:
    """Raise OpspliceError for a folder of the cache that is not the user's own, or that others may write to."""
    for path in folders:
        check_name(path)
        try:
            status = path.stat()
        except OSError:
            continue  # absent; whoever uses it finds out what is wrong
        if status.st_uid != os.geteuid():
            raise OpspliceError(
                f"the cache {path} belongs to {_user(status.st_uid)}, and {_user(os.geteuid())} runs opsplice",
                hint=f"{_CHOOSE}, or run opsplice as the cache's owner",
            )
        if stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
            raise OpspliceError(
                f"others may write to the cache {path}, so opsplice does not use it",
                hint=f"remove it, or if you trust its content: chmod -R go-w {path}; or {_CHOOSE}",
            )


def _temporary(process: int) -> Path:
    """process: a forked child gets a folder of its own."""
    if process not in _temporaries:
        _temporaries[process] = Path(tempfile.mkdtemp(prefix="opsplice-cache-"))
        atexit.register(_remove, process)
    return _temporaries[process]


def _remove(process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(_temporaries.pop(process), ignore_errors=True)


def _is_known_user() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
