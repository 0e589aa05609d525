"""Compilers: how they are found and chosen, and what they really build."""

import stat
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.build import programs, toolchains
from opsplice.targets.formats import elf
from tests.environment import under


def fake(folder: Path, name: str, says: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_builds_objects_for_all_its_architectures(compiler, kernel, tmp_path):
    for arch in compiler.archs:
        output = tmp_path / f"{arch}.o"
        compiler.compile(kernel, output, CpuTarget(arch), "object", "c")
        code = elf.read_object(output.read_bytes(), output.name)
        assert code.arch == arch
        assert code.functions == {"scale"}
        assert code.undefined == frozenset()


def test_builds_bitcode_if_it_says_so(compiler, kernel, tmp_path):
    if "bitcode" not in compiler.forms:
        pytest.skip(f"{compiler.name} makes no bitcode")
    output = tmp_path / "kernel.bc"
    compiler.compile(kernel, output, CpuTarget("riscv64"), "bitcode", "c")
    assert output.read_bytes()[:4] == b"BC\xc0\xde"


def test_loops_do_not_become_calls_of_memcpy_or_memset(compiler, tmp_path):
    source = tmp_path / "loops.c"
    source.write_text(
        "#include <stddef.h>\n"
        "void copy(const float *restrict a, float *restrict o, size_t n) {\n"
        "  for (size_t i = 0; i < n; ++i) o[i] = a[i];\n"
        "}\n"
        "void clear(float *o, size_t n) { for (size_t i = 0; i < n; ++i) o[i] = 0; }\n"
    )
    for arch in compiler.archs:
        compiler.compile(source, tmp_path / "loops.o", CpuTarget(arch), "object", "c")
        assert elf.read_object((tmp_path / "loops.o").read_bytes(), "loops.o").undefined == frozenset()


def test_features_reach_the_code(compiler, tmp_path):
    if "x86_64" not in compiler.archs:
        pytest.skip(f"{compiler.name} does not build for x86_64")
    source = tmp_path / "fused.c"
    source.write_text(
        "#include <immintrin.h>\n#ifndef __AVX2__\n#error no avx2\n#endif\n"
        "void f(float *o) { __m256 x = _mm256_loadu_ps(o); _mm256_storeu_ps(o, _mm256_fmadd_ps(x, x, x)); }\n"
    )
    # The last is a feature that no compiler knows: IREE's list may be ahead of a compiler's.
    target = CpuTarget.of("x86_64", {"avx", "avx2", "fma", "not-yet-invented"})
    compiler.compile(source, tmp_path / "fused.o", target, "object", "c")
    with pytest.raises(OpspliceError, match=r"cannot compile fused\.c"):
        compiler.compile(source, tmp_path / "fused.o", CpuTarget("x86_64"), "object", "c")


def test_simple_mathematics_needs_no_library(compiler, tmp_path):
    source = tmp_path / "mathematics.c"
    source.write_text(
        "#include <math.h>\n#include <string.h>\n"
        "typedef struct { float v[4]; } four;\n"
        "void f(float *o) {\n"
        "  four x; memcpy(&x, o, sizeof x);\n"
        "  o[0] = sqrtf(fabsf(x.v[0])) + fmaxf(x.v[1], -INFINITY);\n"
        "  o[1] = copysignf(1.0f, x.v[2]) + (isnan(x.v[3]) ? M_PI : 0);\n"
        "}\n"
    )
    for arch in compiler.archs:
        compiler.compile(source, tmp_path / "mathematics.o", CpuTarget(arch), "object", "c")
        assert elf.read_object((tmp_path / "mathematics.o").read_bytes(), "m.o").undefined == frozenset()


def test_users_flags_win(compiler, tmp_path):
    source = tmp_path / "flags.c"
    source.write_text("#ifndef WIDTH\n#error no width\n#endif\n#ifdef __OPTIMIZE__\n#error optimized\n#endif\nint x;\n")
    compiler.compile(source, tmp_path / "f.o", CpuTarget(compiler.archs[0]), "object", "c", ["-DWIDTH=8", "-O0"])


def test_reports_the_files_that_it_included(compiler, tmp_path):
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / "own header.h").write_text("#define N 4\n")
    source = folder / "kernel.c"
    source.write_text('#include <stddef.h>\n#include <math.h>\n#include "own header.h"\nfloat x[N];\n')
    included = compiler.compile(source, tmp_path / "k.o", CpuTarget(compiler.archs[0]), "object", "c")
    assert {path.name for path in included} == {"kernel.c", "own header.h"}
    assert all(path.is_file() for path in included)


