import pytest


@pytest.fixture
def generic():
    """The flag that names the CPU, so that no warning is due."""
    return "--iree-llvmcpu-target-cpu=generic"
