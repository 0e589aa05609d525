"""From a kernel's file to a checked artifact: what is built, what is reused, what is refused."""

import os
import re

import pytest
from llvmlite import binding

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu
from opsplice.targets.build import programs, toolchains
from opsplice.targets.formats import elf
from tests.environment import under
from tests.waiting import PROCESSES, ended

X86 = CpuTarget("x86_64")
EMPTY_IR = "define void @scale() {\n  ret void\n}\n"


def ask(path, symbol="scale", **options):
    return ArtifactRequest(path, (symbol,), **options)


@pytest.fixture
def counted(monkeypatch):
    """The compiles that were really run."""
    runs = []
    original = toolchains.run_compiler

    def run(toolchain, command, source):
        runs.append(source.name)
        original(toolchain, command, source)

    monkeypatch.setattr(toolchains, "run_compiler", run)
    return runs


@pytest.mark.parametrize("arch", archs.ARCHS)
@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_c_is_built_for_every_architecture(kernel, store, cross, arch, form):
    artifact = under(cross, cpu.resolve, ask(kernel, form=form), CpuTarget(arch), store)
    assert artifact.built
    assert artifact.form == form
    assert artifact.arch == arch
    assert artifact.toolchain
    assert artifact.path.is_relative_to(store.root)
    assert artifact.path.suffix == {"object": ".o", "bitcode": ".bc"}[form]
    if form == "object":
        assert elf.read_object(artifact.path.read_bytes(), "k.o").arch == arch


def test_the_host_is_built_for_by_each_compiler(kernel, store, compiler):
    host = archs.host_arch()
    if host is None:
        pytest.skip("no kernels for this machine's architecture")
    artifact = under({"OPSPLICE_CC": compiler.name}, cpu.resolve, ask(kernel), CpuTarget(host), store)
    assert artifact.toolchain.startswith(compiler.name)


@pytest.mark.parametrize(
    "says", ["_Float16 is not supported on this target", "use of unknown builtin '__builtin_elementwise_exp'"]
)
def test_the_next_compiler_where_the_first_is_too_old(tmp_path, kernel, store, cross, monkeypatch, says):
    (able,) = under(cross, toolchains.find_all)
    program = tmp_path / "old"
    program.write_text(f'#!/bin/sh\necho "k.c:1:1: error: {says}" >&2\nexit 1\n')
    program.chmod(0o755)
    old = toolchains.Toolchain("old", "clang", (str(program),), archs.ARCHS)
    monkeypatch.setattr(toolchains, "find_all", lambda: (old, able))
    assert cpu.resolve(ask(kernel), X86, store).toolchain.startswith(able.name)
    monkeypatch.setattr(toolchains, "find_all", lambda: (old,))
    with pytest.raises(OpspliceError, match=r"old cannot compile kernel\.c") as caught:
        cpu.resolve(ask(kernel), X86, store)
    assert "too old for that:" in caught.value.hint


def test_the_second_time_nothing_is_built(kernel, store, cross, counted):
    first = under(cross, cpu.resolve, ask(kernel), X86, store)
    second = under(cross, cpu.resolve, ask(kernel), X86, Store(store.root))
    assert counted == ["kernel.c"]
    assert (first.built, second.built) == (True, False)
    assert (second.path, second.digest, second.toolchain) == (first.path, first.digest, first.toolchain)


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_a_source_of_several_kernels_is_compiled_once(kernel, store, cross, counted, form):
    kernel.write_text(kernel.read_text() + "void *other(void *x) { return x; }\n")
    first, other = (under(cross, cpu.resolve, ask(kernel, name, form=form), X86, store) for name in ("scale", "other"))
    assert counted == ["kernel.c"]
    assert other.built
    assert other.digest == first.digest
    if form == "object":
        assert {"scale", "other"} <= dict(other.signatures).keys()


TYPES = """struct large { long of[10]; };
float scale(struct large s, const float *x, _Bool b, signed char c, double d) { return x[s.of[0]] * b * c * d; }
"""


@pytest.mark.parametrize("arch", archs.ARCHS)
def test_types_are_those_that_the_compiler_lists_without_being_asked_again(tmp_path, store, cross, arch, monkeypatch):
    source, target = tmp_path / "k.c", CpuTarget(arch)
    source.write_text(TYPES)
    (compiler,) = under(cross, toolchains.find_all)
    listed = compiler.types(source, target, "c")
    monkeypatch.delattr(toolchains.Toolchain, "types")
    assert under(cross, cpu.resolve, ask(source, form="object"), target, store).signatures == listed


