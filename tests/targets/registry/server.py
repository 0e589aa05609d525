"""A real registry for the tests: Debian's docker-registry with TLS and passwords, on a free port."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from opsplice.targets.registry.places.reference import Reference
from opsplice.targets.registry.places.remote import Remote

USER, PASSWORD = "dev", "a secret of the tests"
PROGRAMS = {"docker-registry": "docker-registry", "htpasswd": "apache2-utils", "openssl": "openssl"}


@dataclass(frozen=True)
class Server:
    """A registry that runs. environ: what a client is told of it: its certificate and the user's password."""

    host: str
    folder: Path
    environ: dict[str, str]

    @property
    def storage(self) -> Path:
        """Where it keeps the bytes of blobs and manifests."""
        return self.folder / "storage" / "docker" / "registry" / "v2" / "blobs"

    def reference(self, repository: str, tag: str = "") -> Reference:
        return Reference(self.host, repository, tag)

    def remote(self, repository: str) -> Remote:
        return Remote(self.reference(repository), self.environ)

    def blob(self, digest: str) -> Path:
        """The file in which it keeps some bytes."""
        hexadecimal = digest.removeprefix("sha256:")
        return self.storage / "sha256" / hexadecimal[:2] / hexadecimal / "data"


def need(*programs: str) -> None:
    """Skip the test where a program is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}; on Debian: apt install {PROGRAMS.get(program, program)}")


def certificate(folder: Path) -> Path:
    """Makes cert.pem and key.pem for this machine."""
    need("openssl")
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return folder / "cert.pem"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def log_in(folder: Path, host: str) -> dict[str, str]:
    """What `docker login` leaves behind, as an environment that leads there."""
    docker = folder / "docker"
    docker.mkdir(exist_ok=True)
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (docker / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return {"DOCKER_CONFIG": str(docker)}


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """docker-registry in a folder of its own until the end."""
    need(*PROGRAMS)
    port = free_port()
    host = f"localhost:{port}"
    cert = certificate(folder)
    made = subprocess.run(["htpasswd", "-Bbn", USER, PASSWORD], check=True, capture_output=True, text=True)
    (folder / "htpasswd").write_text(made.stdout)
    config = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}, "delete": {"enabled": True}},
        "http": {"addr": f"127.0.0.1:{port}", "tls": {"certificate": str(cert), "key": str(folder / "key.pem")}},
        "auth": {"htpasswd": {"realm": "opsplice", "path": str(folder / "htpasswd")}},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        _wait(port, process, folder / "log")
        yield Server(host, folder, {**log_in(folder, host), "SSL_CERT_FILE": str(cert)})
    finally:
        process.terminate()
        process.wait(60)


def _wait(port: int, process: subprocess.Popen, log: Path) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(f"the registry does not start: {log.read_text()}")
