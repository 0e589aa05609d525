"""The command line for tests: `opsplice(...)` is a process of its own, as for a user, forked from one that is ready."""

from __future__ import annotations

import os
import subprocess
import tempfile

from tests.zygote import TORCH, zygote


def opsplice(
    *arguments: object,
    cwd: str | os.PathLike[str] = ".",
    env: dict[str, str] | None = None,
    check: bool = False,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `opsplice` with arguments, as `subprocess.run` does with text captured. env: what is added to this one's.

    Raises CalledProcessError with check for a code other than 0, and TimeoutExpired.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams = [out.fileno(), err.fileno()]
        server = zygote(*[TORCH] * any(word.endswith(".pt2") for word in words))
        code = server.run(words, os.path.abspath(cwd), {**os.environ, **(env or {})}, streams, timeout)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    done = subprocess.CompletedProcess(["opsplice", *words], code, *texts)
    if check:
        done.check_returncode()
    return done