def test_whatever_can_change_the_result_builds_anew(kernel, store, cross, counted):
    under(cross, cpu.resolve, ask(kernel), X86, store)
    under(cross, cpu.resolve, ask(kernel, flags=("-O1",)), X86, store)
    under(cross, cpu.resolve, ask(kernel), CpuTarget.of("x86_64", {"avx2"}), store)
    under(cross, cpu.resolve, ask(kernel), CpuTarget("aarch64"), store)
    under(cross, cpu.resolve, ask(kernel, form="bitcode"), X86, store)
    kernel.write_text(kernel.read_text().replace("2.0f", "3.0f"))
    under(cross, cpu.resolve, ask(kernel), X86, store)
    assert len(counted) == 6


def test_another_compiler_builds_anew(kernel, store, counted):
    available = [name for name in toolchains.NAMES if toolchains.find(name)]
    if len(available) < 2:
        pytest.skip("only one compiler here")
    host = CpuTarget(archs.host_arch())
    for name in available:
        assert under({"OPSPLICE_CC": name}, cpu.resolve, ask(kernel), host, store).built
    assert len(counted) == len(available)


def test_a_changed_header_builds_anew(tmp_path, store, cross, counted):
    (tmp_path / "deep.h").write_text("#define FACTOR 2.0f\n")
    (tmp_path / "top.h").write_text('#include "deep.h"\n')
    source = tmp_path / "k.c"
    source.write_text('#include "top.h"\nvoid scale(float *x) { *x *= FACTOR; }\n')
    before = under(cross, cpu.resolve, ask(source), X86, store)
    (tmp_path / "deep.h").write_text("#define FACTOR 3.0f\n")
    after = under(cross, cpu.resolve, ask(source), X86, store)
    assert after.built
    assert after.digest != before.digest
    assert len(counted) == 2


def test_a_header_whose_changes_would_go_unseen_is_refused(tmp_path, store, cross):
    (tmp_path / "hidden.h").write_text("#define FACTOR 2.0f\n")
    source = tmp_path / "k.c"
    source.write_text("#define TEXT(x) #x\n#include TEXT(hidden.h)\nvoid scale(float *x) { *x *= FACTOR; }\n")
    with pytest.raises(OpspliceError, match=r"k\.c includes .*hidden\.h under a name that is put together"):
        under(cross, cpu.resolve, ask(source), X86, store)


def _resolve(barrier, queue, environment, kernel, root):
    barrier.wait(60)
    queue.put(under(environment, cpu.resolve, ask(kernel), X86, Store(root)))


def test_processes_build_one_kernel_once(kernel, store, cross):
    queue, barrier = PROCESSES.SimpleQueue(), PROCESSES.Barrier(3)
    children = [PROCESSES.Process(target=_resolve, args=(barrier, queue, cross, kernel, store.root)) for _ in range(3)]
    for child in children:
        child.start()
    ended(*children)
    artifacts = [queue.get() for _ in children if not queue.empty()]
    assert sorted(artifact.built for artifact in artifacts) == [False, False, True]
    assert len({artifact.path for artifact in artifacts}) == 1


def test_ir_is_built_without_a_compiler(tmp_path, store):
    source = tmp_path / "k.ll"
    source.write_text(EMPTY_IR)
    artifact = under({"OPSPLICE_CC": "/no/such/compiler"}, cpu.resolve, ask(source), CpuTarget("riscv64"), store)
    assert artifact.toolchain.startswith("llvmlite")
    assert not cpu.resolve(ask(source), CpuTarget("riscv64"), store).built
    assert cpu.resolve(ask(source, form="bitcode"), CpuTarget("riscv64"), store).path.suffix == ".bc"


def test_assembly_is_built(tmp_path, store, cross):
    source = tmp_path / "k.S"
    source.write_text(".text\n.globl scale\nscale:\n  ret\n")
    assert under(cross, cpu.resolve, ask(source), X86, store).built
    with pytest.raises(OpspliceError, match="assembly, which has no bitcode"):
        under(cross, cpu.resolve, ask(source, form="bitcode"), X86, store)


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_prebuilt_files_are_copied_and_outlive_their_original(kernel, tmp_path, store, cross, form):
    made = under(cross, cpu.resolve, ask(kernel, form=form), X86, store)
    path = tmp_path / f"shipped{made.path.suffix}"
    path.write_bytes(made.path.read_bytes())
    artifact = cpu.resolve(ask(path), X86, Store(tmp_path / "other"))
    path.unlink()
    assert artifact.digest == made.digest
    assert artifact.path.read_bytes() == made.path.read_bytes()
    assert artifact.toolchain is None