def test_compiles_cpp_without_a_standard_library(compiler, tmp_path):
    source = tmp_path / "kernel.cpp"
    source.write_text(
        "#include <stddef.h>\n#include <math.h>\n"
        "template <class T> static T twice(T x) { return x + x; }\n"
        'extern "C" void k(float *o, size_t n) { for (size_t i = 0; i < n; ++i) o[i] = twice(fabsf(o[i])); }\n'
    )
    compiler.compile(source, tmp_path / "k.o", CpuTarget(compiler.archs[0]), "object", "c++")
    code = elf.read_object((tmp_path / "k.o").read_bytes(), "k.o")
    assert code.functions == {"k"}
    assert code.undefined == frozenset()


def test_error_shows_the_compilers_own_lines(compiler, tmp_path):
    source = tmp_path / "wrong.c"
    source.write_text("int x = ;\n")
    with pytest.raises(OpspliceError, match=r"cannot compile wrong\.c") as caught:
        compiler.compile(source, tmp_path / "w.o", CpuTarget(compiler.archs[0]), "object", "c")
    assert f"{source}:1:9: error: expected expression" in caught.value.details


def test_a_compilers_trace_of_itself_is_not_shown():
    said = "fatal error: error in backend: No space left on device\nPLEASE submit a bug report\nStack dump:\n0. x"
    assert programs.shown(said, 1) == "fatal error: error in backend: No space left on device"
    assert programs.shown("Stack dump:\n0. x", -6) == "it ended with status -6 and said nothing"


def test_a_function_that_nothing_declares_is_an_error(compiler, tmp_path):
    source = tmp_path / "k.c"
    source.write_text("#include <math.h>\nvoid k(float *x) { *x = j0f(*x); }\n")
    with pytest.raises(OpspliceError, match="cannot compile k") as failure:
        compiler.compile(source, tmp_path / "k.o", CpuTarget(archs.host_arch()), "object", "c")
    assert failure.value.hint == "declare the function, or include the header that does"


def test_missing_header_says_what_there_is(compiler, tmp_path):
    source = tmp_path / "kernel.c"
    source.write_text('#include "absent.h"\n')
    with pytest.raises(OpspliceError) as caught:
        compiler.compile(source, tmp_path / "k.o", CpuTarget(compiler.archs[0]), "object", "c")
    assert "<math.h>" in caught.value.hint
    assert "absent.h" in caught.value.hint


def test_headers_of_the_hosts_c_library_are_not_half_found(cross, tmp_path):
    (compiler,) = under(cross, toolchains.find_all)
    source = tmp_path / "kernel.c"
    source.write_text("#include <stdio.h>\n")
    with pytest.raises(OpspliceError) as caught:
        compiler.compile(source, tmp_path / "k.o", CpuTarget("x86_64"), "object", "c")
    assert "not <stdio.h>" in caught.value.hint


def test_version_names_the_compiler(compiler):
    assert compiler.version().startswith(compiler.name)
    assert any(character.isdigit() for character in compiler.version())


def test_identity_changes_with_the_program(tmp_path):
    path = fake(tmp_path, "cc", "clang version 1.0")
    (before,) = under({"OPSPLICE_CC": path}, toolchains.find_all)
    identity = before.identity
    fake(tmp_path, "cc", "clang version 1.0.1")
    assert before.identity != identity


