"""Another client reads what is written here, and writes what is read here: Debian's skopeo, both ways."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from opsplice.targets.registry import package, transfer
from opsplice.targets.registry.package_cache import Packages
from opsplice.targets.registry.places.layout import Layout
from tests.targets.registry.sample import ABOUT, parts
from tests.targets.registry.server import PASSWORD, USER, Server, need

# Without --preserve-digests skopeo takes the index that it wrote anew; with it, it refuses if the bytes are others.
HOW = [["--all"], ["--all", "--preserve-digests"]]


@pytest.fixture
def skopeo(registry: Server, tmp_path: Path):
    need("skopeo")
    (tmp_path / "certs").mkdir()
    shutil.copy(registry.environ["SSL_CERT_FILE"], tmp_path / "certs" / "ca.crt")

    def copy(how: list[str], source: str, target: str) -> None:
        access = []
        for side, name in (("src", source), ("dest", target)):
            if name.startswith("docker:"):
                access += [f"--{side}-creds={USER}:{PASSWORD}", f"--{side}-cert-dir={tmp_path / 'certs'}"]
        command = ["skopeo", "--insecure-policy", "copy", "--quiet", *how, *access, source, target]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return copy


@pytest.mark.parametrize("how", HOW, ids=["anew", "preserved"])
def test_skopeo_copies_a_package_and_its_digest_stays(how: list[str], skopeo, registry: Server, tmp_path: Path):
    ours = Layout(tmp_path / "ours")
    found = package.read(ours, package.write(ours, ABOUT, parts(tmp_path / "files"), "1.4"))
    repository = f"skopeo/{len(how)}"
    skopeo(how, f"oci:{ours.root}:1.4", f"docker://{registry.host}/{repository}:1.4")
    place = registry.remote(repository)
    assert place.resolve("1.4") == found.descriptor
    skopeo(how, f"docker://{registry.host}/{repository}:1.4", f"oci:{tmp_path / 'theirs'}:1.5")
    theirs = Layout(tmp_path / "theirs")
    assert theirs.resolve("1.5") == found.descriptor
    transfer.copy(theirs, registry.remote(f"{repository}/again"), found, found.variants, "1.5")
    packages = Packages(tmp_path / "cache" / "packages")
    x86 = package.for_targets("x86_64")
    for source in (place, theirs, registry.remote(f"{repository}/again")):
        unpacked = packages.pull(source, registry.reference(repository), found.descriptor, x86)
        for path in unpacked.files:
            assert (unpacked.folder / path).read_bytes() == (tmp_path / "files" / path).read_bytes()
        packages.sweep(-1)
    # A mirror names each package by its registry.
    mirror = Layout(tmp_path / "mirror", f"{registry.host}/{repository}")
    transfer.copy(place, mirror, found, found.variants, "1.4")
    skopeo(how, f"oci:{mirror.root}:{registry.host}/{repository}:1.4", f"oci:{tmp_path / 'stick'}:1.4")
    assert Layout(tmp_path / "stick").resolve("1.4") == found.descriptor