def test_an_object_for_another_architecture_is_refused(kernel, tmp_path, store, cross):
    path = tmp_path / "arm.o"
    path.write_bytes(under(cross, cpu.resolve, ask(kernel), CpuTarget("aarch64"), store).path.read_bytes())
    with pytest.raises(OpspliceError, match=r"arm\.o is an object for aarch64, but the target is x86_64"):
        cpu.resolve(ask(path), X86, store)


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_a_missing_symbol_is_refused_each_time(kernel, store, cross, form):
    for _ in range(2):
        with pytest.raises(OpspliceError, match=r"kernel\.c does not define the function 'scales'") as caught:
            under(cross, cpu.resolve, ask(kernel, "scales", form=form), X86, store)
        assert "did you mean 'scale'?" in caught.value.hint


@pytest.mark.parametrize("suffix", [".c", ".ll"])
def test_what_calls_mathematics_is_bitcode(tmp_path, store, cross, counted, suffix):
    source = tmp_path / f"k{suffix}"
    source.write_text(
        {
            ".c": "#include <math.h>\nvoid scale(float *x) { *x = expf(*x); }\n",
            ".ll": "define void @scale(ptr %p) {\n  %x = load float, ptr %p\n  %y = call float @expf(float %x)\n"
            "  store float %y, ptr %p\n  ret void\n}\ndeclare float @expf(float)\n",
        }[suffix]
    )
    for built in (True, False):
        artifact = under(cross, cpu.resolve, ask(source), X86, store)
        assert (artifact.form, artifact.path.suffix, artifact.built) == ("bitcode", ".bc", built)
    assert len(counted) == (2 if suffix == ".c" else 0)
    artifact = under(cross, cpu.resolve, ask(source, form="object"), X86, store)
    assert (artifact.form, elf.read_object(artifact.path.read_bytes(), "k.o").undefined) == ("object", set())
    declared = "float tanl(float);\n" if suffix == ".c" else ""
    source.write_text(declared + source.read_text().replace("expf", "tanl"))
    with pytest.raises(OpspliceError, match="needs 'tanl', which is not there at the link"):
        under(cross, cpu.resolve, ask(source), X86, store)


@pytest.mark.parametrize("kind", ["__bf16", "_Float16"])
def test_what_only_an_object_gets_makes_one(tmp_path, store, cross, kind):
    """Of f64: IREE gives bitcode nothing for the one, and for the other what rounds twice."""
    source = tmp_path / "k.c"
    source.write_text(f"#include <math.h>\nvoid scale(const double *x, {kind} *out) {{ *out = ({kind})exp(*x); }}\n")
    artifact = under(cross, cpu.resolve, ask(source), X86, store)
    assert (artifact.form, elf.read_object(artifact.path.read_bytes(), "k.o").undefined) == ("object", set())


def test_mathematics_where_nothing_makes_bitcode(tmp_path, store, monkeypatch):
    source = tmp_path / "k.c"
    source.write_text("#include <math.h>\nvoid scale(float *x) { *x = expf(*x); }\n")
    if (gcc := toolchains.find("gcc")) is None:
        pytest.skip(f"gcc is not installed ({toolchains.HOW_TO_GET['gcc']})")
    monkeypatch.setattr(toolchains, "find_all", lambda: (gcc,))
    with pytest.raises(OpspliceError, match="no compiler here makes bitcode") as caught:
        cpu.resolve(ask(source), CpuTarget(archs.host_arch()), store)
    assert "k.c is built as bitcode because it calls expf: `as object` makes" in caught.value.details
    assert cpu.resolve(ask(source, form="object"), CpuTarget(archs.host_arch()), store).form == "object"


@pytest.mark.parametrize("arch", archs.ARCHS)
@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_thread_local_variables_are_refused(tmp_path, store, cross, arch, form):
    source = tmp_path / "k.c"
    source.write_text("static _Thread_local int calls;\nint scale(void) { return calls++; }\n")
    with pytest.raises(OpspliceError, match="thread-local"):
        under(cross, cpu.resolve, ask(source, form=form), CpuTarget(arch), store)


