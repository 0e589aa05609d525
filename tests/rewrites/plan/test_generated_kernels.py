"""Kernels whose code a Python file writes for each match: what it is told, what runs, and what goes wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.compiling.linting import findings
from opsplice.compiling.spec_export import export_spec
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading.loader import load
from opsplice.targets.build import shaders
from tests.plain import Plain
from tests.rewrites.conftest import DEVICES, write_spec

SPEC = """
kernel scale<T in {f32, f64}>(x: T[...m, n], factor: T) -> T[...m, n] {
  grid (m)
  symbol "scale_{T}"
  cpu "scale.py" as generated
}
pattern scaled<T in {f32, f64}>(x: tensor<...m x n x T>, factor: T) { mulf(negf(x), factor) }
replace scaled with scale(x, factor)
"""
# Knows the factor and the sizes where the program does, and says so in what it computes with.
C = r'''
from opsplice.generating import Request

TYPES = {"f32": "float", "f64": "double"}

def generate(request: Request):
    kind, n = TYPES[request.types["T"]], request.dims["n"]
    assert request.elements == (request.types["T"],) * 3
    factor = request.numbers.get("factor", "factor")
    return f"""#include <stddef.h>
void {request.name}(const {kind} *x, {kind} factor, {kind} *out, size_t m, size_t n, size_t row) {{
  for (size_t i = row * {n or "n"}; i < (row + 1) * {n or "n"}; ++i) out[i] = -x[i] * {factor};
}}
""", ".c"
'''
LLVM = r'''
SUFFIX = ".ll"
TYPES = {"f32": "float", "f64": "double"}

def body(request):
    kind = TYPES[request.types["T"]]
    n = request.dims["n"] or "%n"
    return f"""define void @{request.name}(ptr %x, {kind} %f, ptr %out, i64 %m, i64 %n, i64 %row) {{
  %start = mul i64 %row, {n}
  %end = add i64 %start, {n}
  br label %loop
loop:
  %i = phi i64 [ %start, %0 ], [ %next, %loop ]
  %from = getelementptr {kind}, ptr %x, i64 %i
  %to = getelementptr {kind}, ptr %out, i64 %i
  %v = load {kind}, ptr %from
  %minus = fneg {kind} %v
  %scaled = fmul {kind} %minus, %f
  store {kind} %scaled, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

scale_f32 = scale_f64 = body
'''
MODEL = """
func.func @eights(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %f = arith.constant dense<2.5> : tensor<4x8xf32>
  %0 = arith.negf %x : tensor<4x8xf32>
  %1 = arith.mulf %0, %f : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func @fives(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %f = arith.constant dense<-1.5> : tensor<3x5xf32>
  %0 = arith.negf %x : tensor<3x5xf32>
  %1 = arith.mulf %0, %f : tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
func.func @doubles(%x: tensor<2x3x5xf64>) -> tensor<2x3x5xf64> {
  %f = arith.constant dense<-1.5> : tensor<2x3x5xf64>
  %0 = arith.negf %x : tensor<2x3x5xf64>
  %1 = arith.mulf %0, %f : tensor<2x3x5xf64>
  return %1 : tensor<2x3x5xf64>
}
func.func @dynamic(%x: tensor<?x?xf32>, %s: f32) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %0 = arith.negf %x : tensor<?x?xf32>
  %1 = arith.mulf %0, %f : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
func.func @again(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %f = arith.constant dense<2.5> : tensor<4x8xf32>
  %0 = math.absf %x : tensor<4x8xf32>
  %1 = arith.negf %0 : tensor<4x8xf32>
  %2 = arith.mulf %1, %f : tensor<4x8xf32>
  %3 = math.absf %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
"""
DOUBLES = "--iree-input-demote-f64-to-f32=false"
ONE = MODEL[: MODEL.index("func.func @fives")]
INPUTS = {
    "eights": [np.arange(32, dtype=np.float32).reshape(4, 8)],
    "fives": [np.arange(15, dtype=np.float32).reshape(3, 5)],
    "doubles": [np.arange(30, dtype=np.float64).reshape(2, 3, 5)],
    "dynamic": [np.arange(77, dtype=np.float32).reshape(7, 11), 0.5],
    "again": [np.arange(32, dtype=np.float32).reshape(4, 8)],
}


@pytest.fixture(scope="module", params=[C, LLVM], ids=["C", "LLVM IR"])
def made(pairs, request):
    return pairs(MODEL, SPEC, {"scale.py": request.param}, [DOUBLES])


@pytest.mark.parametrize("function", INPUTS)
def test_numbers_are_those_of_the_plain_program(made, function):
    made.run(function, *INPUTS[function])


def test_code_for_each_request(made):
    uses = {r.function: r.artifacts[0] for r in made.spliced.report.replacements}
    assert uses.keys() == INPUTS.keys()
    assert {use.source.rpartition("/")[2] for use in uses.values()} == {"scale.py"}
    assert len({use.path for use in uses.values()}) == 4
    assert uses["eights"].path == uses["again"].path


def test_what_it_is_told(spliced):
    note = "open(__file__ + '.seen', 'a').write(repr(request) + chr(10))"
    told = f"{C}\nwrite = generate\ndef generate(request):\n  {note}\n  return write(request)\n"
    program = spliced(MODEL, SPEC, {"scale.py": told}, [DOUBLES])
    lines = Path(program.report.replacements[0].artifacts[0].source + ".seen").read_text().splitlines()
    assert len(lines) == 4
    eights = next(line for line in lines if "'m': 4" in line)
    assert "'n': 8" in eights
    assert "{'T': 'f32'}" in eights
    assert "{'factor': 2.5}" in eights
    assert "kernel='scale_f32'" in eights
    assert "grid=('m',)" in eights
    assert "target='cpu'" in eights
    doubles = next(line for line in lines if "'m': 6" in line)
    assert "elements=('f64', 'f64', 'f64')" in doubles
    dynamic = next(line for line in lines if "'m': None" in line)
    assert "'n': None" in dynamic
    assert "numbers=mappingproxy({})" in dynamic
    names = {line.split("name='")[1].split("'")[0] for line in lines}
    assert len(names) == 4


def test_the_second_compile_builds_nothing(spliced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "cache"))
    files = {"scale.py": C.replace("-x[i]", "0 - x[i]")}
    first, second = (spliced(MODEL, SPEC, files).report.replacements for _ in range(2))
    assert {use.built for r in first for use in r.artifacts} == {True}
    assert {use.built for r in second for use in r.artifacts} == {False}
    # Another generator of the same text builds nothing either.
    other = spliced(MODEL, SPEC, {"scale.py": f"# changed\n{files['scale.py']}"})
    assert {use.built for r in other.report.replacements for use in r.artifacts} == {False}


def test_what_changes_in_the_file_counts(spliced):
    x = INPUTS["eights"][0]
    for factor in (2, 3):
        program = spliced(ONE, SPEC, {"scale.py": C.replace("-x[i]", f"{factor} * x[i]")})
        for device in DEVICES:
            np.testing.assert_array_equal(program.run("eights", x, device=device), factor * 2.5 * x)


def test_headers_beside_the_generator(spliced):
    files = {"scale.py": C.replace("#include <stddef.h>", '#include "own.h"'), "own.h": "#include <stddef.h>\n"}
    program = spliced(ONE, SPEC, files)
    np.testing.assert_array_equal(program.run("eights", INPUTS["eights"][0]), -2.5 * INPUTS["eights"][0])


def test_flags_go_to_the_compiler(spliced):
    spec = SPEC.replace("as generated", 'as generated flags "-DEXTRA=4"')
    program = spliced(ONE, spec, {"scale.py": C.replace("-x[i]", "EXTRA * x[i]")})
    np.testing.assert_array_equal(program.run("eights", INPUTS["eights"][0]), 10 * INPUTS["eights"][0])


def test_preview_and_explain_run_no_generator(tmp_path):
    spec = write_spec(tmp_path, SPEC, {"scale.py": "raise RuntimeError('it ran')"})
    assert len(opsplice.match(MODEL, [spec]).replacements) == 5
    assert opsplice.explain(MODEL, [spec])
    with pytest.raises(OpspliceError, match="it ran"):
        opsplice.compile(MODEL, [spec])


def test_lint_and_format_know_it(tmp_path):
    path = write_spec(tmp_path, SPEC.lstrip().replace("}\npattern", "}\n\npattern"), {"scale.py": C})
    assert not [w for w in findings(load(path)) if w.code == "missing-file"]
    assert '  cpu "scale.py" as generated\n' in formatter.format(path.read_text(), path)


def test_it_is_not_exported(tmp_path):
    path = write_spec(tmp_path, SPEC, {"scale.py": "raise RuntimeError('it ran')"})
    with pytest.raises(OpspliceError, match="no counterpart") as failure:
        export_spec(path)
    assert "kernel 'scale': a spec is made before there are matches" in str(failure.value)


# ---- GPUs -----------------------------------------------------------------------------------------------------------

SHADER = r'''
def generate(request):
    n = request.dims["n"]
    assert (request.target, request.workgroup) == ("vulkan", (1,))
    return f"""#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) readonly buffer X {{ float x[]; }};
layout(set = 0, binding = 1) buffer Out {{ float r[]; }};
layout(push_constant) uniform P {{ float factor; uint m; uint n; }};
void main() {{
  uint at = gl_WorkGroupID.x * {n or "n"};
  for (uint i = 0; i < {n or "n"}; ++i) r[at + i] = -x[at + i] * factor;
}}
""", ".comp"
'''
F32 = SPEC.replace("{f32, f64}", "{f32}").replace("grid (m)", "grid (m)\n  workgroup (1)")


@pytest.mark.usefixtures("vulkan")
@pytest.mark.parametrize("targets", [["vulkan"], ["cpu", "vulkan"]], ids=" and ".join)
def test_a_shader(tmp_path, targets):
    if shaders.find("glslang") is None:
        pytest.skip("glslang is not installed")
    spec = F32.replace("}\npattern", '  vulkan "shader.py" as generated\n}\npattern')
    path = write_spec(tmp_path, spec, {"scale.py": C, "shader.py": SHADER})
    start = MODEL.index("func.func @doubles")
    model = MODEL[:start] + MODEL[MODEL.index("func.func @dynamic") :]
    program = opsplice.compile(model, [path], targets=targets)
    assert {r.action for r in program.report.replacements} == {"static dispatch"}
    plain = Plain(model)
    for device in ("vulkan", "local-task") if "cpu" in targets else ("vulkan",):
        for function in INPUTS.keys() - {"doubles"}:
            inputs = INPUTS[function]
            np.testing.assert_array_equal(program.run(function, *inputs, device=device), plain.run(function, *inputs))


PTX = r'''
def generate(request):
    assert (request.target, request.arch) == ("cuda", "sm_80")
    return f"""define ptx_kernel void @{request.name}(ptr %in, ptr %out, float %f, i32 %m, i32 %n) {{
  store float {float(request.dims["n"])}, ptr %out
  ret void
}}
""", ".ll"
'''


def test_code_for_cuda(tmp_path):
    path = write_spec(tmp_path, F32.replace('cpu "scale.py"', 'cuda "scale.py"'), {"scale.py": PTX})
    program = opsplice.compile(MODEL[: MODEL.index("func.func @doubles")], [path], targets=["cuda:sm_80"])
    texts = {Path(r.artifacts[0].path).read_bytes() for r in program.report.replacements}
    assert len(texts) == 2
    assert all(b".entry scale_f32_" in text and text in program.vmfb for text in texts)


# ---- what goes wrong -------------------------------------------------------------------------------------------------

WRONG = {
    "it raises": (
        "def generate(request):\n  return helper(request)\ndef helper(request):\n  raise ValueError('not today')\n",
        r"scale\.py failed for scale_f32 \(m = 4, n = 8, T = f32, factor = 2\.5\) on cpu: ValueError: not today",
        "scale.py:4: in helper: raise ValueError('not today')",
    ),
    "it exits": ("def generate(request):\n  raise SystemExit\n", "on cpu: SystemExit", "scale.py:2: in generate"),
    "it does not load": ("import no_such_module\n", "does not load: ModuleNotFoundError", "scale.py:1: in <module>"),
    "it is not Python": ("x = 1\ndef generate(:\n", "does not load: SyntaxError", "scale.py:2: def generate(:"),
    "nothing near": ("x = 1\n", "has no function 'scale_f32', nor 'generate'", "def scale_f32(request):"),
    "a name near": ("def scale_f23(r): ...\n", "has no function 'scale_f32'", "did you mean scale_f23?"),
    "nothing returned": ("def generate(r): pass\n", r"scale\.py returned nothing for", "for cpu .c or .ll"),
    "a number": ("def generate(r): return 3\n", "returned a value of type int", "return (text, suffix)"),
    "bytes": ("def generate(r): return b'', '.c'\n", r"returned \(bytes, str\)", "return (text, suffix)"),
    "no suffix": ("def generate(r): return ''\n", "does not say of what kind", "SUFFIX in the file"),
    "another suffix": ("def generate(r): return '', '.ptx'\n", r"returned a '\.ptx'", "for cpu .c or .ll"),
    "no text": ("def generate(r): return '\\ud800', '.c'\n", "is not text", "needed by the kernel"),
    "memory of the launch": (
        "from opsplice.generating import Code\ndef generate(r): return Code('', '.c', shared=64)\n",
        "shares memory of the launch, and launches on CUDA alone give it",
        "write the size into the code",
    ),
    "no symbol": (
        "def generate(r): return 'void scale_f32(void) {}', '.c'\n",
        r"^what scale\.py made does not define the function 'scale_f32_[0-9a-f]{10}'",
        "scale.py made for scale_f32 (m = 4, n = 8",
    ),
    "no C": (
        "def generate(r): return 'int x = ;', '.c'\n",
        "cannot compile what scale.py made",
        "scale.py made for scale_f32",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(spliced: Callable[..., opsplice.Program], case: str) -> None:
    text, message, further = WRONG[case]
    with pytest.raises(OpspliceError, match=message) as failure:
        spliced(ONE, SPEC, {"scale.py": text})
    shown = str(failure.value)
    assert further in shown
    assert "needed by the kernel at" in shown
    assert "Traceback" not in shown
    assert "generation.py" not in shown


def test_a_size_that_a_generator_needs_and_does_not_get(tmp_path):
    code = "def generate(r):\n  return 'x' * r.dims['n'], '.c'\n"
    program = "func.func @dynamic" + MODEL.split("func.func @dynamic")[1].split("func.func")[0]
    with pytest.raises(OpspliceError, match=r"on cpu: TypeError") as failure:
        opsplice.compile(program, [write_spec(tmp_path, SPEC, {"scale.py": code})])
    assert failure.value.hint.startswith("dims that are known at run time alone are None: m, n; ")
    other_spec = write_spec(tmp_path, SPEC, {"scale.py": "def generate(r):\n  raise ValueError('too wide')\n"})
    with pytest.raises(OpspliceError, match="ValueError: too wide") as other:
        opsplice.compile(program, [other_spec])
    assert not other.value.hint
    spec = SPEC.replace("replace scaled", "replace scaled where n > 0")
    assert not opsplice.compile(program, [write_spec(tmp_path, spec, {"scale.py": code})]).report.replacements


def test_a_missing_file(spliced):
    with pytest.raises(OpspliceError, match=r"no such file: .*scale\.py") as failure:
        spliced(ONE, SPEC, {"scala.py": C})
    assert "did you mean scala.py" in str(failure.value)


REFUSED = {
    "no Python": ('cpu "scale.c" as generated', r"scale\.c is not a Python file, and a generator is one"),
    "no form": ('cpu "scale.py"', "write `as generated` if it writes the code"),
    "no file": ("cpu as generated", "only what is `as plugin` may have none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_clauses_that_are_refused(spliced, case):
    clause, message = REFUSED[case]
    with pytest.raises(OpspliceError, match=message):
        spliced(ONE, SPEC.replace('cpu "scale.py" as generated', clause), {"scale.py": C, "scale.c": ""})


@pytest.mark.parametrize("backend", ["cpu", "cuda", "vulkan"])
def test_functions_on_elements_are_not_generated(spliced, backend):
    spec = f'kernel f(x: f32) -> f32 {{ {backend} "f.py" as generated }}\n'
    with pytest.raises(OpspliceError, match="called for each element cannot be taken as generated"):
        spliced(ONE, spec + "pattern p(x: tensor<...m x f32>) { negf(x) }\nreplace p with f(x)\n", {"f.py": C})


def test_some_cpus_only(tmp_path):
    spec = SPEC.replace('cpu "', 'cpu aarch64 "none.c"\n  cpu "')
    with pytest.raises(OpspliceError, match="is generated for some CPUs of the program and linked for others"):
        opsplice.compile(ONE, [write_spec(tmp_path, spec, {"scale.py": C})], targets=["x86_64", "aarch64"])


def test_what_stands_beside_the_generator_is_imported(spliced):
    files = {"scale.py": "from writing import generate", "writing.py": C}
    assert spliced(ONE, SPEC, files).report.replacements
    with pytest.raises(OpspliceError, match="does not load: ZeroDivisionError") as failure:
        spliced(ONE, SPEC, {**files, "writing.py": "1 / 0"})
    assert "writing.py:1: in <module>: 1 / 0" in failure.value.details
    assert "python_files.py" not in failure.value.details
    assert "importlib" not in failure.value.details


STRIDED_SPEC = """
kernel scores(q: f32[...b, m, d] strided, bias: f32[m, n] strided optional, k: f32[...b, n, d] strided)
    -> f32[...b, m, n] strided {
  grid (b)
  cpu "scores.py" as generated
}
pattern p(q: tensor<...b x m x d x f32>, k: tensor<...b x n x d x f32>, bias: tensor<m x n x f32>) {
  addf?(contract[...b m d, ...b n d -> ...b m n](q, k), broadcast[m n -> ...b m n](bias))
}
replace p with scores(q, bias, k)
"""
STRIDED = """
from opsplice.generating import Request

def generate(request: Request):
    at = lambda name, *dims: " + ".join(f"{dim} * {request.known(f'stride({name}, {dim})')}" for dim in dims)
    m, n, d = (request.dims[name] for name in "mnd")
    bias = f"bias[{at('bias', 'm', 'n')}]" if request.layout["has(bias)"] else "0"
    return f'''#include <stddef.h>
void {request.name}(const float *q, const float *bias, const float *k, float *out, size_t b_, size_t m_, size_t d_,
                    size_t n_, size_t q_m, size_t q_d, size_t b_m, size_t b_n, size_t k_n, size_t k_d, size_t o_m,
                    size_t o_n, size_t group) {{
  for (size_t m = 0; m < {m}; ++m)
    for (size_t n = 0; n < {n}; ++n) {{
      float sum = {bias};
      for (size_t d = 0; d < {d}; ++d) sum += q[{at('q', 'm', 'd')}] * k[{at('k', 'n', 'd')}];
      out[{at('out', 'm', 'n')}] = sum;
    }}
}}
''', ".c"
"""
STRIDED_MODEL = """
func.func @heads_behind(%q: tensor<5x2x8xf32>, %k: tensor<2x8x6xf32>) -> tensor<2x5x6xf32> {
  %e = tensor.empty() : tensor<2x5x8xf32>
  %t = linalg.transpose ins(%q : tensor<5x2x8xf32>) outs(%e : tensor<2x5x8xf32>) permutation = [1, 0, 2]
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
  %0 = linalg.batch_matmul ins(%t, %k : tensor<2x5x8xf32>, tensor<2x8x6xf32>)
      outs(%f : tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
  return %0 : tensor<2x5x6xf32>
}
func.func @biased(%q: tensor<2x5x8xf32>, %k: tensor<2x8x6xf32>, %bias: tensor<5x6xf32>) -> tensor<2x5x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
  %0 = linalg.batch_matmul ins(%q, %k : tensor<2x5x8xf32>, tensor<2x8x6xf32>)
      outs(%f : tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
  %b = linalg.broadcast ins(%bias : tensor<5x6xf32>) outs(%e : tensor<2x5x6xf32>) dimensions = [0]
  %1 = arith.addf %0, %b : tensor<2x5x6xf32>
  return %1 : tensor<2x5x6xf32>
}
"""


@pytest.fixture(scope="module")
def laid_out(pairs):
    return pairs(STRIDED_MODEL, STRIDED_SPEC, {"scores.py": STRIDED})


def test_strides_are_numbers_of_the_request(laid_out):
    values = np.random.default_rng(3).integers(-8, 8, (3, 2, 5, 8)).astype(np.float32)
    k, bias = np.resize(values[1], (2, 8, 6)), np.resize(values[2], (5, 6))
    laid_out.run("heads_behind", values[0].reshape(5, 2, 8), k)
    laid_out.run("biased", values[0], k, bias)
