"""Push and pull of a package of 200 MB, against skopeo, with a docker-registry on this machine behind TLS.

python -m benchmarks.registry

Both are processes that copy a layout folder to a repository, and a repository to a layout folder. Each round has other
bytes and another repository, so that neither finds anything there. Then a compile with a locked package of the cache,
against one with the package's folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.timing import header, paired
from opsplice.targets.registry import package
from opsplice.targets.registry.package import About, Part
from opsplice.targets.registry.places.layout import Layout
from tests.targets.registry import server
from tests.targets.registry.server import PASSWORD, USER, Server

_PROGRAM = """
import sys
from pathlib import Path
from opsplice.targets.registry import package, transfer
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.places.remote import Remote

how, root, name = sys.argv[1:]
source, target = Layout(Path(root)), Remote(Reference.parse(name))
if how == "pull":
    source, target = target, source
found = package.read(source, source.resolve("1"))
transfer.copy(source, target, found, found.variants, "1")
"""
_TOTAL = 200_000_000
_ROUNDS = 5
_COMPILES = 15
_SAMPLE = Path(__file__).parent.parent / "samples" / "mul_abs_negate"
# How the bytes are spread over files: one of each target.
_SHAPES = {"8 targets, a file of 25 MB each": 8, "1 target, a file of 200 MB": 1}


def main() -> None:
    if missing := [program for program in (*server.PROGRAMS, "skopeo") if shutil.which(program) is None]:
        print(f"\nno figures of registries: there is no {', '.join(missing)}")
        return
    with tempfile.TemporaryDirectory(prefix="opsplice-benchmark-") as name:
        folder = Path(name)
        (folder / "server").mkdir()
        (folder / "certs").mkdir()
        with server.running(folder / "server") as registry:
            shutil.copy(registry.environ["SSL_CERT_FILE"], folder / "certs" / "ca.crt")
            print(header("200 MB to and from a registry on this machine", "opsplice", "skopeo"))
            for title, files in _SHAPES.items():
                _both(registry, folder, title, files)
            print(header("compiling with a package of the cache, as commands", "locked", "its folder"))
            _locked(registry, folder)


def _locked(registry: Server, folder: Path) -> None:
    home = {**os.environ, **registry.environ, "HOME": str(folder), "OPSPLICE_CACHE": str(folder / "cache")}
    name, lock = f"oci://{registry.host}/bench/sample:1", folder / "opsplice.lock"

    def opsplice(*words: str | Path) -> None:
        command = [sys.executable, "-m", "opsplice", *map(str, words)]
        subprocess.run(command, check=True, capture_output=True, env=home)

    def compiled(*words: str) -> Callable[[], None]:
        return lambda: opsplice("compile", _SAMPLE / "model.mlir", *words, "-o", folder / "model.vmfb")

    opsplice("kernel", "build", _SAMPLE / "replace.splice", "--target=cpu", "-o", folder / "built")
    opsplice("kernel", "push", _SAMPLE / "replace.splice", name)
    compiled(f"--spec={name}", f"--lock={lock}", "--allow-unsigned")()
    locked = compiled(f"--spec={name}", f"--lock={lock}", "--locked")
    result = paired(locked, compiled(f"--spec={folder / 'built' / 'replace.splice'}", "--no-code"), _COMPILES, warm=1)
    print(result.row("opsplice compile", 1e-3, "ms"))


def _both(registry: Server, folder: Path, title: str, files: int) -> None:
    fresh = count()

    def layouts() -> Iterator[tuple[Path, str]]:
        for number in fresh:
            root = folder / f"{files}-{number}"
            _made(root, files, number)
            yield root, f"{registry.host}/bench/{files}-{number}"

    made = layouts()
    pending: list[tuple[Path, str]] = [next(made) for _ in range(2 * (_ROUNDS + 1))]
    pushed: list[tuple[Path, str]] = []

    def push(act: Callable[[Path, str], None]) -> None:
        root, repository = pending.pop()
        act(root, repository)
        pushed.append((root, repository))

    result = paired(
        lambda: push(lambda root, name: _ours(registry, "push", root, name)),
        lambda: push(lambda root, name: _skopeo(folder, f"oci:{root}:1", f"docker://{name}:1", "dest")),
        _ROUNDS,
        warm=1,
    )
    print(result.row(f"push, {title}", 1.0, "s "))
    for root, _ in pushed:
        shutil.rmtree(root)
    targets = [(folder / f"pulled-{files}-{number}", name) for number, (_, name) in enumerate(pushed)]

    def pull(act: Callable[[Path, str], None]) -> None:
        root, repository = targets.pop()
        act(root, repository)
        shutil.rmtree(root)

    result = paired(
        lambda: pull(lambda root, name: _ours(registry, "pull", root, name)),
        lambda: pull(lambda root, name: _skopeo(folder, f"docker://{name}:1", f"oci:{root}:1", "src")),
        _ROUNDS,
        warm=1,
    )
    print(result.row(f"pull, {title}", 1.0, "s "))


def _made(root: Path, files: int, number: int) -> None:
    """A layout with a package of 200 MB, other bytes each time."""
    layout = Layout(root)
    parts = []
    spec = root.with_suffix(".splice")
    spec.write_text("pattern p(x: f32) { negf(x) }\n")
    for part in range(files):
        file = root.with_suffix(f".{part}.o")
        file.write_bytes(hashlib.shake_256(f"{files} {number} {part}".encode()).digest(_TOTAL // files))
        parts.append(Part(f"cuda:sm_{part}", (), {"p.splice": spec, f"{part}.o": file}))
    package.write(layout, About("bench", "1", "p.splice"), parts, "1")
    for part in range(files):
        root.with_suffix(f".{part}.o").unlink()


def _ours(registry: Server, how: str, root: Path, name: str) -> None:
    command = [sys.executable, "-c", _PROGRAM, how, str(root), f"oci://{name}"]
    subprocess.run(command, check=True, env={**registry.environ, "PATH": "/usr/bin"})


def _skopeo(folder: Path, source: str, target: str, side: str) -> None:
    access = [f"--{side}-creds={USER}:{PASSWORD}", f"--{side}-cert-dir={folder / 'certs'}"]
    command = ["skopeo", "--insecure-policy", "copy", "--quiet", "--all", "--preserve-digests"]
    subprocess.run([*command, *access, source, target], check=True)


if __name__ == "__main__":
    main()