@pytest.mark.parametrize("arch", archs.ARCHS)
@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_code_that_runs_at_loading_is_refused(tmp_path, store, cross, arch, form):
    source = tmp_path / "k.cc"
    # What the compiler can work out is not code.
    source.write_text('struct A { int a; A() { a = 2; } };\nstatic A a;\nextern "C" int scale() { return a.a; }\n')
    under(cross, cpu.resolve, ask(source, form=form), CpuTarget(arch), store)
    source.write_text(
        "static int made() { volatile int at = 3; return at; }\n"
        'static int factor = made();\nextern "C" int scale() { return factor; }\n'
    )
    with pytest.raises(OpspliceError, match=r"k\.cc has code that is to run when it is loaded") as caught:
        under(cross, cpu.resolve, ask(source, form=form), CpuTarget(arch), store)
    assert "constexpr" in caught.value.hint


@pytest.mark.parametrize("form", ["object", "bitcode"])
def test_functions_that_are_chosen_at_loading_are_refused(tmp_path, store, cross, form):
    source = tmp_path / "k.ll"
    source.write_text(
        "define internal i32 @one() {\n  ret i32 1\n}\ndefine internal ptr @chosen() {\n  ret ptr @one\n}\n"
        "@scale = ifunc i32 (), ptr @chosen\n"
    )
    with pytest.raises(OpspliceError, match=r"k\.ll has functions that are chosen at load time"):
        under(cross, cpu.resolve, ask(source, form=form), X86, store)


def test_code_that_is_not_position_independent_is_refused(tmp_path, store, cross):
    source = tmp_path / "k.c"
    # Assembly, with which the compiler itself chooses the instructions; llvmlite's are always position independent.
    source.write_text('static int table[64];\nint *scale(int i) { __asm__("nop"); return &table[i]; }\n')
    # RISC-V's plain code model holds absolute addresses as soon as -fPIC is off.
    with pytest.raises(OpspliceError, match="not position independent"):
        under(cross, cpu.resolve, ask(source, flags=("-fno-pic",)), CpuTarget("riscv64"), store)


TILE = """typedef float floats __attribute__((vector_size(32), aligned(4)));
void scale(const float *x, const float *w, float *out, unsigned long n) {
  floats sums[4][3] = {0};
  for (; n; n--, x += 24, w += 4)
    for (int r = 0; r < 4; r++)
      for (int v = 0; v < 3; v++) sums[r][v] += *(const floats *)(x + 8 * v) * w[r];
  for (int r = 0; r < 4; r++)
    for (int v = 0; v < 3; v++) *(floats *)(out + 24 * r + 8 * v) = sums[r][v];
}
"""


@pytest.mark.parametrize("compiler", ["clang", "zig"])
@pytest.mark.parametrize(("tune", "taken"), [((), "haswell"), (("-mtune=znver1",), "znver1")])
def test_llvmlite_makes_the_objects(tmp_path, store, compiler, tune, taken):
    if toolchains.find(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    source, bitcode, flags = tmp_path / "k.c", tmp_path / "k.bc", ("-mavx2", "-mfma", *tune)
    source.write_text(TILE)
    artifact = under({"OPSPLICE_CC": compiler}, cpu.resolve, ask(source, form="object", flags=flags), X86, store)
    toolchains.find(compiler).compile(source, bitcode, X86, "bitcode", "c", flags)
    text = str(binding.parse_bitcode(bitcode.read_bytes()))
    # With AVX2, but for no CPU in particular, it is ordered for the oldest CPU that has it.
    made = [_object(text.replace('"tune-cpu"="generic"', f'"tune-cpu"="{tuned}"')) for tuned in (taken, "generic")]
    assert artifact.path.read_bytes() == made[0]
    assert (made[0] == made[1]) == bool(tune)


def _object(text):
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(text)
    machine = binding.Target.from_triple(module.triple).create_target_machine(opt=3, reloc="pic", codemodel="small")
    return machine.emit_object(module)


def test_a_compiler_that_does_not_end_is_not_asked_again(kernel, store, monkeypatch):
    runs = []

    def run(_toolchain, _command, source):
        runs.append(source)
        raise programs.TimeLimitError("it has not ended")

    monkeypatch.setattr(toolchains, "run_compiler", run)
    with pytest.raises(programs.TimeLimitError):
        cpu.resolve(ask(kernel, form="object"), X86, store)
    assert len(runs) == 1


def test_bitcode_fits_any_cpu(kernel, store, cross):
    artifact = under(cross, cpu.resolve, ask(kernel, form="bitcode"), CpuTarget.of("x86_64", {"avx2"}), store)
    assert "target-features" not in str(binding.parse_bitcode(artifact.path.read_bytes()))


def test_an_absent_file_names_its_neighbours(kernel, store):
    with pytest.raises(OpspliceError, match="no such file") as caught:
        cpu.resolve(ask(kernel.with_name("kernal.c")), X86, store)
    assert "did you mean kernel.c?" in caught.value.hint


def test_an_absent_folder_is_named(tmp_path, store):
    with pytest.raises(OpspliceError, match="no such file") as caught:
        cpu.resolve(ask(tmp_path / "nowhere" / "k.c"), X86, store)
    assert "there is no folder" in caught.value.hint


@pytest.mark.parametrize("name", ["k.c", "k.ll", "k.o", "k.bc"])
def test_a_file_that_cannot_be_read_is_told(tmp_path, store, cross, monkeypatch, name):
    path = tmp_path / name
    path.write_text("")

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OpspliceError, match=rf"cannot read .*{name}: permission denied"):
        under(cross, cpu.resolve, ask(path), X86, store)


