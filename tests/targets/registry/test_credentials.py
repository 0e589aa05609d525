"""What `docker login` wrote, and docker's credential helpers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry.places import credentials
from opsplice.targets.registry.places.credentials import Credentials

HOST = "registry.example:5000"
ENTRY = {"auth": base64.b64encode(b"user:a:secret").decode()}
KNOWN = Credentials("user", "a:secret")


def find(tmp_path: Path, config: Any, **environ: str) -> Credentials | None:
    (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return credentials.find(HOST, {"DOCKER_CONFIG": str(tmp_path), **environ})


def test_entries(tmp_path: Path):
    for auths, expected in (
        ({HOST: ENTRY}, KNOWN),
        ({f"https://{HOST}": ENTRY}, KNOWN),
        ({f"https://{HOST}/v1/": {"username": "old"}, HOST: ENTRY}, KNOWN),
        ({HOST: {"username": "user", "password": "a:secret"}}, KNOWN),
        ({HOST: {"identitytoken": "t", **ENTRY}}, Credentials("", "", "t")),
        ({HOST: {}}, None),
        ({"registry.example": ENTRY, "other.example:5000": ENTRY, f"{HOST}0": ENTRY}, None),
        ({}, None),
    ):
        assert find(tmp_path, {"auths": auths}) == expected
    assert find(tmp_path, {"HttpHeaders": {}}) is None


def test_where_the_file_is(tmp_path: Path):
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {HOST: ENTRY}}))
    assert credentials.find(HOST, {"HOME": str(tmp_path)}) == KNOWN
    assert credentials.find(HOST, {"HOME": "/nowhere"}) is None
    assert credentials.find(HOST, {"HOME": str(tmp_path), "DOCKER_CONFIG": "/nowhere"}) is None
    assert credentials.find(HOST, {}) is None


def test_nothing_of_them_is_shown(tmp_path: Path):
    assert "secret" not in repr(KNOWN)
    for config in (
        {"auths": {HOST: {"auth": "c2VjcmV0"}}},
        {"auths": {HOST: {"auth": "secret!"}}},
        {"auths": {HOST: {"auth": "sécret"}}},
    ):
        with pytest.raises(OpspliceError, match=r"config.json, auths.*auth: it is not the base64") as failure:
            find(tmp_path, config)
        assert "secret" not in str(failure.value)
        assert "c2Vj" not in str(failure.value)


@pytest.mark.parametrize("config", ["", "[]", '{"auths": []}', '{"auths": {"registry.example:5000": 1}}', "{" * 9999])
def test_damaged_files_are_errors(config: str, tmp_path: Path):
    with pytest.raises(OpspliceError, match=r"config\.json"):
        find(tmp_path, config)


def helper(tmp_path: Path, script: str) -> str:
    path = tmp_path / "docker-credential-test"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


@pytest.mark.parametrize(
    "config", [{"credsStore": "test", "auths": {HOST: {}}}, {"credHelpers": {HOST: "test"}, "credsStore": "other"}]
)
def test_helpers(config: dict[str, Any], tmp_path: Path):
    answer = 'read host; [ "$1 $host" = "get %s" ] && echo \'{"ServerURL":"x","Username":"%s","Secret":"a:secret"}\''
    path = helper(tmp_path, answer % (HOST, "user"))
    assert find(tmp_path, config, PATH=path) == KNOWN
    helper(tmp_path, answer % (HOST, "<token>"))
    assert find(tmp_path, config, PATH=path) == Credentials("", "", "a:secret")
    helper(tmp_path, "echo credentials not found in native keychain; exit 1")
    assert find(tmp_path, config, PATH=path) is None
    for script, message in (
        ("echo secret; echo secret >&2; exit 3", f"docker-credential-test failed for {HOST} with status 3$"),
        ("echo no", "the answer of docker-credential-test is not valid JSON"),
        ("echo '{}'", "Username: it is missing"),
    ):
        helper(tmp_path, script)
        with pytest.raises(OpspliceError, match=message) as failure:
            find(tmp_path, config, PATH=path)
        assert "secret" not in str(failure.value)


def test_helpers_that_are_not_there(tmp_path: Path):
    for name, message in (
        ("absent", "names the credential helper absent, and there is no docker-credential-absent"),
        ("../../bin/sh", "cannot be a credential helper"),
    ):
        with pytest.raises(OpspliceError, match=message):
            find(tmp_path, {"credsStore": name}, PATH="/usr/bin:/bin")
