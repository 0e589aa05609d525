"""What all tests share: a private artifact cache, and the samples' folder."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests build into a cache of their own, never the user's."""
    patch = pytest.MonkeyPatch()
    patch.setenv("OPSPLICE_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def samples() -> Path:
    return ROOT / "samples"