def test_unknown_kinds_of_files_list_the_known_ones(tmp_path, store):
    path = tmp_path / "kernel.cu"
    path.write_text("")
    with pytest.raises(OpspliceError, match=r"kernel\.cu is not a kind of file") as caught:
        cpu.resolve(ask(path), X86, store)
    assert ".c " in caught.value.hint
    assert ".bc" in caught.value.hint


def test_what_would_have_no_effect_is_refused(tmp_path, store):
    path = tmp_path / "k.o"
    path.write_bytes(b"\x7fELF")
    with pytest.raises(OpspliceError, match="flags do nothing"):
        cpu.resolve(ask(path, flags=("-O1",)), X86, store)
    with pytest.raises(OpspliceError, match="cannot be taken as bitcode"):
        cpu.resolve(ask(path, form="bitcode"), X86, store)


def test_a_cut_off_object_is_refused_and_not_kept(kernel, tmp_path, store, cross):
    made = under(cross, cpu.resolve, ask(kernel), X86, store).path.read_bytes()
    path = tmp_path / "half.o"
    for size in (0, 3, 40, 64, 200, len(made) - 1):
        path.write_bytes(made[:size])
        with pytest.raises(OpspliceError, match=r"half\.o"):
            cpu.resolve(ask(path), X86, store)
    path.write_bytes(made)
    assert cpu.resolve(ask(path), X86, store).digest


HUNGRY = """
#include <stddef.h>
void scale(const float *x, float *out, size_t n) {
  volatile float block[COUNT];
  for (size_t i = 0; i < n; ++i) block[i] = x[n - 1 - i];
  for (size_t i = 0; i < n; ++i) out[i] = block[i];
}
"""


@pytest.mark.parametrize("form", ["object", "bitcode"])
@pytest.mark.parametrize("compiler", ["clang", "zig", "gcc"])
def test_a_function_that_the_stack_has_no_room_for(tmp_path, store, form, compiler):
    if toolchains.find(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    if (compiler, form) == ("gcc", "bitcode"):
        pytest.skip("gcc makes no bitcode")
    source, chosen = tmp_path / "k.c", {"OPSPLICE_CC": compiler}
    source.write_text(HUNGRY.replace("COUNT", "29000"))
    under(chosen, cpu.resolve, ask(source, form=form), CpuTarget(archs.host_arch()), store)
    source.write_text(HUNGRY.replace("COUNT", "100000"))
    with pytest.raises(OpspliceError) as caught:
        under(chosen, cpu.resolve, ask(source, form=form), CpuTarget(archs.host_arch()), store)
    assert "`scratch` result" in caught.value.hint
    assert re.search(
        r"takes (399|400)\d\d\d bytes of the stack|frame size", caught.value.message + caught.value.details
    )


def test_ir_that_the_stack_has_no_room_for(tmp_path, store):
    (tmp_path / "k.ll").write_text(
        "define void @scale(i64 %i) {\n  %b = alloca [1000 x [100 x float]]\n"
        "  %at = getelementptr float, ptr %b, i64 %i\n"
        "  store volatile float 1.0, ptr %at\n"
        "  ret void\n}\n"
    )
    for form in ("object", "bitcode"):
        with pytest.raises(OpspliceError, match=r"scale of k\.ll takes 400000 bytes of the stack"):
            cpu.resolve(ask(tmp_path / "k.ll", form=form), X86, store)
