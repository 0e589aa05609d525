"""Objects and archives that become one object: what is taken, what is dropped, what is there by itself."""

from __future__ import annotations

import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest

import opsplice
from opsplice import cli
from opsplice.common.errors import OpspliceError
from opsplice.spec_lang.loading.libraries import Library
from opsplice.spec_lang.loading.loader import load
from opsplice.targets.artifacts.arch import ARCHS
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu
from opsplice.targets.build import toolchains
from opsplice.targets.formats import elf
from tests.environment import under

KERNEL = """
#include <stddef.h>
float twice(float);
void scale(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; ++i) out[i] = twice(x[i]); }
"""
TWICE = "float twice(float x) { return x * 2; }\nvoid unused(void) { extern void nowhere(void); nowhere(); }\n"
OTHER = "void other(void) { extern void missing(void); missing(); }\n"
CALLS = """
#include <stddef.h>
void *memset(void *, int, size_t);
void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
int memcmp(const void *, const void *, size_t);
void scale(const float *x, float *out, size_t n) {
  memset(out, 0xff, n * 4);
  memcpy(out, x, n * 4);
  if (n > 2) memmove(out + 1, out, (n - 1) * 4), memmove(out, out + 2, (n - 2) * 4);
  if (n > 2 && memcmp(out, x + 1, (n - 2) * 4)) out[0] = -1;
}
"""
SPEC = """
kernel scale(x: f32[n]) -> f32[n] { CLAUSE }
pattern p(x: tensor<n x f32>) { negf(x) }
replace p with scale(x)
"""
MODEL = """
func.func @main(%x: tensor<9xf32>) -> tensor<9xf32> {
  %0 = arith.negf %x : tensor<9xf32>
  return %0 : tensor<9xf32>
}"""


def built(folder: Path, name: str, text: str, arch: str = "x86_64") -> Path:
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed (apt-get install clang)")
    (folder / f"{name}.c").write_text(text)
    flags = ["-O2", "-fPIC", "-ffreestanding", "-fno-builtin", "-ffunction-sections", f"--target={arch}-none-elf"]
    flags += ["-march=rv64gc", "-mabi=lp64d"] if arch == "riscv64" else []
    made = folder / f"{name}.o"
    subprocess.run(["clang", *flags, "-c", folder / f"{name}.c", "-o", made], check=True)
    return made


def archive(folder: Path, *objects: Path) -> Path:
    """As `ar rcs` writes one, with an index of its symbols."""
    subprocess.run(["ar", "rcs", folder / "lib.a", *objects], check=True)
    return folder / "lib.a"


@pytest.fixture
def library(tmp_path):
    return archive(tmp_path, built(tmp_path, "twice", TWICE), built(tmp_path, "other", OTHER))


def test_an_archive_gives_what_is_needed_and_no_more(tmp_path, store, library):
    (tmp_path / "k.c").write_text(KERNEL)
    request = ArtifactRequest(tmp_path / "k.c", ("scale",), links=(library,))
    artifact = cpu.resolve(request, CpuTarget("x86_64"), store)
    assert elf.read_object(artifact.path.read_bytes(), "k.o").functions == {"scale", "twice"}
    assert not cpu.resolve(request, CpuTarget("x86_64"), store).built
    archive(tmp_path, built(tmp_path, "twice", TWICE.replace("* 2", "* 3")))
    assert cpu.resolve(request, CpuTarget("x86_64"), store).digest != artifact.digest


def test_an_archive_in_the_folder_that_one_works_in(tmp_path, store, library, monkeypatch):
    (tmp_path / "k.c").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    for request in (
        ArtifactRequest(Path("k.c"), ("scale",), links=(Path("lib.a"),)),
        ArtifactRequest(archive(tmp_path, built(tmp_path, "twice", TWICE), built(tmp_path, "k", KERNEL)), ("scale",)),
    ):
        found = cpu.resolve(replace(request, path=Path(request.path.name)), CpuTarget("x86_64"), store)
        assert elf.read_object(found.path.read_bytes(), "k.o").functions == {"scale", "twice"}


