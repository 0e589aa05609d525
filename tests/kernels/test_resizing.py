"""Images resized linearly, against numpy, onnxruntime and PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import opsplice

SPEC = ["opsplice_kernels:resizing"]


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_bilinear(kernel, guarded, index):
    """Places of all kinds: in order and at random, outside, and further apart than a workgroup keeps of a row."""
    random = np.random.default_rng(1)
    for b, h, w, i, j in ((1, 1, 1, 1, 1), (2, 5, 7, 9, 40), (3, 4, 90, 6, 300), (1, 2, 2100, 3, 520), (2, 3, 0, 2, 2)):
        x = guarded(random.standard_normal((b, h, w)).astype(np.float32))
        above, below, left, right = (
            guarded(random.integers(-2, size + 2, count).astype(index))
            for size, count in ((h, i), (h, i), (w, j), (w, j))
        )
        left.sort()
        p, q, r, s = (guarded(random.standard_normal(count).astype(np.float32)) for count in (i, i, j, j))
        out = guarded(np.zeros((b, i, j), np.float32))
        call = kernel("resizing/bilinear.c", f"opsplice_bilinear_i{8 * index().itemsize}")
        for part in range(-(-b * i // 16)):
            call(x, above, below, p, q, left, right, r, s, out, b, h, w, i, j, part)
        if w == 0:
            continue  # nothing was read
        above, below, left, right = (
            np.clip(each, 0, size - 1) for each, size in ((above, h), (below, h), (left, w), (right, w))
        )
        exact = x.astype(np.float64)
        rows = exact[:, above] * p[:, None] + exact[:, below] * q[:, None]
        np.testing.assert_allclose(out, rows[..., left] * r + rows[..., right] * s, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [2, "batch"], ids=["fixed", "open"])
@pytest.mark.parametrize("how", ["half_pixel", "align_corners", "asymmetric"])
def test_resize_of_onnx(batch, how, tmp_path):
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed (make frontends)")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")
    of, types = onnx.helper, onnx.TensorProto
    image = of.make_tensor_value_info("x", types.FLOAT, [batch, 3, 6, 10])
    result = of.make_tensor_value_info("y", types.FLOAT, [batch, 3, 15, 20])
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 2.5, 2], np.float32), "scales")
    resize = of.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", coordinate_transformation_mode=how)
    model = of.make_model(
        of.make_graph([resize], "g", [image], [result], [scales]), opset_imports=[of.make_opsetid("", 17)], ir_version=9
    )
    onnx.save(model, tmp_path / "model.onnx")
    program = opsplice.compile(tmp_path / "model.onnx", SPEC)
    assert [each.pattern for each in program.report.replacements] == ["bilinear"], program.report
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 10)).astype(np.float32)
    (wanted,) = runtime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(program.run("main", x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("element", ["float32", "float16", "float64"])
def test_interpolate_of_pytorch(element):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")
    sizes = {"scale_factor": 2}, {"size": (5, 31)}, {"size": (1, 7)}, {"scale_factor": (0.7, 1.3)}
    forms = [
        {"align_corners": is_aligned, "mode": "bilinear", **size}
        for is_aligned, size in itertools.product((False, True), sizes)
    ]
    forms.append({**forms[3], "recompute_scale_factor": True})

    class Resized(torch.nn.Module):
        def forward(self, x):
            return [torch.nn.functional.interpolate(x, **form) for form in forms]

    x = torch.randn(2, 3, 14, 9, generator=torch.Generator().manual_seed(0)).to(getattr(torch, element))
    program = opsplice_torch.export(Resized().eval(), (x,), specs=SPEC)
    assert len(program.report.replacements) == (0 if element == "float64" else len(forms)), program.report
    for found, wanted in zip(program.run("main", x.numpy()), Resized()(x), strict=True):
        assert found.dtype == wanted.numpy().dtype
        # PyTorch rounds a tie of f16 otherwise.
        np.testing.assert_allclose(found, wanted, rtol=1e-3 if element == "float16" else 1e-5, atol=1e-6)


def test_interpolate_of_pytorch_of_open_sizes_and_its_gradient():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

    def resized(x):
        return torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")

    compiled = torch.compile(resized, backend="opsplice", dynamic=True, options={"specs": SPEC})
    for shape in ((1, 2, 4, 6), (3, 2, 5, 3)):
        x = torch.randn(shape, requires_grad=True)
        torch.testing.assert_close(compiled(x), resized(x))
        found, wanted = (torch.autograd.grad(call(x).square().sum(), x)[0] for call in (compiled, resized))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
