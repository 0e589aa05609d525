"""What all tests share: a private artifact cache, and the samples' folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples each time, so that what passes once passes always; with OPSPLICE_FUZZ=1 new ones are tried.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", print_blob=True)
settings.load_profile("new" if os.environ.get("OPSPLICE_FUZZ") else "same")

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


@pytest.fixture(scope="session")
def vulkan() -> None:
    """Tests that run on a Vulkan device, be it a software one."""
    import iree.runtime

    try:
        iree.runtime.get_device("vulkan")
    except (ValueError, RuntimeError) as error:
        pytest.skip(f"there is no Vulkan device (apt-get install mesa-vulkan-drivers): {error}")
