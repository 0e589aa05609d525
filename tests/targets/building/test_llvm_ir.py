"""LLVM IR text to objects and bitcode through llvmlite, with no compiler."""

import pytest
from llvmlite import binding

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.build import llvm
from opsplice.targets.formats import elf

X86 = CpuTarget("x86_64")

# A loop that the optimizer would like to make a memset.
CLEAR = """
define void @clear(ptr %out, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %place = getelementptr float, ptr %out, i64 %i
  store float 0.0, ptr %place
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

NAMES = """
target triple = "aarch64-none-elf"
@table = global i32 1
@counter = internal thread_local global i32 0
@other_name = alias void (ptr), ptr @"public name"
declare float @expf(float)
declare float @never_called(float)
declare extern_weak void @hook()
define internal void @private() noinline { ret void }
define void @"public name"(ptr %out) {
  %x = load float, ptr %out
  %y = call float @expf(float %x)
  store float %y, ptr %out
  %n = load i32, ptr @counter
  %m = add i32 %n, 1
  store i32 %m, ptr @counter
  store i32 %m, ptr @table
  call void @hook()
  call void @private()
  ret void
}
"""

TWO_CPUS = """
define void @plain() #0 { ret void }
define void @fast() #1 { ret void }
attributes #0 = { "target-cpu"="x86-64" "target-features"="+sse2" }
attributes #1 = { "target-cpu"="x86-64" "target-features"="+avx512f" }
"""

ONE_CPU = """
define void @plain() #0 { ret void }
attributes #0 = { nounwind "target-cpu"="x86-64" "target-features"="+sse2" "tune-cpu"="generic" }
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"target-abi", !"lp64d"}
"""


@pytest.fixture
def compiled(tmp_path):
    def run(text, target=X86, form="object"):
        source = tmp_path / "kernel.ll"
        source.write_text(text)
        output = tmp_path / "kernel.out"
        return llvm.compile_ir(source, output, target, form), output

    return run


@pytest.mark.parametrize("arch", archs.ARCHS)
def test_objects_for_every_architecture_need_nothing(compiled, arch):
    _, output = compiled(CLEAR, CpuTarget(arch))
    code = elf.read_object(output.read_bytes(), "kernel.o")
    assert code.arch == arch
    assert code.functions == {"clear"}
    assert code.undefined == frozenset()  # above all no memset


def test_riscv_objects_pass_floats_in_registers(compiled):
    _, output = compiled(CLEAR, CpuTarget("riscv64"))
    # e_flags, the ELF psABI for RISC-V: EF_RISCV_FLOAT_ABI_DOUBLE, which IREE's lp64d code needs.
    assert int.from_bytes(output.read_bytes()[48:52], "little") & 0x6 == 0x4


def test_features_reach_the_code(compiled):
    plain = compiled(CLEAR)[1].read_bytes()
    assert compiled(CLEAR, CpuTarget.of("x86_64", "+avx,+avx2"))[1].read_bytes() != plain


def test_names_in_bitcode(compiled):
    module, _ = compiled(NAMES, CpuTarget("aarch64"), "bitcode")
    assert module.symbols.functions == {"public name", "other_name"}
    assert module.symbols.data == {"table"}
    assert module.symbols.undefined == {"expf"}
    assert module.symbols.tls
    assert module.notes == ()


def test_ir_for_another_architecture_is_noted(compiled):
    module, _ = compiled(NAMES, X86, "bitcode")
    assert module.notes == ("kernel.ll was made for aarch64 and is compiled for x86_64",)


def test_bitcode_names_no_cpu_unless_it_chooses_between_several(compiled):
    for text, kept in ((ONE_CPU, False), (TWO_CPUS, True)):
        _, output = compiled(text, X86, "bitcode")
        assert ("target-cpu" in str(binding.parse_bitcode(output.read_bytes()))) == kept


def test_bad_ir_shows_llvms_lines_with_the_files_name(compiled):
    with pytest.raises(OpspliceError, match=r"kernel\.ll is not valid LLVM IR") as caught:
        compiled("define void @f() {\n  nonsense\n}\n")
    assert "kernel.ll:2:3: error: expected instruction opcode" in caught.value.details


def test_ir_that_does_not_verify_is_an_error(compiled):
    with pytest.raises(OpspliceError, match="not valid LLVM IR"):
        compiled("define i32 @f() {\n  %x = add i32 %x, 1\n  ret i32 %x\n}\n")


def test_a_crash_of_llvm_is_an_error(compiled):
    # An AVX instruction for a CPU without AVX ends LLVM's process.
    text = (
        "declare <8 x float> @llvm.x86.avx.rsqrt.ps.256(<8 x float>)\n"
        "define <8 x float> @f(<8 x float> %x) {\n"
        "  %y = call <8 x float> @llvm.x86.avx.rsqrt.ps.256(<8 x float> %x)\n  ret <8 x float> %y\n}\n"
    )
    with pytest.raises(OpspliceError, match=r"LLVM failed on kernel\.ll") as caught:
        compiled(text)
    assert "LLVM ERROR" in caught.value.details
    assert "CPU feature" in caught.value.hint
    compiled(text, CpuTarget.of("x86_64", {"avx"}))


@pytest.mark.parametrize(
    ("reason", "newer"),
    [
        ("Invalid record (Producer: 'LLVM99.1.0' Reader: 'LLVM 22.1.0')", True),
        ("Unknown attribute kind (99) (Producer: 'APPLE_1_1700' Reader: 'LLVM 22.1.0')", True),
        ("Incompatible epoch: Bitcode '1' vs current: '0'", True),
        ("Invalid record (Producer: 'LLVM22.1.8' Reader: 'LLVM 22.1.0')", False),
        ("Invalid record (Producer: 'LLVM14.0.6' Reader: 'LLVM 22.1.0')", False),
        ("Malformed block", False),
    ],
)
def test_bitcode_of_a_newer_llvm_is_noted_and_not_refused(tmp_path, monkeypatch, reason, newer):
    path = tmp_path / "k.bc"
    path.write_bytes(b"BC\xc0\xde")
    monkeypatch.setattr(llvm, "_run", lambda _job, _name: {"unreadable": f"LLVM bitcode parsing error\n{reason}"})
    if newer:
        module = llvm.import_bitcode(path, "k.bc", X86)
        assert module.symbols is None
        assert "k.bc were not checked" in module.notes[0]
    else:
        with pytest.raises(OpspliceError, match=r"k\.bc is damaged bitcode: "):
            llvm.import_bitcode(path, "k.bc", X86)


def test_bitcode_for_another_architecture_is_refused(tmp_path, compiled):
    _, output = compiled(NAMES, X86, "bitcode")
    assert llvm.import_bitcode(output, "k.bc", X86).symbols is not None
    with pytest.raises(OpspliceError, match=r"k\.bc is bitcode for x86_64-none-elf, but the target is aarch64"):
        llvm.import_bitcode(output, "k.bc", CpuTarget("aarch64"))


def test_damaged_bitcode_is_refused(tmp_path, compiled):
    _, output = compiled(NAMES, X86, "bitcode")
    path, data = tmp_path / "k.bc", output.read_bytes()
    for damaged in (b"BC\xc0\xde" + bytes(64), data[: len(data) // 8 * 4], data[:-8]):
        path.write_bytes(damaged)
        with pytest.raises(OpspliceError, match=r"k\.bc is damaged bitcode: "):
            llvm.import_bitcode(path, "k.bc", X86)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF", "must end in .o"),
        (b"; text", "not LLVM bitcode"),
        (b"BC\xc0\xde12345", "cut off"),
        (b"", "not LLVM"),
    ],
)
def test_files_that_are_no_bitcode_are_refused(tmp_path, data, said):
    path = tmp_path / "k.bc"
    path.write_bytes(data)
    with pytest.raises(OpspliceError, match=said):
        llvm.import_bitcode(path, "k.bc", X86)


@pytest.mark.parametrize(
    ("body", "is_harmless"),
    [
        ("%r = fmul float %x, %x\n ret float %r", True),
        ("%r = call float @llvm.fabs.f32(float %x)\n ret float %r", True),
        ("%r = call float @expf(float %x)\n ret float %r", True),
        ("%r = call float @helper(float %x)\n ret float %r", True),
        ("%c = fcmp ogt float %x, 1.0\n br i1 %c, label %a, label %b\na:\n ret float %x\nb:\n ret float 2.0", True),
        ("br label %a\na:\n %c = fcmp ogt float %x, 1.0\n br i1 %c, label %a, label %b\nb:\n ret float 2.0", False),
        ("%i = fptosi float %x to i32\n %q = sdiv i32 7, %i\n %r = sitofp i32 %q to float\n ret float %r", False),
        ("%r = load float, ptr @state\n ret float %r", False),
        ("%r = call float @unknown(float %x)\n ret float %r", False),
        ("%r = call float @f(float %x)\n ret float %r", False),
        ("call void @llvm.trap()\n ret float %x", False),
    ],
)
def test_functions_that_may_run_on_any_numbers(tmp_path, body, is_harmless):
    text = f"""
@state = global float 1.0
declare float @expf(float)
declare float @unknown(float)
declare float @llvm.fabs.f32(float)
declare void @llvm.trap()
define internal float @helper(float %x) {{
  %r = fadd float %x, 1.0
  ret float %r
}}
define float @f(float %x) {{
 {body}
}}
"""
    path = tmp_path / "k.bc"
    path.write_bytes(binding.parse_assembly(text).as_bitcode())
    harmless = llvm.import_bitcode(path, "k.bc", X86).harmless
    assert ("f" in harmless) == is_harmless
    assert "helper" in harmless
