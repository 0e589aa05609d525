"""`opsplice kernel gc`: what goes out of the cache, and what it says of that."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from opsplice import cli
from opsplice.common.store import Store, key_of
from opsplice.targets.registry import package
from opsplice.targets.registry.package_cache import Packages
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.reference import Reference
from tests.targets.registry.sample import ABOUT, parts


def test_packages_and_artifacts_that_nobody_used_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))

    def swept(*flags: str) -> dict:
        assert cli.main(["kernel", "gc", "--json", *flags]) == 0
        return json.loads(capsys.readouterr().out)

    assert swept() == {"packages": [], "artifacts": 0, "staying": [], "freed": 0, "dry_run": False}
    source = Layout(tmp_path / "source")
    put = package.write(source, ABOUT, parts(tmp_path / "files"), "1.4")
    Packages().pull(source, Reference("registry.example", "acme"), put, package.for_targets("x86_64"))
    entry = Store().get_or_build(key_of("k"), ".o", lambda path: path.write_bytes(b"x" * 500) and {})
    assert swept("--older", "30d")["packages"] == []
    then = time.time() - 31 * 86400
    for path in (Packages().root / "used" / put.hex, entry.path, Store().root / "keys" / key_of("k")):
        os.utime(path, (then, then))
    would = swept("--older", "30d", "--dry-run")
    assert ([each["name"] for each in would["packages"]], would["artifacts"]) == (
        [f"registry.example/acme@{put.digest}"],
        1,
    )
    assert entry.path.exists()
    assert cli.main(["kernel", "gc", "--older", "30d"]) == 0
    said = capsys.readouterr().out
    assert "gone: acme_kernels 1.4 (registry.example/acme), " in said
    assert "gone: 1 built artifact\n" in said
    assert not entry.path.exists()
    assert Packages().kept() == []
