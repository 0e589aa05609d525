"""`opsplice export` and `opsplice.export`, and what they write in IREE's own iree-compile."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import iree.compiler
import numpy as np
import pytest

import opsplice
from opsplice.cli import main
from opsplice.runtime.loaded_program import load_program

TARGET = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
]
COMPILER = shutil.which("iree-compile") or Path(iree.compiler.__file__).parent / "_mlir_libs" / "iree-compile"


@pytest.fixture
def sample(samples: Path) -> Path:
    return samples / "mul_abs_negate"


def stock(model: Path, spec: Path, folder: Path, *flags: str) -> list[np.ndarray]:
    """A model compiled by iree-compile with an exported spec, and run."""
    vmfb = folder / "stock.vmfb"
    command = [COMPILER, model, *TARGET, f"--iree-preprocessing-transform-spec-filename={spec}", *flags, "-o", vmfb]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return load_program(vmfb)


@pytest.mark.parametrize("objects", ["path", "copy", "bytes"])
def test_the_kernel_runs_in_stock_iree(sample: Path, tmp_path: Path, objects: str) -> None:
    spec = tmp_path / "spec.mlir"
    assert main(["export", str(sample / "replace.splice"), "-o", str(spec), f"--objects={objects}"]) == 0
    flags = [f"--iree-hal-executable-object-search-path={tmp_path}"] if objects == "copy" else []
    program = stock(sample / "model.mlir", spec, tmp_path, *flags)
    random = np.random.default_rng(0)
    values = [random.standard_normal(size, np.float32) for size in (77, 77, 10, 10)]
    results = program.call("mixed_invocation", *values)
    ours = opsplice.compile(sample / "model.mlir", [sample / "replace.splice"]).run("mixed_invocation", *values)
    for result, own, (left, right) in zip(results, ours, (values[:2], values[2:]), strict=True):
        np.testing.assert_array_equal(result, -np.abs(left * right) + np.float32(1))
        np.testing.assert_array_equal(result, own)


def test_opsplice_applies_what_it_exports(sample: Path, tmp_path: Path) -> None:
    exported = opsplice.export(sample / "replace.splice")
    (tmp_path / "spec.mlir").write_text(exported.text)
    ours = opsplice.match(sample / "model.mlir", [sample / "replace.splice"])
    theirs = opsplice.match(sample / "model.mlir", [tmp_path / "spec.mlir"])
    assert len(ours.replacements) == len(theirs.replacements) == 2
    assert [r.function for r in ours.replacements] == [r.function for r in theirs.replacements]


LAYER = """
kernel scaled(x: f32[m, k], w: f32[k, n], b: f32[n]) -> f32[m, n] where n % 8 == 0 {
  grid (m)
  cpu "scaled.c"
}
pattern linear_relu(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  maximumf(addf(contract[mk, kn -> mn](x, w), broadcast[n -> m n](b)), 0.0)
}
replace linear_relu where k <= 64 with scaled(x, w, b)
"""
# The + 1 is not in the pattern: it shows that this code ran.
SCALED = """
#include <stddef.h>
void scaled(const float *x, const float *w, const float *b, float *out, size_t m, size_t k, size_t n, size_t row) {
  for (size_t j = 0; j < n; ++j) {
    float sum = b[j];
    for (size_t i = 0; i < k; ++i) sum += x[row * k + i] * w[i * n + j];
    out[row * n + j] = (sum > 0.0f ? sum : 0.0f) + 1.0f;
  }
}
"""
MODEL = """
func.func @main(%x: tensor<?x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>) -> tensor<?x32xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%m) : tensor<?x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<?x64xf32>, tensor<64x32xf32>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  %1 = linalg.generic {
      indexing_maps = [
          affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%0, %b : tensor<?x32xf32>, tensor<32xf32>) outs(%e : tensor<?x32xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<?x32xf32>
  %2 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%1 : tensor<?x32xf32>) outs(%e : tensor<?x32xf32>) {
  ^bb0(%p: f32, %o: f32):
    %c = arith.cmpf ugt, %p, %zero : f32
    %s = arith.select %c, %p, %zero : f32
    linalg.yield %s : f32
  } -> tensor<?x32xf32>
  return %2 : tensor<?x32xf32>
}
"""


def test_a_layer_as_torch_spells_it_in_stock_iree(tmp_path: Path) -> None:
    (tmp_path / "scaled.c").write_text(SCALED)
    (tmp_path / "layer.splice").write_text(LAYER)
    (tmp_path / "model.mlir").write_text(MODEL)
    spec = tmp_path / "layer.mlir"
    assert main(["export", str(tmp_path / "layer.splice"), "-o", str(spec), *TARGET[2:]]) == 0
    program = stock(tmp_path / "model.mlir", spec, tmp_path)
    random = np.random.default_rng(1)
    x, w, b = (random.standard_normal(shape, np.float32) for shape in ((5, 64), (64, 32), (32,)))
    (result,) = program.call("main", x, w, b)
    np.testing.assert_allclose(result, np.maximum(x @ w + b, 0) + 1, rtol=1e-4, atol=1e-5)
    ours = opsplice.compile(tmp_path / "model.mlir", [tmp_path / "layer.splice"], TARGET[2:]).run("main", x, w, b)
    np.testing.assert_allclose(result, ours, rtol=1e-6)


# ---- the command -------------------------------------------------------------------------------------------------

PARTS = """
kernel k(x: f32[n]) -> f32[n] { cpu "k.c" }
pattern good(x: tensor<n x f32>) { negf(absf(x)) }
pattern bad(x: tensor<n x f32>) where n % 4 == 1 { mulf(exp(x), const(0.5..0.6)) }
replace good with k(x)
replace bad with k(x)
"""


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    (tmp_path / "k.c").write_text("#include <stddef.h>\nvoid k(const float *x, float *out, size_t n) { *out = *x; }\n")
    path = tmp_path / "parts.splice"
    path.write_text(PARTS)
    return path


def test_all_that_has_no_counterpart_is_an_error_at_once(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = parts.with_suffix(".mlir")
    assert main(["export", str(parts), "-o", str(output)]) == 1
    said = capsys.readouterr().err
    assert "error: 2 constructs have no counterpart" in said
    assert "parts.splice:4:65: the range `const(0.5..0.6)`" in said
    assert "parts.splice:4:39: the condition `n % 4 == 1`" in said
    assert "--partial" in said
    assert not output.exists()


def test_partial_exports_the_rest_and_says_what_it_left_out(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = parts.with_suffix(".mlir")
    assert main(["export", str(parts), "-o", str(output), "--partial", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [rule["rule"] for rule in found["rules"]] == ["replace good with k"]
    assert [rule["rule"] for rule in found["left_out"]] == ["replace bad with k"]
    assert found["left_out"][0]["constructs"][0]["location"].endswith("parts.splice:4:65")
    text = output.read_text()
    assert all(f"@{m['name']} ->" in text for m in found["rules"][0]["matchers"])
    assert main(["export", str(parts), "-o", str(output), "--partial"]) == 0
    assert "left out of `replace bad with k`" in capsys.readouterr().err


def test_what_kernels_are_not_promised(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the output, in the spec and in the report; not of a spec that has no kernels."""
    output = tmp_path / "spec.mlir"
    said = "buffers that start at any offset, so they must not use aligned loads and stores"
    assert main(["export", str(sample / "replace.splice"), "-o", str(output)]) == 0
    assert f"note: IREE may pass kernels {said}" in capsys.readouterr().err
    assert said in output.read_text().splitlines()[1]
    (tmp_path / "marks.splice").write_text("pattern p(x: tensor<n x f32>) { negf(x) }\nannotate p with {my.tag}\n")
    assert opsplice.export(tmp_path / "marks.splice").notes == ()