def test_identity_of_a_wrapper_changes_with_what_it_starts(tmp_path, monkeypatch):
    wrapper = fake(tmp_path, "wrapper", "unused")
    identities = set()
    for release in ("clang version 1", "clang version 2"):
        monkeypatch.setattr(programs, "output_of", lambda command, said=release: said)
        (found,) = under({"OPSPLICE_CC": f"{wrapper} clang"}, toolchains.find_all)
        identities.add(found.identity)
    assert len(identities) == 2


def test_a_path_is_asked_what_it_is(tmp_path):
    (found,) = under({"OPSPLICE_CC": f"{fake(tmp_path, 'my-cc', 'clang version 19.1')} --extra"}, toolchains.find_all)
    assert found.family == "clang"
    assert found.command[1:] == ("--extra",)
    assert found.version() == "my-cc (clang 19.1)"


def test_a_program_that_is_no_compiler_is_refused(tmp_path):
    with pytest.raises(OpspliceError, match="neither clang nor gcc"):
        under({"OPSPLICE_CC": fake(tmp_path, "tool", "hello")}, toolchains.find_all)


def test_an_absent_program_is_named():
    with pytest.raises(OpspliceError, match="'/no/such/cc', which is not a program"):
        under({"OPSPLICE_CC": "/no/such/cc -x"}, toolchains.find_all)


@pytest.mark.parametrize("line", ["clang 'x", "''"])
def test_what_is_no_command_line_is_refused(line):
    with pytest.raises(OpspliceError, match=r"OPSPLICE_CC (is not a command line: no closing quotation|names '')"):
        under({"OPSPLICE_CC": line}, toolchains.find_all)


def test_an_absent_compiler_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(OpspliceError, match="asks for clang, which is not here") as caught:
        under({"OPSPLICE_CC": "clang"}, toolchains.find_all)
    assert "apt-get install clang" in caught.value.hint


def test_the_order_of_preference(monkeypatch):
    def stand_in(name, family, names):
        return lambda: toolchains.Toolchain(name, family, (f"/{name}",), names)

    host = archs.host_arch() or "x86_64"
    other = next(arch for arch in archs.ARCHS if arch != host)
    clang, zig = stand_in("clang", "clang", archs.ARCHS), stand_in("zig", "clang", archs.ARCHS)
    gcc = stand_in("gcc", "gcc", (host,))

    def chosen(finders, arch, form="object"):
        monkeypatch.setattr(toolchains, "_FINDERS", dict(zip(("clang", "zig", "gcc"), finders, strict=True)))
        return under({}, toolchains.choose, CpuTarget(arch), form).name

    def absent():
        return None

    assert chosen((clang, zig, gcc), other) == "clang"
    assert chosen((absent, zig, gcc), host) == "zig"
    assert chosen((absent, absent, gcc), host) == "gcc"
    with pytest.raises(OpspliceError, match="no compiler here makes bitcode") as caught:
        chosen((absent, absent, gcc), host, "bitcode")
    assert "pip install ziglang" in caught.value.hint
    with pytest.raises(OpspliceError, match=rf"makes objects for {other}.*found: gcc \({host}\)"):
        chosen((absent, absent, gcc), other)
    with pytest.raises(OpspliceError, match="found: none"):
        chosen((absent, absent, absent), host)


def test_an_override_is_never_passed_over(tmp_path):
    # Even where another compiler could do it: the user asked for this one.
    gcc = fake(tmp_path, "gcc", "x86_64 gcc 12.2 Free Software Foundation")
    with pytest.raises(OpspliceError) as caught:
        under({"OPSPLICE_CC": gcc}, toolchains.choose, CpuTarget("aarch64"), "object")
    assert "unset OPSPLICE_CC" in caught.value.hint
