"""A registry for all tests of a process, and no credentials of the user's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opsplice.targets.registry.places import connection
from tests.targets.registry import server
from tests.targets.registry.server import Server


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.01)
