"""Packages as specs: from a mirror folder, by a lock, without a network."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice import cli, packages
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_sources import PackageOptions
from opsplice.packaging import pulling
from opsplice.targets.registry import package
from opsplice.targets.registry.package import Variant
from opsplice.targets.registry.places.layout import Layout
from opsplice.targets.registry.places.oci import Descriptor

MODEL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = math.absf %x : tensor<4xf32>
  return %a : tensor<4xf32>
}
"""
KERNELS = 'kernel twice(x: f32[n]) -> f32[n] { cpu "twice.c" }\n'
RULES = "pattern p(x: tensor<n x f32>) { absf(x) }\nreplace p with twice(x)\n"
C = """
#include <stddef.h>
void twice(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; i++) out[i] = 2 * x[i]; }
"""
# Nobody answers there.
HOST = "localhost:1"
REPOSITORY = f"{HOST}/acme/kernels"
REFERENCE = f"oci://{REPOSITORY}:1.4"
GIVEN = np.array([1, -2, 3, -4], np.float32)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror with a package for two architectures, and one that brings code which runs on the host."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "twice.c").write_text(C)
    (folder / "acme.splice").write_text(KERNELS + RULES)
    (folder / "host.py").write_text("def twice(x, out):\n    out[:] = 3 * x\n")
    (folder / "host.splice").write_text(KERNELS.replace('"twice.c"', '"host.py" as command') + RULES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSPLICE_CACHE", str(folder / "cache"))
        for spec, name, repository in (("acme", "acme_kernels", REPOSITORY), ("host", "host", f"{HOST}/host")):
            built = packages.build(folder / f"{spec}.splice", ["x86_64", "aarch64"], name=name, version="1.4")
            local = packages.Packages().layout
            found = package.read(local, local.resolve(built.digest))
            packages.transfer.copy(local, Layout(folder / "mirror", repository), found, found.variants, "1.4")
    return folder / "mirror"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of a user's with nothing in its cache."""
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def offline() -> Iterator[Callable[[], None]]:
    """Cuts the network when it is called."""
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a socket was opened")

        def cut() -> None:
            for name in ("socket", "create_connection", "getaddrinfo"):
                patch.setattr(socket, name, refuse)

        yield cut


def test_a_package_is_a_spec_and_a_lock_pins_it(home: Path, published: Path, offline: Callable[[], None]) -> None:
    lock = home / "opsplice.lock"
    with pytest.raises(OpspliceError, match="has no signature"):
        opsplice.compile(MODEL, [REFERENCE], packages=PackageOptions(lock, mirrors=(published,)))
    assert not lock.exists()
    first = PackageOptions(lock, allow_unsigned=True, mirrors=(published,))
    program = opsplice.compile(MODEL, [REFERENCE], packages=first)
    np.testing.assert_array_equal(program.run("main", GIVEN), 2 * GIVEN)
    offline()
    text = lock.read_text()
    assert f'source = "oci://{REPOSITORY}"' in text
    again = opsplice.compile(MODEL, [REFERENCE], packages=PackageOptions(lock, mirrors=(published,)))
    assert again.vmfb == program.vmfb
    locked = opsplice.compile(MODEL, [REFERENCE], packages=PackageOptions(locked=True))
    assert locked.vmfb == program.vmfb
    assert lock.read_text() == text
    with pytest.raises(OpspliceError, match=r"is not in opsplice\.lock"):
        opsplice.compile(MODEL, [REFERENCE.replace("1.4", "1.5")], packages=PackageOptions(locked=True))


def test_only_what_a_program_needs_is_pulled(home: Path, published: Path) -> None:
    options = PackageOptions(allow_unsigned=True, mirrors=(published,))
    host = pulling.targets_of((), ())
    (source,) = opsplice.api.resolve(REFERENCE, packages=options)
    here = {path.parent.name for path in source.path.parent.rglob("*.o")}
    assert here == set(host)
    everything = packages.pull(REFERENCE, options=options)
    assert {path.partition("/")[0] for path in everything.unpacked.files} == {"acme.splice", "x86_64", "aarch64"}
    only = packages.pull(REFERENCE, ["cpu"], options=options)
    assert {variant.target for variant in only.unpacked.choice.taken} == set(host)
    with pytest.raises(OpspliceError, match="has nothing that fits") as caught:
        packages.pull(REFERENCE, ["cuda:sm_80"], options=options)
    assert "aarch64: it is for aarch64, not cuda:sm_80" in caught.value.details


def test_code_of_packages_runs_only_if_it_is_allowed(home: Path, published: Path) -> None:
    reference = f"oci://{HOST}/host:1.4"
    with pytest.raises(OpspliceError, match="prebuilt artifacts only") as caught:
        opsplice.compile(MODEL, [reference], packages=PackageOptions(allow_unsigned=True, mirrors=(published,)))
    assert "--allow-code" in (caught.value.hint or "")
    allowed = PackageOptions(allow_unsigned=True, allow_code=True, mirrors=(published,))
    np.testing.assert_array_equal(opsplice.compile(MODEL, [reference], packages=allowed).run("main", GIVEN), 3 * GIVEN)


def test_specs_import_what_the_lock_has(home: Path, published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "model.mlir").write_text(MODEL)
    (home / "own.splice").write_text('import "acme_kernels"\n')
    command = ["match", "model.mlir", "--spec=own.splice", "--no-isolate"]
    assert cli.main(command) == 1
    assert "there is no library 'acme_kernels'" in capsys.readouterr().err
    pull = ["kernel", "pull", REFERENCE, "--lock=opsplice.lock", f"--mirror={published}", "--allow-unsigned"]
    assert cli.main(pull) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("acme_kernels 1.4  sha256:")
    assert said[1].startswith("  aarch64, x86_64: 3 files,")
    assert cli.main([*command, "--locked", "--json"]) == 0
    found = capsys.readouterr()
    assert len(json.loads(found.out)["matches"]) == 1
    assert f"acme_kernels is oci://{REPOSITORY}:1.4 (sha256:" in found.err


def test_without_packages_nothing_of_registries_is_imported(home: Path) -> None:
    heavy = ("opsplice.packaging.pulling", "requests", "cryptography")
    code = (
        "import sys; from opsplice import cli; from opsplice.compiling import spec_sources;"
        "spec_sources.resolve('x.splice');"
        f"cli.command_line.parser(); sys.exit(any(name in sys.modules for name in {heavy}))"
    )
    (home / "x.splice").write_text("")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("targets", "flags", "found"),
    [
        (("x86_64+avx2", "cuda:sm_90", "vulkan"), (), ("x86_64", "cuda:sm_90", "vulkan")),
        (("arm64",), (), ("aarch64",)),
        ((), ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_86"), ("cuda:sm_86",)),
        ((), ("--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"), ("rocm:gfx942",)),
        ((), ("--iree-hal-target-backends=vulkan-spirv",), ("vulkan",)),
        ((), ("--iree-llvmcpu-target-triple=aarch64-none-elf",), ("aarch64",)),
        ((), ("--iree-hal-target-device=local", "--iree-llvmcpu-target-triple=riscv64-x"), ("riscv64",)),
    ],
)
def test_what_a_program_is_for(targets: tuple[str, ...], flags: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert pulling.targets_of(targets, flags) == found


@pytest.mark.parametrize(
    ("offered", "target", "fits"),
    [
        ("x86_64", "x86_64", True),
        ("x86_64", "aarch64", False),
        ("any", "aarch64", True),
        ("cuda:sm_80", "cuda:sm_90", True),
        ("cuda:sm_90", "cuda:sm_80", False),
        ("cuda:sm_90a", "cuda:sm_90", False),
        ("cuda:sm_90", "cuda", True),
        ("vulkan", "vulkan:ada", True),
        ("vulkan:ada", "vulkan:rdna3", False),
        ("rocm:gfx942", "rocm:gfx90a", False),
    ],
)
def test_which_targets_of_a_package_a_program_takes(offered: str, target: str, fits: bool) -> None:
    variant = Variant(Descriptor("", "", 0), offered, ())
    assert (package.for_targets(target)(variant) == "") == fits


def test_looking_into_packages_and_sweeping_them(
    home: Path, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*command: str) -> list[str]:
        assert cli.main(["kernel", *command]) == 0
        return capsys.readouterr().out.splitlines()

    assert said("list") == ["no packages"]
    (there,) = [line for line in said("list", str(published)) if "acme/kernels" in line]
    digest = there.split()[3]
    assert there.split() == [f"{REPOSITORY}:1.4", "acme_kernels", "1.4", digest, "aarch64,", "x86_64"]
    options = (f"--mirror={published}", "--allow-unsigned")
    pulled = said("pull", REFERENCE, "--target=x86_64", *options)
    assert pulled[0] == f"acme_kernels 1.4  {digest}"
    assert pulled[2:] == ["  without aarch64: it is for aarch64, not x86_64", "  not signed"]
    assert said("list")[0].split()[:4] == [REPOSITORY, "acme_kernels", "1.4", digest]
    shown = said("show", digest)
    assert shown[0] == f"acme_kernels 1.4  {digest}"
    assert "  kernel twice(x: f32[n]) -> f32[n]" in shown
    assert any(line.startswith("aarch64  sha256:") and line.endswith("(not pulled)") for line in shown)
    copied = said("mirror", str(published), str(home / "other"), "--target=cpu")
    assert copied[0].startswith(f"copied {home / 'other'}: oci://{REPOSITORY}:1.4, ")
    assert [line.split()[0] for line in said("list", str(home / "other"))] == [f"{REPOSITORY}:1.4", f"{HOST}/host:1.4"]
    stays, freed = said("gc", "--older=1d")
    assert stays.startswith(f"stays: acme_kernels 1.4 ({REPOSITORY}), ")
    assert stays.endswith(", used today")
    assert freed == "0 bytes freed"
    (home / "twice.c").write_text(C)
    (home / "own.splice").write_text(KERNELS + RULES)
    built = said("build", "own.splice", "--target=x86_64")[-1]
    said("gc", "--older=1d")
    assert said("show", built.split()[-1])[0] == built
    os.utime(home / "cache" / "packages" / "used" / digest.removeprefix("sha256:"), (1, 1))
    would = said("gc", "--older=1d", "--dry-run")
    assert would[0].startswith(f"would go: acme_kernels 1.4 ({REPOSITORY}), ")
    assert said("list") != ["no packages"]
    assert said("gc", "--older=1d")[0].startswith("gone: acme_kernels 1.4")
    assert [line.split()[0] for line in said("list")] == ["local/own"]
    assert cli.main(["kernel", "gc", "--older=soon"]) == 1


def test_looking_at_specs_of_packages(home: Path, published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (REFERENCE, f"--mirror={published}", "--allow-unsigned")
    assert cli.main(["lint", *options]) == 0
    assert "nothing found in 1 file" in capsys.readouterr().out
    assert cli.main(["export", *options, "-o", "out.mlir"]) == 0
    assert "twice" in (home / "out.mlir").read_text()
