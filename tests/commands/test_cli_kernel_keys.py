"""`opsplice kernel keygen`, `sign`, `verify`, `trust`, `lock` and `audit`, against a real registry."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import opsplice
from opsplice import cli, signatures
from opsplice.targets.registry import package
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.trust import keys
from tests.targets.registry import sample, server
from tests.targets.registry.server import Server

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server.running(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of a user's, with nothing in its cache."""
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "OPSPLICE_TRUST", "OPSPLICE_MIRROR", keys.PASSPHRASE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kernel(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `opsplice kernel ... --json`; what it says, which is an error where one is expected."""

    def run(*arguments: str, fails: str = "") -> Any:
        code = cli.main(["kernel", *arguments, "--json"])
        said = json.loads(capsys.readouterr().out)
        assert code == (1 if fails else 0), said
        if fails:
            assert re.search(fails, "\n".join(filter(None, (said["error"], said["details"], said["hint"])))), said
        return said

    return run


@pytest.fixture
def publish(registry: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Pushes a package of a version; its reference."""
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    for name, value in registry.environ.items():
        monkeypatch.setenv(name, value)

    def push(version: str, repository: str, tag: str = "") -> str:
        about = dataclasses.replace(sample.ABOUT, version=version)
        package.write(registry.remote(repository), about, sample.parts(tmp_path / "files", 100), tag or version)
        return f"oci://{registry.host}/{repository}:{tag or version}"

    return push


def test_a_key_signs_a_package_that_those_who_trust_it_lock(kernel: Command, publish: Command, home: Path) -> None:
    reference = publish("1.4", "acme/kernels")
    acme = kernel("keygen", "acme.key")
    kernel("verify", reference, fails=r"acme/kernels \(sha256:.*\) has no signature")
    signed = kernel("sign", reference, "--key=acme.key")
    kernel("verify", reference, fails=rf"by no key that you trust \(it names '{acme['id'][:16]}'\)")
    kernel("lock", reference, fails="--allow-unsigned, once for each lock")
    kernel("trust", "acme.pub", "--publishes=acme/*", "--owner=Acme")
    verified = kernel("verify", reference)
    assert verified == {
        "name": "acme/kernels",
        "digest": signed["digest"],
        "key": acme["id"],
        "owner": "Acme",
        "made": {"opsplice": opsplice.__version__, "iree": "3.13.0", "version": "1.4"},
    }
    (locked,) = kernel("lock", reference)["packages"]
    assert (locked["name"], locked["digest"], locked["key"]) == ("acme_kernels", signed["digest"], acme["id"])
    assert signatures.locks.read(home / "opsplice.lock").packages[0].digest == signed["digest"]
    before = (home / "opsplice.lock").read_bytes()
    kernel("lock", reference)
    assert (home / "opsplice.lock").read_bytes() == before


def test_a_lock_is_upgraded_by_name_and_nothing_else_moves(kernel: Command, publish: Command) -> None:
    first, other = publish("1.0", "acme/moving", "latest"), publish("2.0", "acme/other", "latest")
    lock = ["--allow-unsigned", "-o", "my.lock"]
    before = kernel("lock", first, *lock)
    assert [each["name"] for each in before["packages"]] == ["acme_kernels"]
    kernel("lock", other, *lock, fails="are both called acme_kernels")
    publish("1.1", "acme/moving", "latest")
    assert kernel("lock", first, *lock)["packages"] == before["packages"]
    for upgrade, version in (("acme_kernels", "1.2"), ("all", "1.3")):
        publish(version, "acme/moving", "latest")
        after = kernel("lock", f"--upgrade={upgrade}", *lock)
        old, new = before["packages"][0]["digest"], after["packages"][0]["digest"]
        assert f"acme_kernels latest was {old} and is {new}" in after["notes"]
        before = after
    kernel("lock", "--upgrade=nobody", *lock, fails="nobody is not in my.lock\nit has acme_kernels")
    kernel("lock", *lock, fails="there is nothing to lock")


def test_keys_are_rotated_and_revoked(kernel: Command, publish: Command) -> None:
    reference = publish("1.4", "acme/rotated")
    for name in ("old", "new"):
        kernel("keygen", f"{name}.key")
    kernel("sign", reference, "--key=old.key")
    kernel("trust", "old.pub", "--publishes=acme/*")
    kernel("lock", reference)
    # The new key signs while the old one is still trusted, users add it, and then the old one goes.
    new = kernel("sign", reference, "--key=new.key")
    kernel("trust", "new.pub", "--publishes=acme/*")
    trust = kernel("trust", "--revoke=old.pub", "--reason=replaced")
    assert trust["revoked"] == {keys.read_public(Path("old.pub")).id: "replaced"}
    found = kernel("verify", reference)
    assert (found["key"], found["digest"]) == (keys.read_public(Path("new.pub")).id, new["digest"])
    assert kernel("lock", reference)["packages"][0]["key"] == found["key"]
    kernel("trust", f"--revoke={found['digest']}", "--reason=wrong results")
    kernel("verify", reference, fails="is not used: sha256:.* is revoked: wrong results")
    kernel("lock", reference, fails="is revoked: wrong results")


def test_signatures_are_found_in_a_mirror_without_a_network(kernel: Command, tmp_path: Path) -> None:
    """The registry of the reference is not there."""
    repository = "localhost:1/acme/kernels"
    mirror = Layout(tmp_path / "mirror", repository)
    put = package.write(mirror, sample.ABOUT, sample.parts(tmp_path / "files", 100), "1.4")
    kernel("keygen", "acme.key")
    kernel("trust", "acme.pub", "--publishes=acme/*")
    private = keys.read_private(Path("acme.key"), signatures.ask_passphrase)
    signatures.signing.sign(mirror, put, signatures.Statement("acme/kernels", put.digest), [private])
    found = kernel("verify", f"oci://{repository}:1.4", "--mirror=mirror")
    assert found["digest"] == put.digest
    (locked,) = kernel("lock", f"oci://{repository}:1.4", "--mirror=mirror")["packages"]
    assert locked["source"] == f"oci://{repository}"


def test_a_passphrase_is_asked_for_at_a_terminal_or_taken_from_the_environment(
    kernel: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel("keygen", "acme.key", "--passphrase", fails="no terminal to ask .*\ngive it as OPSPLICE_KEY_PASSPHRASE")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = iter(["one", "two", "", "", "three", "three", "three"])
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(answers))
    kernel("keygen", "acme.key", "--passphrase", fails="the passphrases differ")
    kernel("keygen", "acme.key", "--passphrase", fails="the passphrase is empty")
    public = kernel("keygen", "acme.key", "--passphrase")
    assert keys.read_private(Path("acme.key"), signatures.ask_passphrase).public.id == public["id"]
    monkeypatch.setenv(keys.PASSPHRASE, "four")
    kernel("keygen", "other.key", "--passphrase")
    assert keys.read_private(Path("other.key"), signatures.ask_passphrase)


def test_what_is_wrong_with_arguments_is_said(kernel: Command) -> None:
    kernel("keygen", "acme.key")
    kernel("trust", "acme.pub", fails="the key may publish nothing yet\nwrite --publishes='acme/")
    kernel("trust", "--publishes=acme/*", fails="--publishes needs a key")
    kernel("trust", "acme.pub", "--revoke=acme.pub", fails="trusted or revoked, not both")
    kernel("trust", "acme.pub", "--publishes=oci://x", fails="names no packages")
    kernel("trust", "--trust=absent.toml", fails="no such file: absent.toml")
    kernel("sign", "oci://localhost:1/x", "--key=acme.key", fails="has neither a tag nor a digest")
    kernel("sign", "here", "--key=acme.key", fails="'here' names no package in a registry")
    assert kernel("trust")["keys"] == []


def test_a_program_that_crashes_the_runtime_is_an_error(
    kernel: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opsplice.commands.kernels.keys._READ", f"{__name__}:_crash")
    (home / "x.vmfb").write_bytes(b"")
    kernel("audit", "x.vmfb", fails="runtime crashed reading x.vmfb\n(.|\n)*it is damaged, or was made to")


def _crash(_path: Path) -> None:
    os.abort()


def test_an_audit_says_what_is_in_a_program(kernel: Command, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "s.splice").write_text(
        'kernel root(x: f32[n]) -> f32[n] { cpu "root.c" }\n'
        "pattern q(x: tensor<n x f32>) { sqrt(x) }\nreplace q with root(x)\n"
    )
    (home / "root.c").write_text(
        "#include <stddef.h>\nvoid root(const float *x, float *out, size_t n) { *out = *x; }\n"
    )
    op = "%0 = math.sqrt %x : tensor<4xf32>"
    model = f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  {op}\n  return %0 : tensor<4xf32>\n}}"
    program = opsplice.compile(model, ["s.splice"])
    program.save("model.vmfb")
    opsplice.compile(model).save("plain.vmfb")
    found = kernel("audit", "model.vmfb")
    digest = f"sha256:{program.report.replacements[0].artifacts[0].digest}"
    assert [(use["kernel"], use["digest"], use["revoked"]) for use in found["kernels"]] == [("root", digest, None)]
    assert kernel("audit", "plain.vmfb")["kernels"] == []
    assert cli.main(["kernel", "audit", "plain.vmfb"]) == 0
    assert capsys.readouterr().out == "plain.vmfb: no kernels of opsplice in it\n"
    kernel("audit", "root.c", fails="root.c is not a compiled program, or is damaged")
    kernel("trust", f"--revoke={digest}", "--reason=wrong")
    assert cli.main(["kernel", "audit", "model.vmfb", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["kernels"][0]["revoked"] == f"{digest} is revoked: wrong"
    assert cli.main(["kernel", "audit", "model.vmfb"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[1:] == [
        "root  static function for llvm-cpu embedded-elf-x86_64",
        f"  {digest}  object of root.c",
        f"  {digest} is revoked: wrong",
    ]
    assert said.err == "error: 1 of 1 kernels are revoked\nhelp: compile it without them\n"