def test_an_archive_is_a_kernel_by_itself(tmp_path, store, library):
    archive(tmp_path, built(tmp_path, "k", KERNEL))
    artifact = cpu.resolve(ArtifactRequest(library, ("scale",)), CpuTarget("x86_64"), store)
    assert "scale" in elf.read_object(artifact.path.read_bytes(), "k.o").functions
    with pytest.raises(OpspliceError, match=r"lib\.a does not define the function 'scales'") as missing:
        cpu.resolve(ArtifactRequest(library, ("scales",)), CpuTarget("x86_64"), store)
    assert missing.value.hint == "did you mean 'scale'?"
    with pytest.raises(OpspliceError, match=r"lib\.a does not define the function 'unlike'") as other:
        cpu.resolve(ArtifactRequest(library, ("unlike",)), CpuTarget("x86_64"), store)
    assert other.value.hint is not None
    assert "no function at all" not in other.value.hint
    assert "scale" in other.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"!<thin>\n", "is a thin archive"),
        (b"\x7fELF", "is not an archive of objects"),
        (b"", "is not an archive of objects"),
    ],
)
def test_files_that_are_no_archives(tmp_path, store, content, said):
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "lib.a").write_bytes(content)
    request = ArtifactRequest(tmp_path / "k.c", ("scale",), links=(tmp_path / "lib.a",))
    with pytest.raises(OpspliceError, match=said):
        cpu.resolve(request, CpuTarget("x86_64"), store)


LIBRARIES = {
    "needs 'malloc'": "void *malloc(unsigned long);\nfloat twice(float x) { return x * (malloc(4) != 0); }\n",
    "has code that is to run": "static volatile float two;\n"
    "__attribute__((constructor)) static void begin(void) { two = 2; }\n"
    "float twice(float x) { return x * two; }\n",
}


@pytest.mark.parametrize("said", LIBRARIES)
def test_what_wants_more_than_bare_code_goes_into_a_plugin(tmp_path, store, said):
    library = archive(tmp_path, built(tmp_path, "lib", LIBRARIES[said]))
    (tmp_path / "k.c").write_text(KERNEL)
    with pytest.raises(OpspliceError, match=rf"^k\.c with lib\.a {said}") as caught:
        cpu.resolve(ArtifactRequest(tmp_path / "k.c", ("scale",), links=(library,)), CpuTarget("x86_64"), store)
    assert caught.value.hint.endswith('cpu "k.c" as plugin links "lib.a"')


def test_so_does_a_shared_library(tmp_path, store):
    (tmp_path / "k.c").write_text(KERNEL)
    shared = tmp_path / "lib.so"
    shared.write_bytes(b"\x7fELF")
    for request in (
        ArtifactRequest(shared, ("scale",)),
        ArtifactRequest(tmp_path / "k.c", ("scale",), links=(shared,)),
        ArtifactRequest(tmp_path / "k.c", ("scale",), flags=("-lblas",)),
    ):
        with pytest.raises(OpspliceError) as caught:
            cpu.resolve(request, CpuTarget("x86_64"), store)
        assert "as plugin" in caught.value.hint