def test_the_spec_goes_to_stdout(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(sample / "replace.splice"), "-o", "-"]) == 0
    assert "transform.named_sequence @__transform_main" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model.mlir", "-o", "x.mlir"], "not a .splice file"),
        (["missing.splice", "-o", "x.mlir"], "missing.splice"),
        (["parts.splice", "-o", "-", "--json"], "both want stdout"),
        (["parts.splice", "-o", "-", "--objects=copy"], "do not go together"),
        (["parts.splice", "-o", "nowhere/x.mlir", "--partial"], "there is no folder"),
        (["empty.splice", "-o", "x.mlir"], "nothing of empty.splice can be exported"),
    ],
)
def test_mistakes(
    parts: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(parts.parent)
    Path("empty.splice").write_text("")
    assert main(["export", *arguments]) == 1
    output = capsys.readouterr()
    assert said in output.err + output.out


def test_an_object_file_does_not_go_as_bytes(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(sample / "functions.c", tmp_path)
    text = (sample / "replace.splice").read_text().replace('"functions.c"', '"functions.c" as object')
    (tmp_path / "spec.splice").write_text(text)
    assert main(["export", str(tmp_path / "spec.splice"), "-o", str(tmp_path / "x.mlir"), "--objects=bytes"]) == 1
    assert "IREE links only bitcode from bytes" in capsys.readouterr().err


def test_paths_that_iree_does_not_link_are_not_written(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPSPLICE_CACHE", str(tmp_path / "a cache"))
    arguments = ["export", str(sample / "replace.splice"), "-o", str(tmp_path / "x.mlir")]
    assert main([*arguments, "--objects=path"]) == 1
    assert "IREE's linker takes no file of the cache" in capsys.readouterr().err
    assert main([*arguments, "--objects=copy"]) == 0


def test_several_architectures_go_into_one_spec(sample: Path) -> None:
    text = opsplice.export(sample / "replace.splice", targets=["x86_64", "aarch64"]).text
    assert "embedded-elf-x86_64" in text
    assert "embedded-elf-arm_64" in text


# ---- several exported specs --------------------------------------------------------------------------------------

TENSOR = "tensor<?xf32>"
TWO = f"""
func.func @main(%a: {TENSOR}, %b: {TENSOR}) -> ({TENSOR}, {TENSOR}) {{
  %0 = math.absf %a : {TENSOR}
  %1 = math.exp %b : {TENSOR}
  return %0, %1 : {TENSOR}, {TENSOR}
}}
"""


def adding(folder: Path, op: str, kernel: str, number: int, form: str, objects: str) -> Path:
    """An exported spec that puts a kernel, which adds a number, in the place of an op."""
    folder.mkdir()
    (folder / "k.c").write_text(
        f"#include <stddef.h>\nvoid {kernel}(const float *x, float *y, size_t n) {{\n"
        f"  for (size_t i = 0; i < n; ++i) y[i] = x[i] + {number};\n}}\n"
    )
    (folder / "k.splice").write_text(
        f'kernel {kernel}(x: f32[n]) -> f32[n] {{ cpu "k.c"{form} }}\n'
        f"pattern p(x: tensor<n x f32>) {{ {op}(x) }}\nreplace p with {kernel}(x)\n"
    )
    flags = ["--iree-llvmcpu-target-cpu=host"]
    (folder / "k.mlir").write_text(opsplice.export(folder / "k.splice", flags, objects=objects).text)
    return folder / "k.mlir"


@pytest.mark.parametrize(("form", "objects"), [("", "path"), (" as bitcode", "bytes")])
def test_two_exported_specs_each_call_their_own_kernel(tmp_path: Path, form: str, objects: str) -> None:
    first = adding(tmp_path / "a", "absf", "add_hundred", 100, form, objects)
    second = adding(tmp_path / "b", "exp", "add_thousand", 1000, form, objects)
    values = np.array([1, -2], np.float32), np.array([3, 4], np.float32)
    for specs in ([first, second], [second, first], [first.with_suffix(".splice"), second]):
        program = opsplice.compile(TWO, specs, ["--iree-llvmcpu-target-cpu=host"])
        results = program.run("main", *values)
        np.testing.assert_array_equal(results[0], values[0] + 100)
        np.testing.assert_array_equal(results[1], values[1] + 1000)
        assert len(program.report.replacements) == 2


@pytest.mark.parametrize(("form", "objects"), [("", "path"), (" as bitcode", "bytes")])
def test_two_exported_specs_with_different_files_for_one_symbol(tmp_path: Path, form: str, objects: str) -> None:
    first = adding(tmp_path / "a", "absf", "add", 100, form, objects)
    second = adding(tmp_path / "b", "exp", "add", 1000, form, objects)
    with pytest.raises(opsplice.OpspliceError, match="add is defined by two files that are linked into one program"):
        opsplice.compile(TWO, [first, second], ["--iree-llvmcpu-target-cpu=host"])
    same = adding(tmp_path / "c", "exp", "add", 100, form, objects)
    program = opsplice.compile(TWO, [first, same], ["--iree-llvmcpu-target-cpu=host"])
    results = program.run("main", np.zeros(2, np.float32), np.ones(2, np.float32))
    np.testing.assert_array_equal(results, [[100, 100], [101, 101]])


def test_attributes_are_set_in_stock_iree(tmp_path: Path) -> None:
    """Also on ops with regions, and whatever other rules set."""
    (tmp_path / "model.mlir").write_text(MODEL)
    (tmp_path / "marks.splice").write_text(
        "pattern product(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { contract[mk, kn -> mn](x, w) }\n"
        "pattern biased(x: tensor<m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) where n % 8 == 0 {\n"
        "  addf(contract[mk, kn -> mn](x, w), broadcast[n -> m n](b))\n}\n"
        'annotate product with {my.tag, my.kind = "product"}\nannotate biased with {my.size = 8}\n'
    )
    spec = tmp_path / "marks.mlir"
    assert main(["export", str(tmp_path / "marks.splice"), "-o", str(spec)]) == 0
    flags = [*TARGET, f"--iree-preprocessing-transform-spec-filename={spec}", "--compile-to=preprocessing"]
    done = subprocess.run([COMPILER, tmp_path / "model.mlir", *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    product, biased = (part.partition("}\n")[0] for part in done.stdout.split("linalg.")[1:] if "my." in part)
    assert 'my.kind = "product", my.tag' in done.stdout
    assert done.stdout.count("my.tag") == done.stdout.count("my.size = 8 : i64") == 1
    assert "my.size" not in product
    assert "my.tag" not in biased


# ---- what is reported --------------------------------------------------------------------------------------------

CHAIN = """
func.func @main(%a: tensor<KINDxf32>) -> tensor<KINDxf32> {
  %0 = math.absf %a : tensor<KINDxf32>
  %1 = arith.negf %0 : tensor<KINDxf32>
  %2 = math.exp %1 : tensor<KINDxf32>
  %3 = math.absf %2 : tensor<KINDxf32>
  %4 = arith.negf %3 : tensor<KINDxf32>
  %5 = math.absf %4 : tensor<KINDxf32>
  %6 = arith.negf %5 : tensor<KINDxf32>
  %7 = arith.addf %6, %0 : tensor<KINDxf32>
  return %7 : tensor<KINDxf32>
}
"""
RULES = """
kernel in_place(x: f32[...m]) -> x { cpu "k.c" }
kernel other(x: f32[...m]) -> f32[...m] { cpu "k.c" }
pattern p(x: tensor<...m x f32>) { negf(absf(x)) }
pattern q(x: tensor<...m x f32>) { negf(exp(x)) }
replace p with in_place(x)
replace q with other(x)
"""


@pytest.mark.parametrize("kind", ["?x?", "4x?", "4x8"])
def test_calls_are_reported_as_those_of_the_rules_are(kind: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "#include <stddef.h>\nvoid in_place(float *x, size_t n) { *x = n; }\n"
        "void other(const float *x, float *y, size_t n) { *y = *x; }\n"
    )
    (tmp_path / "rules.splice").write_text(RULES)
    (tmp_path / "rules.mlir").write_text(opsplice.export(tmp_path / "rules.splice").text)
    (tmp_path / "model.mlir").write_text(CHAIN.replace("KIND", kind))
    ours, theirs = (
        opsplice.transform(tmp_path / "model.mlir", [tmp_path / f"rules.{suffix}"])[1] for suffix in ("splice", "mlir")
    )
    assert [r.location.rpartition("model.mlir:")[2] for r in ours.replacements] == ["4:8", "7:8", "9:8"]
    assert [r.location for r in theirs.replacements] == [r.location for r in ours.replacements]
    assert [u.rule.rpartition(": ")[2] for u in theirs.unmatched] == [u.rule for u in ours.unmatched]
    assert [u.rule for u in ours.unmatched] == ["replace q with other"]


def test_the_place_of_a_call_is_shown(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.mlir").write_text(opsplice.export(sample / "replace.splice").text)
    command = [sys.executable, "-m", "opsplice", "match", "model.mlir", f"--spec={tmp_path / 'spec.mlir'}"]
    done = subprocess.run(command, cwd=sample, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 replacements\n  model.mlir:")
    assert "  spec.mlir: replace neg_abs_mul with mul_abs_negate in @mixed_invocation  => " in done.stdout


# ---- dispatches that files hold --------------------------------------------------------------------------------------


def test_a_shader_runs_in_stock_iree(samples: Path, tmp_path: Path, vulkan: None) -> None:
    """In bytes, so that the spec needs no other file."""
    spec = tmp_path / "spec.mlir"
    arguments = [str(samples / "dispatches" / "replace.splice"), "-o", str(spec), "--target=vulkan", "--objects=bytes"]
    assert main(["export", *arguments]) == 0
    model, vmfb = samples / "dispatches" / "model.mlir", tmp_path / "stock.vmfb"
    flags = ["--iree-hal-target-device=vulkan", f"--iree-preprocessing-transform-spec-filename={spec}"]
    subprocess.run([COMPILER, model, *flags, "-o", vmfb], check=True, capture_output=True)
    assert b"opsplice_scale_bias" in vmfb.read_bytes()
    x, gain, bias = np.arange(20, dtype=np.float32).reshape(4, 5) / 8, np.float32(0.5), np.ones(5, np.float32)
    (result,) = load_program(vmfb, device="vulkan").call("main", x, np.array(gain), bias)
    np.testing.assert_allclose(result, np.exp(x * gain + bias), rtol=1e-5)


def test_ptx_is_linked_by_stock_iree(samples: Path, tmp_path: Path) -> None:
    """As far as compiling goes."""
    shutil.copy(samples / "cuda_dispatch" / "axpy_sm80.ptx", tmp_path)
    (tmp_path / "axpy.splice").write_text(
        "kernel axpy(a: f32, x: f32[n], y: f32[n]) -> f32[n] {\n"
        '  grid (ceildiv(n, 256))\n  workgroup (256)\n  cuda sm_80 "axpy_sm80.ptx"\n}\n'
        "pattern axpys(a: f32, x: tensor<n x f32>, y: tensor<n x f32>) { addf(mulf(x, a), y) }\n"
        "replace axpys with axpy(a, x, y)\n"
    )
    kind = "tensor<?xf32>"
    model, vmfb = tmp_path / "model.mlir", tmp_path / "stock.vmfb"
    model.write_text(f"""func.func @main(%a: f32, %x: {kind}, %y: {kind}) -> {kind} {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {kind}
      %s = tensor.splat %a[%n] : {kind}
      %0 = arith.mulf %x, %s : {kind}
      %1 = arith.addf %0, %y : {kind}
      return %1 : {kind}
    }}""")
    spec = tmp_path / "spec.mlir"
    assert main(["export", str(tmp_path / "axpy.splice"), "-o", str(spec), "--target=cuda:sm_80"]) == 0
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    command = [COMPILER, model, *flags, f"--iree-preprocessing-transform-spec-filename={spec}", "-o", vmfb]
    subprocess.run(command, check=True, capture_output=True)
    assert b".entry axpy(" in vmfb.read_bytes()
