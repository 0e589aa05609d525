"""The README's way of a package, from its author to a machine without a network, with Debian's docker-registry."""

from __future__ import annotations

import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice import cli
from tests.conftest import ROOT
from tests.targets.registry import server
from tests.targets.registry.server import Server


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("registry")) as running:
        yield running


def steps() -> dict[str, list[list[str]]]:
    """The README's commands, by who gives them."""
    (block,) = (block for block in (ROOT / "README.md").read_text().split("```") if "kernel keygen" in block)
    found: dict[str, list[list[str]]] = {}
    for line in block.strip().splitlines():
        if line.startswith("# "):
            found[line[2:].partition(",")[0]] = []
        elif line:
            found[list(found)[-1]].append(shlex.split(line)[1:])
    return found


def test_the_readme(
    tmp_path: Path,
    samples: Path,
    registry: Server,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    everyone = steps()
    author, user, offline = everyone
    assert (author, user) == ("the author", "a user")
    said = {}
    for person, commands in everyone.items():
        home = tmp_path / person.replace(" ", "-")
        home.mkdir()
        monkeypatch.chdir(home)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("OPSPLICE_CACHE", str(home / "cache"))
        for name in ("XDG_CONFIG_HOME", "OPSPLICE_TRUST", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "DOCKER_CONFIG"):
            monkeypatch.delenv(name, raising=False)
        sample = samples / "mul_abs_negate"
        for file in ("replace.splice", "functions.c") if person == author else ("model.mlir",):
            shutil.copy(sample / file, home)
        if person == user:
            shutil.copy(tmp_path / "the-author" / "acme.pub", home)
        if person == offline:
            for name in ("opsplice.lock", "acme.pub"):
                shutil.copy(tmp_path / "a-user" / name, home)
            shutil.copytree(tmp_path / "a-user" / "mirror", home / "mirror")
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("a host was looked up"))
        else:
            for name, value in registry.environ.items():
                monkeypatch.setenv(name, value)
        for command in commands:
            words = [word.replace("localhost:5443", registry.host) for word in command]
            assert cli.main(words) == 0, capfd.readouterr().err
            said[person, command[1]] = capfd.readouterr().out
    assert "x86_64   x86_64/functions-" in said[author, "push"]
    assert "signed by key" in said[author, "push"]
    assert "acme_kernels 1.4  sha256:" in said[offline, "audit"]
    assert "signed by key" in said[offline, "audit"]
    program = opsplice.load(tmp_path / offline.replace(" ", "-") / "model.vmfb")
    x, y = np.arange(10, dtype=np.float32) - 4, np.full(10, 3, np.float32)
    for result in program.run("mixed_invocation", x, y, x, y):
        # The sample's kernel adds one, to be told from the compiler's own code.
        np.testing.assert_array_equal(result, 1 - np.abs(x * y))