def test_a_damaged_archive_is_an_error_of_ours(tmp_path, store, library):
    (tmp_path / "k.c").write_text(KERNEL)
    whole = library.read_bytes()
    for size in (9, 70, len(whole) // 2):
        library.write_bytes(whole[:size])
        with pytest.raises(OpspliceError):
            cpu.resolve(ArtifactRequest(tmp_path / "k.c", ("scale",), links=(library,)), CpuTarget("x86_64"), store)


@pytest.mark.parametrize("arch", ARCHS)
def test_prebuilt_objects_may_call_what_compilers_call(tmp_path, store, arch):
    artifact = cpu.resolve(ArtifactRequest(built(tmp_path, "k", CALLS, arch), ("scale",)), CpuTarget(arch), store)
    assert not elf.read_object(artifact.path.read_bytes(), "k.o").undefined


def test_their_numbers_are_right(tmp_path):
    built(tmp_path, "k", CALLS)
    (tmp_path / "twice.c").write_text(KERNEL)
    archive(tmp_path, built(tmp_path, "lib", TWICE))
    x = np.arange(9, dtype=np.float32)
    moved = [1, 2, 3, 4, 5, 6, 7, 6, 7]
    guarded = 'cpu "k.c" as object flags "-fstack-protector-all"'
    for clause, wanted in (('cpu x86_64 "k.o"', moved), (guarded, moved), ('cpu "twice.c" links "lib.a"', x * 2)):
        (tmp_path / "k.splice").write_text(SPEC.replace("CLAUSE", clause))
        np.testing.assert_array_equal(opsplice.compile(MODEL, [tmp_path / "k.splice"]).run("main", x), wanted)


UNARY = """
    acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 lgamma log log10 log1p log2 sin sinh
    tan tanh tgamma
"""


def test_objects_may_call_the_mathematics_of_c(tmp_path):
    if toolchains.find("zig") is None:
        pytest.skip("zig is not here: pip install ziglang")
    names = [name + suffix for name in UNARY.split() for suffix in ("", "f")]
    declared = [
        f"float {name}(float);" if name.endswith("f") and name != "erf" else f"double {name}(double);" for name in names
    ]
    calls = [f"case {place}: y[i] = {name}(x[i]); break;" for place, name in enumerate(names)]
    loop = "void k(const float *x, float *y, unsigned long n) { for (unsigned long i = 0; i < n; ++i) switch (i % %d) {"
    built(tmp_path, "k", "\n".join([*declared, loop.replace("%d", str(len(names))), *calls, "} }"]))
    # Two more files with a copy of a function of their own, in one executable with the first.
    half = "float powf(float, float); void h(const float *x, float *y, unsigned long n) { *y = powf(*x, 1.5f); }"
    built(tmp_path, "h", half)
    (tmp_path / "g.c").write_text(half.replace(" h(", " g(").replace("1.5f", "2.5f"))
    (tmp_path / "k.splice").write_text(
        """
        kernel k(x: f32[n]) -> f32[n] { cpu x86_64 "k.o" }
        kernel h(x: f32[n]) -> f32[n] { cpu x86_64 "h.o" }
        kernel g(x: f32[n]) -> f32[n] { cpu "g.c" as object }
        pattern negated(x: tensor<n x f32>) { negf(x) }
        pattern positive(x: tensor<n x f32>) { absf(x) }
        pattern rooted(x: tensor<n x f32>) { sqrt(x) }
        replace negated with k(x)
        replace positive with h(x)
        replace rooted with g(x)
        """
    )
    size = len(names) * 9
    model = f"""
    func.func @main(%x: tensor<{size}xf32>, %y: tensor<1xf32>) -> (tensor<{size}xf32>, tensor<1xf32>, tensor<1xf32>) {{
      %0 = arith.negf %x : tensor<{size}xf32>
      %1 = math.absf %y : tensor<1xf32>
      %2 = math.sqrt %y : tensor<1xf32>
      return %0, %1, %2 : tensor<{size}xf32>, tensor<1xf32>, tensor<1xf32>
    }}"""
    x = (np.arange(size, dtype=np.float32) + 1) / (size + 1)
    y = np.float32([1.25])
    found, half, more = opsplice.compile(model, [tmp_path / "k.splice"]).run("main", x, y)
    others = {"cbrt": lambda x: x ** (1 / 3), "lgamma": mpmath.loggamma, "tgamma": mpmath.gamma}
    others |= {
        "exp10": lambda x: mpmath.mpf(10) ** x,
        "exp2": lambda x: mpmath.mpf(2) ** x,
        "log2": lambda x: mpmath.log(x, 2),
    }
    bases = [name for name in UNARY.split() for _ in range(2)]
    wanted = [
        others.get(name, getattr(mpmath, name, None))(mpmath.mpf(float(each)))
        for name, each in zip(bases * 9, x, strict=True)
    ]
    # Below 1, C's acosh is no number, and mpmath's an imaginary one.
    wanted = [math.nan if isinstance(each, mpmath.mpc) else float(each) for each in wanted]
    np.testing.assert_allclose(found, wanted, rtol=3e-7)
    np.testing.assert_allclose([*half, *more], [1.25**1.5, 1.25**2.5], rtol=3e-7)


def test_kernels_of_one_source_are_one_object(tmp_path, store):
    """Or their functions would be defined twice in a program that has both."""
    if toolchains.find("zig") is None:
        pytest.skip("zig is not here: pip install ziglang")
    both = "".join(KERNEL.replace("scale(", f"{name}(").replace("twice(x[i])", "expf(x[i])") for name in ("one", "two"))
    (tmp_path / "k.c").write_text("#include <math.h>\n" + both.replace("float twice(float);", ""))
    requests = [ArtifactRequest(tmp_path / "k.c", (name,), "object") for name in ("one", "two")]
    one, two = (cpu.resolve(request, CpuTarget("x86_64"), store) for request in requests)
    assert one.digest == two.digest
    assert {"one", "two", "expf"} <= elf.read_object(one.path.read_bytes(), "k.o").functions


def test_members_of_archives_may_call_it_too(tmp_path, store):
    if toolchains.find("zig") is None:
        pytest.skip("zig is not here: pip install ziglang")
    (tmp_path / "k.c").write_text("#include <math.h>\n" + KERNEL.replace("twice(x[i])", "twice(x[i]) + expf(x[i])"))
    library = archive(
        tmp_path, built(tmp_path, "twice", "float tanhf(float);\nfloat twice(float x) { return tanhf(x); }\n")
    )
    artifact = cpu.resolve(ArtifactRequest(tmp_path / "k.c", ("scale",), links=(library,)), CpuTarget("x86_64"), store)
    found = elf.read_object(artifact.path.read_bytes(), "k.o")
    assert (artifact.form, found.undefined) == ("object", set())
    assert {"tanhf", "expf"} <= found.weak


@pytest.mark.parametrize("arch", ARCHS)
def test_objects_may_convert_halves(tmp_path, store, arch):
    (tmp_path / "k.c").write_text("void k(const _Float16 *x, _Float16 *y) { *y = *x * (_Float16)2; }")
    request = ArtifactRequest(tmp_path / "k.c", ("k",), "object")
    artifact = under({"OPSPLICE_CC": "zig"}, cpu.resolve, request, CpuTarget(arch), store)
    assert not elf.read_object(artifact.path.read_bytes(), "k.o").undefined


def test_a_library_names_no_archive_outside_of_its_folder(tmp_path, library):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "k.c").write_text(KERNEL)
    (tmp_path / "library" / "k.splice").write_text(SPEC.replace("CLAUSE", 'cpu "k.c" links "../lib.a"'))
    held = Library("acme", tmp_path / "library", "acme 1.0")
    with pytest.raises(OpspliceError, match="names a file outside of its folder"):
        load(tmp_path / "library" / "k.splice", library=held)


def test_a_package_holds_what_its_clauses_became(tmp_path, library):
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "k.splice").write_text(SPEC.replace("CLAUSE", 'cpu "k.c" links "lib.a"'))
    assert (
        cli.main(["kernel", "build", str(tmp_path / "k.splice"), "-o", str(tmp_path / "out"), "--target=x86_64"]) == 0
    )
    assert "links" not in (tmp_path / "out" / "k.splice").read_text()
