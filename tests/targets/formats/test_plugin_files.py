"""Plugins as files: what they say of themselves, what is refused before IREE sees it."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.formats import elf, fatelf
from opsplice.targets.plugins import plugin_build, plugin_file
from opsplice.targets.plugins.plugin_source import SIZE, Argument, Function
from tests.environment import under

SCALE = Function("scale", (Argument("f32", pointer=True, const=True), Argument("f32", pointer=True), SIZE))
HOST = archs.host_arch()
pytestmark = pytest.mark.skipif(HOST is None, reason="kernels are not built for this machine")


@pytest.fixture
def source(kernel: Path) -> plugin_build.Source:
    return plugin_build.Source(kernel, (), lambda _defined: (SCALE,))


@pytest.fixture
def embedded(tmp_path, store, cross, source):
    def build(name: str, *architectures: str) -> Path:
        targets = {CpuTarget.of(arch): [source] for arch in architectures}
        path = tmp_path / name
        path.write_bytes(under(cross, plugin_build.build_embedded, "test", targets, store).data)
        return path

    return build


@pytest.mark.parametrize("arch", archs.ARCHS)
def test_an_embedded_plugin_for_each_architecture(embedded, arch):
    plugin = plugin_file.read(embedded("k.sos", arch))
    (part,) = plugin.parts
    assert (part.library.arch, part.provides, plugin.fat, plugin.embedded) == (arch, {"scale"}, False, True)
    assert part.library.exports == {"opsplice_import_scale", "opsplice_types_aal_scale", plugin_file.QUERY}
    assert part.types == {"scale": "aal"}
    assert not part.library.imports
    if arch == HOST:
        assert plugin_file.check_loadable(plugin) == part
    else:
        with pytest.raises(OpspliceError, match=f"k.sos is for {arch}, and this machine is {HOST}"):
            plugin_file.check_loadable(plugin)


def test_several_architectures_in_one_file(embedded):
    plugin = plugin_file.read(embedded("k.sos", *archs.ARCHS))
    assert plugin.fat
    assert [part.library.arch for part in plugin.parts] == list(archs.ARCHS)
    assert plugin_file.check_loadable(plugin).library.arch == HOST
    others = [part for part in plugin.parts if part.library.arch != HOST]
    plugin.path.write_bytes(fatelf.write([part.data for part in others]))
    with pytest.raises(OpspliceError, match=f"is for .*, .*, and this machine is {HOST}"):
        plugin_file.check_loadable(plugin_file.read(plugin.path))


def test_a_system_library(tmp_path, source):
    path = tmp_path / "k.so"
    path.write_bytes(plugin_build.build_system("test", [source], CpuTarget.of(HOST)).data)
    plugin = plugin_file.read(path)
    assert plugin_file.check_loadable(plugin).provides == {"scale"}
    assert not plugin.embedded
    with pytest.raises(OpspliceError, match="cannot be loaded as embedded ELF"):
        plugin_file.check_loadable(plugin_file.read(Path(f"embedded:{path}")))
    other = next(arch for arch in archs.ARCHS if arch != HOST)
    with pytest.raises(OpspliceError, match=f"a system library for {other} cannot be built on {HOST}"):
        plugin_build.build_system("test", [source], CpuTarget.of(other))


@pytest.mark.parametrize(
    "build",
    [
        lambda source, _: plugin_build.build_system("test", [source], CpuTarget.of(HOST)),
        lambda source, store: plugin_build.build_embedded("test", {CpuTarget.of(HOST): [source]}, store),
    ],
    ids=["system", "embedded"],
)
def test_a_function_of_other_types(store, source, build):
    source.path.write_text(source.path.read_text().replace("size_t n)", "int n)"))
    with pytest.raises(OpspliceError, match=r"is `void \(.*i32\)`, and the plugin calls it as `void \(.*i64\)`"):
        build(source, store)


def test_how_the_flag_of_iree_names_it(embedded):
    path = embedded("k.sos", HOST)
    assert plugin_file.read(path).flag("/k.sos") == "/k.sos"
    renamed = path.rename(path.with_suffix(".so"))
    assert not plugin_file.read(renamed).embedded
    assert plugin_file.read(Path(f"embedded:{renamed}")).flag("/k.so") == "embedded:/k.so"


def test_a_library_that_is_no_plugin(tmp_path, kernel, compiler):
    path = tmp_path / "libk.so"
    if compiler.name == "zig":
        pytest.skip("zig clang links no system libraries")
    subprocess.run([*compiler.command, "-shared", "-fPIC", str(kernel), "-o", str(path)], check=True)
    plugin = plugin_file.read(path)
    assert plugin.parts[0].provides is None
    assert "scale" in plugin.parts[0].library.exports
    with pytest.raises(OpspliceError, match="not a plugin: it does not export iree_hal_executable_plugin_query"):
        plugin_file.check_loadable(plugin)


def test_embedded_elf_runs_nothing_when_it_is_loaded(tmp_path, compiler):
    if compiler.name == "zig":
        pytest.skip("zig clang links no system libraries")
    (tmp_path / "k.c").write_text(
        "static volatile int factor;\n__attribute__((constructor)) static void make(void) { factor = 3; }\n"
        f"int {plugin_file.QUERY}(void) {{ return factor; }}\n"
    )
    command = [*compiler.command, "-shared", "-fPIC", "-nostdlib", "k.c", "-o", "k.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    plugin_file.check_loadable(plugin_file.read(tmp_path / "k.so"))
    with pytest.raises(OpspliceError, match=r"k\.so has code that is to run when it is loaded"):
        plugin_file.check_loadable(plugin_file.read(Path(f"embedded:{tmp_path}/k.so")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "k.so is empty"),
        (b"hello", "k.so is not an ELF object"),
        (b"\x7fELF\x02\x01", "header is cut off"),
        (b"!<arch>\n", "an archive of objects"),
        (fatelf.MAGIC.to_bytes(4, "little"), "k.so is a damaged FatELF"),
    ],
)
def test_what_is_no_library(tmp_path, data, message):
    (tmp_path / "k.so").write_bytes(data)
    with pytest.raises(OpspliceError, match=message):
        plugin_file.read(tmp_path / "k.so")


def test_an_object_is_no_library(tmp_path, kernel, compiler):
    compiler.compile(kernel, tmp_path / "k.o", CpuTarget.of(HOST), "object", "c")
    with pytest.raises(OpspliceError, match="k\\.o is an object, not a linked library"):
        plugin_file.read(tmp_path / "k.o")


def test_every_prefix_of_a_library_is_safe(embedded):
    data = embedded("k.sos", HOST).read_bytes()
    for end in range(0, len(data), 97):
        with contextlib.suppress(OpspliceError):
            elf.read_library(data[:end], "k.sos")


def test_a_name_that_is_nearly_there(embedded):
    path = embedded("kernels.sos", HOST)
    with pytest.raises(OpspliceError, match="no such file") as failure:
        plugin_file.read(path.with_name("kernel.sos"))
    assert "kernels.sos" in (failure.value.hint or "")
