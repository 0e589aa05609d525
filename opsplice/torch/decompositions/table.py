"""Which of PyTorch's ops become smaller ones before IREE sees them.

An op stays whole where IREE converts it itself: its own form is then the one that patterns were written for. An op that
IREE does not take becomes ops that it does.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._higher_order_ops.effects import _get_effect, _register_effectful_op
from torch.export import ExportedProgram

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.numbers import complex_functions
from opsplice.torch.decompositions import (
    complex_numbers,
    elementwise,
    embedding_bag,
    formulas,
    fourier,
    functions,
    halves,
    masked_places,
    places_in_memory,
    quantized,
    sampling,
    whole_layers,
    windows,
)
from opsplice.torch.decompositions.linear_algebra import products
from opsplice.torch.decompositions.linear_algebra.of_matrices import OF_MATRICES

aten = torch.ops.aten

# Of PyTorch's core decompositions, those of ops that IREE takes as they are.
WHOLE = (
    aten.addmm,
    aten.baddbmm,
    aten.bernoulli,
    aten.gelu,
    aten.glu,
    aten.hardswish,
    aten.leaky_relu,
    aten.masked_fill,
    aten.silu,
    aten.softplus,
    aten.squeeze,
    aten.stack,
    aten.std,
    aten.threshold,
    aten.unbind,
)

Table = dict[Any, Callable[..., Any]]


# Of PyTorch's other decompositions, those of ops that IREE does not take.
APART = (
    aten.addmv,
    aten._batch_norm_with_update_functional,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten.as_strided_copy,
    aten.bucketize,
    aten.dist,
    aten.logical_xor,
    aten.narrow_copy,
    aten.permute_copy,
    aten.unbind_copy,
    aten.view_copy,
)


# Ops on integers, of a tensor and a number, by the op on tensors that they stand for.
_OF_NUMBERS: Table = {
    op: formulas.of_tensors(whole)
    for whole, ops in {
        aten.bitwise_and.Tensor: (aten.bitwise_and.Scalar, aten.__and__.Scalar),
        aten.bitwise_or.Tensor: (aten.bitwise_or.Scalar, aten.__or__.Scalar),
        aten.bitwise_xor.Tensor: (aten.bitwise_xor.Scalar, aten.__xor__.Scalar),
        aten.bitwise_left_shift.Tensor: (
            aten.bitwise_left_shift.Tensor_Scalar,
            aten.bitwise_left_shift.Scalar_Tensor,
            aten.__lshift__.Scalar,
            aten.__lshift__.Tensor,
        ),
        aten.bitwise_right_shift.Tensor: (
            aten.bitwise_right_shift.Tensor_Scalar,
            aten.bitwise_right_shift.Scalar_Tensor,
            aten.__rshift__.Scalar,
            aten.__rshift__.Tensor,
        ),
    }.items()
    for op in ops
}


def _either(*bodies: Callable[..., Any]) -> Callable[..., Any]:
    """The first of some bodies that takes what it is given."""

    def formula(*args: Any, **options: Any) -> Any:
        results = (body(*args, **options) for body in bodies)
        return next((result for result in results if result is not NotImplemented), NotImplemented)

    return formula


_SCATTERED: Table = {
    op: _either(*bodies, formulas.counted_from_front(op))
    for op, bodies in {
        aten.scatter.src: (complex_numbers.placed(aten.scatter.src, 0, 3),),
        aten.scatter.value: (complex_numbers.placed(aten.scatter.value, 0, 3),),
        aten.scatter_add.default: (
            complex_numbers.placed(aten.scatter_add.default, 0, 3),
            formulas.scatter_added,
            halves.in_f32(aten.scatter_add.default),
        ),
        aten.scatter_reduce.two: (formulas.scatter_small, halves.in_f32(aten.scatter_reduce.two)),
    }.items()
}

_COMPARED: Table = {op.Scalar: elementwise.comparison(op.Scalar) for op in (aten.ge, aten.gt, aten.le, aten.lt)}

_OVER_A_DIM: Table = {
    op: formulas.of_scalars(op)
    for op in (
        *(aten.amax.default, aten.amin.default, aten.argmax.default, aten.argmin.default),
        *(aten.index_select.default, aten.max.dim, aten.min.dim),
    )
}

OWN: Table = {
    **OF_MATRICES,
    **_SCATTERED,
    **complex_numbers.ALONE,
    **_OF_NUMBERS,
    **_COMPARED,
    **_OVER_A_DIM,
    **elementwise.on_lists(),
    aten._assert_tensor_metadata.default: formulas.nothing,
    aten._adaptive_avg_pool2d.default: _either(
        halves.in_f32(aten._adaptive_avg_pool2d), windows.adaptive_average_pool(aten.avg_pool2d)
    ),
    aten._adaptive_avg_pool2d_backward.default: windows.adaptive_average_pool_backward(2),
    aten._adaptive_avg_pool3d.default: windows.adaptive_average_pool(aten.avg_pool3d),
    aten._adaptive_avg_pool3d_backward.default: windows.adaptive_average_pool_backward(3),
    aten._efficientzerotensor.default: formulas.zero_tensor,
    aten._scaled_dot_product_flash_attention_for_cpu.default: whole_layers.attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: whole_layers.attention_backward,
    aten._embedding_bag.default: embedding_bag.forward,
    aten._embedding_bag_backward.default: embedding_bag.backward,
    aten._embedding_bag_forward_only.default: embedding_bag.forward,
    aten._embedding_bag_per_sample_weights_backward.default: embedding_bag.weights_backward,
    aten._fft_c2c.default: fourier.of_complex,
    aten._fft_c2r.default: fourier.to_real,
    aten._fft_r2c.default: fourier.of_real,
    aten.fft_fftfreq.default: fourier.frequencies,
    aten.fft_rfftfreq.default: fourier.real_frequencies,
    aten._linalg_check_errors.default: formulas.nothing,
    aten.abs.default: _either(complex_numbers.magnitude, elementwise.size_without_sign),
    aten.adaptive_max_pool2d.default: windows.adaptive_max_pool,
    aten.adaptive_max_pool2d_backward.default: windows.max_backward(2),
    aten.adaptive_max_pool3d_backward.default: windows.max_backward(3),
    aten.add.Tensor: complex_numbers.linear(torch.add),
    aten.all.default: _either(complex_numbers.of_truths(torch.all), formulas.of_bytes(torch.all)),
    aten.all.dim: _either(complex_numbers.of_truths(torch.all), formulas.of_bytes(torch.all)),
    aten.all.dims: _either(complex_numbers.of_truths(torch.all), formulas.of_bytes(torch.all)),
    aten.any.default: _either(complex_numbers.of_truths(torch.any), formulas.of_bytes(torch.any)),
    aten.any.dim: _either(complex_numbers.of_truths(torch.any), formulas.of_bytes(torch.any)),
    aten.any.dims: _either(complex_numbers.of_truths(torch.any), formulas.of_bytes(torch.any)),
    aten.arange.start_step: formulas.in_order,
    aten.as_strided_scatter.default: places_in_memory.write,
    aten.avg_pool2d.default: _either(halves.in_f32(aten.avg_pool2d), windows.average_pool),
    aten.avg_pool2d_backward.default: windows.average_pool_backward,
    aten.avg_pool3d_backward.default: windows.average_pool_backward,
    aten.bernoulli.default: formulas.bernoulli,
    aten.clamp.Tensor: elementwise.bounded,
    aten.clamp.default: elementwise.clamped,
    aten.constant_pad_nd.default: _either(complex_numbers.placed(aten.constant_pad_nd.default, 0, 2), formulas.pad),
    aten.convolution.default: windows.convolution,
    aten.convolution_backward.default: windows.convolution_backward,
    aten.copysign.Tensor: functions.with_sign_of,
    aten.cumprod.default: _either(
        complex_numbers.running(torch.mul, (1, 0)), halves.in_f32(torch.cumprod), formulas.running(torch.cumprod)
    ),
    aten.cumsum.default: _either(
        complex_numbers.running_sum, halves.in_f32(torch.cumsum), formulas.running(torch.cumsum)
    ),
    aten.cummax.default: formulas.running_extreme(torch.gt, -torch.inf),
    aten.cummin.default: formulas.running_extreme(torch.lt, torch.inf),
    aten.diagonal_scatter.default: masked_places.put_diagonal,
    aten.digamma.default: functions.digamma,
    aten.div.Scalar: _either(halves.by_number(torch.div), complex_numbers.quotient),
    aten.div.Scalar_mode: _either(halves.by_number(torch.div), elementwise.quotient),
    aten.div.Tensor: _either(halves.by_number(torch.div), complex_numbers.quotient),
    aten.div.Tensor_mode: _either(halves.by_number(torch.div), elementwise.quotient),
    aten.embedding_renorm.default: embedding_bag.shortened,
    aten.empty_permuted.default: places_in_memory.room_in_order,
    aten.empty_strided.default: places_in_memory.room,
    aten.eq.Scalar: _either(complex_numbers.equal, elementwise.comparison(aten.eq.Scalar)),
    aten.eq.Tensor: _either(complex_numbers.equal, elementwise.equal),
    aten.erfc.default: functions.remaining_error,
    aten.erfinv.default: functions.inverse_error,
    aten.fake_quantize_per_channel_affine_cachemask.default: quantized.rounded_to_ranges,
    aten.fake_quantize_per_tensor_affine_cachemask.default: quantized.rounded_to_range,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: quantized.rounded_if_enabled,
    aten.floor_divide.default: _either(halves.by_number(torch.floor_divide), elementwise.floor_quotient),
    aten.fmax.default: functions.extreme(torch.ge),
    aten.fmin.default: functions.extreme(torch.le),
    aten.fmod.Scalar: elementwise.remainder_of_division,
    aten.fmod.Tensor: elementwise.remainder_of_division,
    aten.frexp.Tensor: functions.share_and_power,
    aten.full.default: _either(complex_numbers.filled, formulas.with_truth(torch.full, 1)),
    aten.full_like.default: _either(complex_numbers.filled_like, formulas.with_truth(torch.full_like, 1)),
    aten.gather.default: formulas.gather,
    aten.gcd.default: functions.greatest_divisor,
    aten.grid_sampler_2d.default: sampling.grid_sampler,
    aten.grid_sampler_2d_backward.default: sampling.grid_sampler_backward,
    aten.grid_sampler_3d.default: sampling.grid_sampler,
    aten.grid_sampler_3d_backward.default: sampling.grid_sampler_backward,
    aten.gru.input: whole_layers.layers(whole_layers.GRU),
    aten.hardtanh.default: elementwise.hard_tangent,
    aten.histc.default: formulas.histogram,
    aten.hypot.default: elementwise.hypotenuse,
    aten.index.Tensor: masked_places.at_places(aten.index.Tensor),
    aten.index_put.default: _either(
        complex_numbers.placed(aten.index_put.default, 0, 2),
        halves.added_at_places,
        masked_places.added_truths,
        masked_places.put_where,
        masked_places.put_at_index,
        masked_places.at_places(aten.index_put.default),
    ),
    aten.index_reduce.default: masked_places.reduce_rows,
    aten.i0.default: functions.bessel(0, is_scaled=False),
    aten.isfinite.default: elementwise.is_finite,
    aten.kthvalue.default: formulas.kth_value,
    aten.lcm.default: functions.least_multiple,
    aten.leaky_relu.default: halves.by_number(aten.leaky_relu.default),
    aten.lgamma.default: functions.log_gamma,
    aten.linalg_vector_norm.default: _either(complex_numbers.of_size, halves.in_f32(aten.linalg_vector_norm)),
    aten.log10.default: _either(complex_numbers.function(complex_numbers.logarithm_to(10)), formulas.log10),
    aten.logcumsumexp.default: _either(
        complex_numbers.running(complex_numbers.log_of_sum, (-torch.inf, 0)), formulas.running_log_sum
    ),
    aten.max.default: elementwise.extreme_of_all(torch.amax),
    aten.max_pool2d_with_indices.default: windows.max_pool(aten.max_pool2d_with_indices, 2),
    aten.max_pool2d_with_indices_backward.default: windows.max_pool_backward,
    aten.max_pool3d_with_indices.default: windows.max_pool(aten.max_pool3d_with_indices, 3),
    aten.max_pool3d_with_indices_backward.default: windows.max_backward(3),
    aten.lstm.input: whole_layers.layers(whole_layers.LSTM),
    aten.masked_fill.Scalar: _either(
        complex_numbers.placed(torch.masked_fill, 0, 2), formulas.with_truth(torch.masked_fill, 2)
    ),
    aten.masked_scatter.default: masked_places.put_in_order,
    aten.masked_scatter_backward.default: masked_places.taken_in_order,
    aten.masked_select.default: masked_places.selected,
    aten.maximum.default: elementwise.extreme(torch.gt),
    aten.mean.default: _either(complex_numbers.linear(torch.mean), halves.in_f32(torch.mean), formulas.mean_as),
    aten.mean.dim: _either(complex_numbers.linear(torch.mean), halves.in_f32(torch.mean), formulas.mean_as),
    aten.median.default: formulas.median_of_all,
    aten.median.dim: formulas.median,
    aten.min.default: elementwise.extreme_of_all(torch.amin),
    aten.minimum.default: elementwise.extreme(torch.lt),
    aten.mode.default: formulas.mode,
    aten.mul.Scalar: _either(halves.by_number(torch.mul), complex_numbers.product),
    aten.mul.Tensor: _either(halves.by_number(torch.mul), complex_numbers.product, formulas.product),
    aten.nanmedian.default: formulas.median_of_all_numbers,
    aten.nanmedian.dim: formulas.median_of_numbers,
    aten.native_dropout.default: formulas.dropout,
    aten.native_group_norm.default: halves.norm_in_f32(aten.native_group_norm.default),
    aten.native_layer_norm.default: halves.norm_in_f32(aten.native_layer_norm.default),
    aten.ne.Scalar: _either(complex_numbers.different, elementwise.comparison(aten.ne.Scalar)),
    aten.neg.default: _either(complex_numbers.linear(torch.neg), elementwise.negative),
    aten.new_empty_strided.default: places_in_memory.room_like,
    aten.nextafter.default: functions.next_number,
    aten.polygamma.default: functions.polygamma,
    aten.pow.Scalar: _either(complex_numbers.power, elementwise.power),
    aten.pow.Tensor_Scalar: _either(complex_numbers.power, elementwise.power),
    aten.pow.Tensor_Tensor: _either(complex_numbers.power, elementwise.power),
    aten.put.default: masked_places.put,
    aten.rand_like.default: formulas.like(aten.uniform.default),
    aten.randint_like.default: formulas.like(aten.random.to),
    aten.randint_like.low_dtype: formulas.like(formulas.between),
    aten.randn_like.default: formulas.like(aten.normal_functional.default),
    aten.reciprocal.default: _either(complex_numbers.function(complex_functions.reciprocal), elementwise.inverse),
    aten.remainder.Scalar: elementwise.floor_remainder,
    aten.remainder.Scalar_Tensor: elementwise.floor_remainder,
    aten.remainder.Tensor: elementwise.floor_remainder,
    aten.replication_pad1d_backward.default: windows.replication_pad_backward,
    aten.replication_pad2d_backward.default: windows.replication_pad_backward,
    aten.replication_pad3d_backward.default: windows.replication_pad_backward,
    aten.scatter.reduce: formulas.scatter_reduced,
    aten.scatter.value_reduce: formulas.scatter_reduced,
    aten.searchsorted.Scalar: functions.places_in_order,
    aten.searchsorted.Tensor: functions.places_in_order,
    aten.rnn_relu.input: whole_layers.layers(whole_layers.RELU),
    aten.rnn_tanh.input: whole_layers.layers(whole_layers.TANH),
    aten.rsub.Scalar: elementwise.difference_from_number,
    aten.select_scatter.default: _either(
        complex_numbers.placed(aten.select_scatter.default, 0, 1), masked_places.put_row
    ),
    aten.signbit.default: functions.has_sign,
    aten.soft_margin_loss_backward.default: elementwise.soft_margin_loss_backward,
    aten.softplus.default: halves.by_number(aten.softplus.default),
    aten.sort.default: formulas.sort,
    aten.sort.stable: formulas.stable_sort,
    aten.special_erfcx.default: functions.scaled_remaining_error,
    aten.special_i0e.default: functions.bessel(0, is_scaled=True),
    aten.special_i1.default: functions.bessel(1, is_scaled=False),
    aten.special_i1e.default: functions.bessel(1, is_scaled=True),
    **{getattr(aten.special_zeta, kind): functions.zeta for kind in aten.special_zeta.overloads() if "out" not in kind},
    aten.split_with_sizes.default: formulas.parts,
    aten.squeeze.dim: formulas.kept_where_open,
    aten.squeeze.dims: formulas.squeeze,
    aten.threshold.default: elementwise.above,
    aten.topk.default: formulas.topk,
    aten.sub.Tensor: _either(complex_numbers.linear(torch.sub), elementwise.difference),
    aten.sum.default: _either(complex_numbers.linear(torch.sum), halves.in_f32(torch.sum), formulas.total),
    aten.sum.dim_IntList: _either(complex_numbers.linear(torch.sum), halves.in_f32(torch.sum), formulas.total),
    aten.unfold_backward.default: windows.overlapping_sum,
    aten.upsample_bilinear2d.default: sampling.bilinear,
    aten.upsample_bilinear2d.vec: sampling.bilinear,
    aten.upsample_nearest2d.default: sampling.nearest,
    aten.upsample_nearest2d.vec: sampling.nearest,
    aten.var_mean.correction: _either(complex_numbers.variance_and_mean, halves.norm_in_f32(aten.var_mean.correction)),
    aten.where.default: masked_places.held,
    aten._upsample_bicubic2d_aa.default: sampling.smooth(sampling.cubic),
    aten._upsample_bicubic2d_aa_backward.default: sampling.smooth_backward(sampling.cubic),
    aten._upsample_bilinear2d_aa.default: sampling.smooth(sampling.tent),
    aten._upsample_bilinear2d_aa_backward.default: sampling.smooth_backward(sampling.tent),
    aten._transformer_encoder_layer_fwd.default: whole_layers.encoder_layer,
    aten._to_copy.default: _either(complex_numbers.converted, formulas.converted),
    aten._unsafe_view.default: formulas.view,
    aten._weight_norm_interface_backward.default: formulas.weight_norm_backward,
    aten.view.default: formulas.view,
    aten.view.dtype: formulas.of_scalars(aten.view.dtype),
    torch.ops.prims.copy_strided.default: places_in_memory.laid_out,
    torch.ops.prims.fma.default: formulas.multiply_add,
}


# Ops of packages, which are there once these are imported.
OF_PACKAGES: dict[str, dict[str, Callable[..., Any]]] = {
    "quantized_decomposed": {
        "choose_qparams.tensor": quantized.choose_range,
        "choose_qparams_symmetric.tensor": quantized.choose_symmetric_range,
        "quantize_per_channel_group.default": quantized.quantize_groups,
        **{f"quantize_per_tensor.{kind}": quantized.quantize for kind in ("default", "tensor", "tensor2")},
        **{f"dequantize_per_tensor.{kind}": quantized.dequantize for kind in ("default", "tensor", "tensor2")},
    },
    "transformers": {
        "grouped_mm_fallback.default": products.grouped_product,
        "grouped_mm_fallback_backward.default": products.grouped_product_backward,
    },
}


@functools.cache
def _table() -> Table:
    whole = {getattr(packet, name) for packet in WHOLE for name in packet.overloads()}
    core = {op: body for op, body in core_aten_decompositions().items() if op not in whole}
    own = {op: places_in_memory.as_in_eager(op, body) for op, body in OWN.items()}
    return core | get_decompositions(APART) | own


def table() -> Table:
    """What aot_autograd takes apart, by op."""
    found: Table = {}
    for package, bodies in OF_PACKAGES.items():
        ops = getattr(torch.ops, package)
        for name, body in bodies.items():
            op, kind = name.split(".")
            if hasattr(ops, op):
                found[getattr(getattr(ops, op), kind)] = body
    return _table() | found


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """PyTorch's own ops in place of oneDNN's, and no checks of whether matrices have factors, which raise errors.

    `mkldnn.flags` would set TF32, too, which PyTorch warns of.
    """
    enabled = torch.backends.mkldnn.set_flags(False, _fp32_precision=None)[0]
    checked = _get_effect(aten._linalg_check_errors.default)
    _register_effectful_op(aten._linalg_check_errors.default, None)
    try:
        yield
    finally:
        _register_effectful_op(aten._linalg_check_errors.default, checked)
        torch.backends.mkldnn.set_flags(enabled, _fp32_precision=None)


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """A program with such ops only. PyTorch copies its trees here in a way that it warns of itself.

    Raises OpspliceError where PyTorch cannot do it, as for a buffer with a name that its own graphs have.
    """
    with warnings.catch_warnings(), plainly():
        warnings.filterwarnings("ignore", r".*treespec, LeafSpec", FutureWarning)
        try:
            return program.run_decompositions(table())
        except (OpspliceError, MemoryError):
            raise
        except Exception as error:  # it builds a module of the program and traces it, which raises whatever it meets
            raise OpspliceError(
                "PyTorch cannot take the program apart",
                details=f"{type(error).__name__}: {error}",
                hint="`run_decompositions()` of the exported program fails alike: change the model there",
            ) from error
