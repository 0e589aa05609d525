"""Packages that are built of specs: what becomes of each clause, and that programs stay the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice import provenance
from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.compiling import spec_sources
from opsplice.compiling.resolution import Artifacts
from opsplice.packaging import package_folder, package_parts
from opsplice.packaging.package_folder import PackageFolder
from opsplice.targets.build import toolchains

C = """
#include <stddef.h>
void k(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; i++) out[i] = 2 * x[i]; }
void k_f32(const float *x, float *out, size_t n) { k(x, out, n); }
void k_f64(const double *x, double *out, size_t n) { for (size_t i = 0; i < n; i++) out[i] = 2 * x[i]; }
int k_dispatch(const void *a, const void *b, const void *c) { return 0; }
float each(float x) { return 2 * x; }
"""
KERNEL = "kernel k(x: f32[n]) -> f32[n] {{\n  workgroup (64)\n{}\n}}\n"
RULE = "pattern p(x: tensor<n x f32>) {\n  absf(x)\n}\nreplace p with k(x)\n"


def build(spec: Path, *targets: str, partial: bool = False, store: Path | None = None) -> PackageFolder:
    (source,) = spec_sources.resolve(str(spec))
    return package_folder.build(source, targets, Artifacts(Store(store)), partial=partial)


def clauses(folder: PackageFolder, name: str = "") -> list[str]:
    """The clauses of a built spec, with x for the digits of digests."""
    text = folder.files[name or folder.main].decode()
    found = re.findall(r"^  ((?:cpu|vulkan|cuda|rocm|metal)\b.*)$", text, re.MULTILINE)
    return [re.sub(r"-[0-9a-f]{8}\.", "-x.", line) for line in found]


def write(folder: Path, body: str, files: Sequence[str] = ("k.c",)) -> Path:
    for file in files:
        (folder / file).write_text(C)
    path = folder / "spec.splice"
    path.write_text(body)
    return path


@pytest.mark.parametrize(
    ("clause", "targets", "wanted"),
    [
        ('cpu "k.c"', ("x86_64", "aarch64"), ['cpu x86_64 "x86_64/k-x.o"', 'cpu aarch64 "aarch64/k-x.o"']),
        ('cpu arm64 "k.c"\n  cpu "k.c" as bitcode', ("aarch64",), ['cpu aarch64 "aarch64/k-x.o"']),
        (
            'cpu when avx2 and fma "k.c" as bitcode flags "-O2"\n  cpu "k.c"',
            ("x86_64", "riscv64"),
            [
                'cpu x86_64 when avx2 and fma "x86_64/k-x.bc" as bitcode',
                'cpu x86_64 "x86_64/k-x.o"',
                'cpu riscv64 "riscv64/k-x.o"',
            ],
        ),
        ('cpu "k.c" as provided', ("x86_64",), ['cpu x86_64 "x86_64/k-x.o" as provided']),
        ('cpu "k.c" as plugin', ("x86_64", "aarch64"), ["cpu as plugin"]),
        ('cpu "k.c"\n  cpu when avx2 "k.c"', ("x86_64",), ['cpu x86_64 "x86_64/k-x.o"']),
    ],
)
def test_what_becomes_of_clauses_for_cpus(
    tmp_path: Path, clause: str, targets: tuple[str, ...], wanted: list[str]
) -> None:
    folder = build(write(tmp_path, KERNEL.format(f"  {clause}")), *targets)
    assert clauses(folder) == wanted
    assert {built.path for built in folder.built} == set(folder.files) - {"spec.splice"}


def test_builds_are_written_out(tmp_path: Path) -> None:
    body = 'builds v {\n  cpu when avx2 file flags "-O2"\n  cpu file\n}\n' + KERNEL.format('  v "k.c" as bitcode')
    folder = build(write(tmp_path, body), "x86_64")
    assert clauses(folder) == [
        'cpu x86_64 when avx2 "x86_64/k-x.bc" as bitcode',
        'cpu x86_64 "x86_64/k-x.bc" as bitcode',
    ]
    assert "builds" not in folder.files[folder.main].decode()


def test_one_file_for_all_types_that_a_kernel_lists(tmp_path: Path) -> None:
    spec = 'kernel k<T in {f32, f64}>(x: T[n]) -> T[n] { symbol "k_{T}" cpu "k.c" }\n'
    folder = build(write(tmp_path, spec), "x86_64")
    assert clauses(folder) == ['cpu x86_64 "x86_64/k-x.o"']
    for text, said in (
        (spec.replace("T in {f32, f64}", "T"), "does not list the types"),
        (spec.replace("f64", "f16"), "does not define the function 'k_f16'"),
        (spec.replace("x: T[n]", "x: T[n], y: T"), "'k_f32' in k.c is `void (ptr, ptr, i64)`"),
    ):
        with pytest.raises(OpspliceError, match=re.escape(said)):
            build(write(tmp_path, text), "x86_64")


def test_functions_on_elements_and_whole_dispatches(tmp_path: Path, samples: Path) -> None:
    folder = build(
        samples / "scalar_functions" / "replace.splice", "x86_64", "cuda:sm_80", "rocm:gfx942", "vulkan", "metal"
    )
    assert clauses(folder) == [
        'cpu x86_64 "x86_64/quick_gelu-x.bc" as bitcode',
        'cuda sm_80 "cuda-sm_80/quick_gelu_cuda-x.bc"',
        'rocm gfx942 "rocm-gfx942/quick_gelu_rocm-x.bc"',
        'vulkan "vulkan/quick_gelu-x.mlir"',
        'metal "metal/quick_gelu-x.mlir"',
    ]
    assert 'import "opsplice:nn"' in folder.files["replace.splice"].decode()
    dispatch = build(samples / "cpu_dispatch" / "replace.splice", "x86_64")
    assert clauses(dispatch) == ['cpu x86_64 "x86_64/shift_rows-x.o" as dispatch']


def test_code_of_the_host_is_carried_with_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "import helper, json\nfrom tools import x\nopen('data/table.bin'), open('none.bin')\n"
    )
    (tmp_path / "helper.py").write_text("import made\n")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("from . import x\n")
    (tmp_path / "tools" / "x.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.bin").write_bytes(b"1")
    (tmp_path / "blas.vmfb").write_bytes(b"module")
    text = KERNEL.format('  cpu "made.py" as generated\n  vulkan "blas.vmfb" as command')
    folder = build(write(tmp_path, text), "x86_64", "aarch64", "vulkan")
    assert clauses(folder) == ['cpu "made.py" as generated', 'vulkan "blas.vmfb" as command']
    assert set(folder.files) == {
        *("spec.splice", "made.py", "helper.py", "tools/__init__.py", "tools/x.py", "blas.vmfb", "data/table.bin"),
    }
    folder.write(tmp_path / "out")
    contents = package_parts.read(*spec_sources.resolve(tmp_path / "out" / "spec.splice"))
    assert contents.runs_code
    found = [(part.target, set(part.files)) for part in contents.parts]
    assert found == [("any", set(folder.files)), ("vulkan", set(folder.files))]


def test_a_target_that_only_the_host_serves_is_offered(tmp_path: Path) -> None:
    (tmp_path / "call.py").write_text("def k(x, out): ...\n")
    text = (
        KERNEL.format('  cpu "call.py" as command\n  vulkan "k.spv"')
        + "kernel p(x: f32[n]) -> f32[n] { cpu as plugin }\n"
    )
    write(tmp_path, text)
    contents = package_parts.read(*spec_sources.resolve(tmp_path / "spec.splice"))
    assert [(part.target, sorted(part.files)) for part in contents.parts] == [
        ("any", ["call.py", "spec.splice"]),
        ("vulkan", ["call.py", "k.spv", "spec.splice"]),
    ]


def test_of_clauses_for_cuda_the_newest_still_wins(tmp_path: Path, samples: Path) -> None:
    ptx = samples / "cuda_dispatch"
    for name in ("axpy_sm80.ptx", "axpy_sm90.ptx"):
        (tmp_path / name).write_bytes((ptx / name).read_bytes())
    text = (ptx / "replace.splice").read_text()
    folder = build(write(tmp_path, text), "cuda:sm_90", "cuda:sm_86")
    assert clauses(folder) == [
        'cuda sm_90 "cuda-sm_90/axpy_sm90-x.ptx"',
        'cuda sm_86 "cuda-sm_86/axpy_sm80-x.ptx"',
    ]
    both = text.replace('  cuda sm_90 "axpy_sm90.ptx"', '  cuda sm_90 when nothing "axpy_sm90.ptx"')
    assert clauses(build(write(tmp_path, both), "cuda:sm_90")) == [
        'cuda sm_90 when nothing "cuda-sm_90/axpy_sm90-x.ptx"',
        'cuda sm_90 "cuda-sm_90/axpy_sm80-x.ptx"',
    ]


def test_files_of_the_folder_are_carried_and_libraries_are_not(tmp_path: Path) -> None:
    (tmp_path / "own" / "deep").mkdir(parents=True)
    (tmp_path / "own" / "deep" / "k.c").write_text(C)
    (tmp_path / "own" / "deep" / "kernels.splice").write_text(KERNEL.format('  cpu "k.c"') + 'import "opsplice:nn"\n')
    spec = write(tmp_path / "own", f'import "deep/kernels.splice"\n// stays\n{RULE}')
    folder = build(spec, "x86_64")
    assert sorted(folder.files)[:2] == ["deep/kernels.splice", "spec.splice"]
    assert clauses(folder, "deep/kernels.splice") == ['cpu x86_64 "../x86_64/k-x.o"']
    assert "// stays" in folder.files["spec.splice"].decode()
    folder.write(tmp_path / "out")
    (part,) = package_parts.read(*spec_sources.resolve(tmp_path / "out" / "spec.splice")).parts
    assert (part.target, set(part.files)) == ("x86_64", set(folder.files))
    (tmp_path / "above.splice").write_text("pattern q(x: tensor<n x f32>) { negf(x) }\n")
    outside = write(tmp_path / "own", f'import "../above.splice"\nimport "deep/kernels.splice"\n{RULE}')
    with pytest.raises(OpspliceError, match="outside the folder of the spec") as caught:
        build(outside, "x86_64")
    assert f"{outside}:1:8" in caught.value.details


def test_parts_are_by_target_and_by_what_a_device_has(tmp_path: Path) -> None:
    text = KERNEL.format('  cpu when avx2 "k.c" as bitcode\n  cpu "k.c"')
    build(write(tmp_path, text), "x86_64").write(tmp_path / "out")
    contents = package_parts.read(*spec_sources.resolve(tmp_path / "out" / "spec.splice"))
    found = [(part.target, part.features, [Path(file).suffix for file in part.files]) for part in contents.parts]
    assert found == [("x86_64", ("avx2",), [".splice", ".bc"]), ("x86_64", (), [".splice", ".o"])]
    assert contents.kernels == ("k(x: f32[n]) -> f32[n]",)
    assert not contents.runs_code
    with pytest.raises(OpspliceError, match=r"k\.c is a source"):
        package_parts.read(*spec_sources.resolve(tmp_path / "spec.splice"))


def test_the_same_bytes_from_another_folder_and_another_cache(tmp_path: Path) -> None:
    """Also of bitcode, which says the path of its source unless it is taken out."""
    text = KERNEL.format('  cpu aarch64 "k.c" as bitcode\n  cpu when avx2 "k.c" as bitcode\n  cpu "k.c"')
    found = []
    for name in ("here", "there/deeper"):
        (tmp_path / name).mkdir(parents=True)
        spec = write(tmp_path / name, text)
        found.append(build(spec, "x86_64", "aarch64", store=tmp_path / name / "cache"))
    assert found[0].files == found[1].files


def test_what_cannot_be_built_is_an_error_or_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write(tmp_path, KERNEL.format('  cpu "k.c"') + KERNEL.format('  vulkan "k.spv"').replace("k(", "v("))
    with pytest.raises(OpspliceError, match=r"kernel v at .*:5:1 would have no code in the package"):
        build(spec, "x86_64")
    spec = write(tmp_path, KERNEL.format('  cpu "k.c"'))
    with pytest.raises(OpspliceError, match="has code for vulkan"):
        build(spec, "x86_64", "vulkan")
    monkeypatch.setattr(toolchains, "find_all", lambda: (toolchains.find("gcc"),))
    with pytest.raises(OpspliceError, match="no compiler here makes objects for aarch64") as caught:
        build(spec, "x86_64", "aarch64")
    assert f"needed by the kernel at {spec}:3:3" in caught.value.details
    assert "ziglang" in (caught.value.hint or "")
    with pytest.raises(OpspliceError, match="has code for aarch64"):
        build(spec, "x86_64", "aarch64", partial=True)
    both = KERNEL.format('  cpu "k.c"') + "kernel p(x: f32[n]) -> f32[n] { cpu as plugin }\n"
    folder = build(write(tmp_path, both), "x86_64", "aarch64", partial=True)
    assert clauses(folder) == ['cpu x86_64 "x86_64/k-x.o"', "cpu as plugin"]
    assert folder.left_out[0].startswith(f"{spec}:3:3: kernel k for aarch64: no compiler here makes objects")
    assert folder.unserved == ("kernel k has no code for aarch64",)
    broken = write(tmp_path, KERNEL.format('  cpu "k.c"'))
    (tmp_path / "k.c").write_text("#error broken\n")
    with pytest.raises(OpspliceError, match="cannot compile"):
        build(broken, "x86_64", partial=True)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("cuda", "does not say what cuda code is to be built for"),
        ("cuda:a100", "does not say what cuda code is to be built for"),
        ("metal:m1", "does not say what metal code is to be built for"),
        ("x86_64+avx2", "names features"),
        ("vax", "unknown CPU architecture 'vax'"),
    ],
)
def test_targets_that_say_too_little_or_too_much(target: str, said: str) -> None:
    with pytest.raises(OpspliceError, match=re.escape(said)):
        package_folder.parse_target(target)


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
def test_a_package_makes_the_programs_that_its_spec_makes(
    tmp_path: Path, samples: Path, device: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Programs note the names of their kernels' files, which differ.
    monkeypatch.setattr(provenance, "note", lambda *_: None)
    sample = samples / "dispatches"
    build(sample / "replace.splice", "cpu", "vulkan", "cuda:sm_80").write(tmp_path / "out")
    model, built = sample / "model.mlir", tmp_path / "out" / "replace.splice"
    programs = [
        opsplice.compile(model, [spec], targets=[device], no_code=spec is built)
        for spec in (sample / "replace.splice", built)
    ]
    assert [len(program.report.replacements) for program in programs] == [1, 1]
    assert programs[0].vmfb == programs[1].vmfb
    if device == "vulkan":
        request.getfixturevalue("vulkan")
        opsplice.compile(model, [built], targets=["cuda:sm_80"], no_code=True)
    x, gain, bias = np.arange(12, dtype=np.float32).reshape(3, 4), np.float32(3), np.ones(4, np.float32)
    first, second = (
        p.run("main", x, gain, bias, device="vulkan" if device == "vulkan" else "local-task") for p in programs
    )
    np.testing.assert_array_equal(first, second)
