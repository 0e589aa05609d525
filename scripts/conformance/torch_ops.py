"""PyTorch's own samples for its operators (`OpInfo`), forward and backward, through `torch.compile`.

The samples of an operator are one graph. Where that fails, they are tried one by one, for a reason that is theirs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

import opsplice
from opsplice.common.errors import OpspliceError
from scripts.conformance import Case, SkippedError, Specs, WrongError, check_close

TITLE = "PyTorch: samples of operators"
ABOUT = (
    "The samples that PyTorch tests its own operators with (`OpInfo`), up to six of each, through\n"
    '`torch.compile(..., backend="opsplice")`, compared with eager mode, and with eager mode\n'
    "in f64 where that differs. `backward` compares the gradients of the inputs. Differences up to 1e-4 of a value\n"
    "plus 5e-5 are allowed in f32, 2e-2 in f16 and bf16."
)
PACKAGES = ("torch",)

_MOST_SAMPLES = 6
_TOLERANCES = {torch.float32: (1e-4, 5e-5), torch.float16: (2e-2, 2e-2), torch.bfloat16: (2e-2, 2e-2)}
_SHORT = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}

# What the library has patterns for, in halves too.
_LAYERS = """
softmax log_softmax nn.functional.softmin nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm
nn.functional.batch_norm nn.functional.instance_norm nn.functional.gelu nn.functional.silu nn.functional.relu sigmoid
nn.functional.linear addmm matmul bmm mm mv addmv baddbmm addbmm einsum inner dot outer nn.functional.conv1d
nn.functional.conv2d nn.functional.conv3d nn.functional.scaled_dot_product_attention
nn.functional.multi_head_attention_forward
"""
_NEIGHBOURS = """
nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.bilinear nn.functional.embedding
nn.functional.relu6 nn.functional.elu nn.functional.selu nn.functional.celu nn.functional.mish nn.functional.hardswish
nn.functional.hardsigmoid nn.functional.hardtanh nn.functional.leaky_relu nn.functional.prelu nn.functional.softplus
nn.functional.softsign nn.functional.softshrink nn.functional.hardshrink nn.functional.tanhshrink nn.functional.glu
nn.functional.logsigmoid nn.functional.threshold nn.functional.normalize nn.functional.local_response_norm
nn.functional.cosine_similarity nn.functional.cross_entropy nn.functional.nll_loss nn.functional.mse_loss
nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.kl_div
nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.avg_pool1d
nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.max_pool1d nn.functional.max_pool2d
nn.functional.max_pool3d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d nn.functional.interpolate nn.functional.pad
nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.unfold nn.functional.one_hot
nn.functional.grid_sample sum mean prod amax amin max min argmax argmin all any std var std_mean var_mean norm
linalg.vector_norm logsumexp cumsum cumprod cummax cummin logcumsumexp sort argsort topk kthvalue median aminmax
count_nonzero nansum nanmean cat stack hstack vstack chunk split unbind tensor_split narrow select slice_scatter
select_scatter __getitem__ index_select index_add index_copy index_fill index_put gather scatter scatter_add
scatter_reduce take take_along_dim masked_fill masked_select where nonzero tril triu diag diag_embed diagonal trace
repeat repeat_interleave tile expand permute transpose movedim reshape flatten squeeze unsqueeze flip roll rot90
meshgrid unfold view as_strided add sub mul div true_divide floor_divide remainder fmod pow float_power addcmul
addcdiv lerp maximum minimum fmax fmin atan2 hypot copysign clamp clamp_min clamp_max abs neg sign sgn reciprocal sqrt
rsqrt square exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
erfinv ceil floor round trunc frac sinc sigmoid logit xlogy logaddexp logaddexp2 nan_to_num isnan isinf isfinite
isclose eq ne lt le gt ge logical_and logical_or logical_xor logical_not heaviside lgamma digamma signbit deg2rad
rad2deg zeros_like ones_like full_like new_zeros new_full arange linspace eye fill clone contiguous to float half
bfloat16 int long bool searchsorted bucketize cdist cross kron tensordot linalg.multi_dot matrix_exp block_diag
cartesian_prod trapezoid diff
"""


@functools.cache
def cases() -> tuple[Case, ...]:
    layers = _LAYERS.split()
    found = [op for name in dict.fromkeys([*layers, *_NEIGHBOURS.split()]) for op in _named()[name]]
    made = []
    for op in found:
        halves = (torch.float16, torch.bfloat16) if op.name in layers else ()
        for dtype in (torch.float32, *halves):
            if op.supports_dtype(dtype, "cpu"):
                made += _cases_of(op, dtype)
    return tuple(made)


def _named() -> dict[str, list[OpInfo]]:
    named: dict[str, list[OpInfo]] = {}
    for op in op_db:
        named.setdefault(op.name, []).append(op)
    return named


def _cases_of(op: OpInfo, dtype: torch.dtype) -> Iterator[Case]:
    name = f"{op.name}{f'.{op.variant_test_name}' if op.variant_test_name else ''} {_SHORT[dtype]}"
    yield Case(name, functools.partial(_run, op, dtype, False))
    if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
        yield Case(f"{name} backward", functools.partial(_run, op, dtype, True))


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call of an operator: its arguments flat, tensors apart from the rest."""

    op: Callable[..., Any]
    leaves: tuple[Any, ...]
    tree: Any

    @classmethod
    def of(cls, op: OpInfo, sample: Any) -> _Call:
        leaves, tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        return cls(op.op, tuple(leaves), tree)

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def in_double(self) -> _Call:
        leaves = (_doubled(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves)
        return dataclasses.replace(self, leaves=tuple(leaves))

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        results = pytree.tree_leaves(self.op(*args, **kwargs))
        return [result for result in results if isinstance(result, torch.Tensor)]


def _run(op: OpInfo, dtype: torch.dtype, backward: bool, specs: Specs) -> int:
    calls = _calls(op, dtype, backward)
    try:
        return _compared(calls, dtype, backward, specs)
    except (OpspliceError, WrongError, torch._dynamo.exc.TorchDynamoException):
        return sum(_compared([call], dtype, backward, specs) for call in calls)


def _calls(op: OpInfo, dtype: torch.dtype, backward: bool) -> list[_Call]:
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
    step = max(1, len(samples) // _MOST_SAMPLES)
    calls = [_Call.of(op, sample) for sample in samples[::step][:_MOST_SAMPLES]]
    return [call for call in calls if call.tensors or not backward]


def _compared(calls: Sequence[_Call], dtype: torch.dtype, backward: bool, specs: Specs) -> int:
    torch.compiler.reset()
    opsplice.torch.reset()

    def all_of(tensors: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
        return [call(given) for call, given in zip(calls, tensors, strict=True)]

    compiled = torch.compile(all_of, backend="opsplice", dynamic=False, options={"specs": list(specs)})
    wanted, found = (_results(run, calls, backward) for run in (all_of, compiled))
    if not wanted:
        raise SkippedError("it has no results to compare")
    try:
        _check(found, wanted, dtype)
    except WrongError as wrong:
        # Eager is off itself where it adds halves up, or takes sums apart.
        try:
            exact = _results(all_of, [call.in_double() for call in calls], backward)
            _check(
                found,
                [w if e is None or w is None else e.to(w.dtype) for e, w in zip(exact, wanted, strict=True)],
                dtype,
            )
        except (WrongError, RuntimeError):
            raise wrong from None
    return sum(len(graph.report.replacements) for graph in opsplice.torch.reports())


def _check(found: Sequence[Any], wanted: Sequence[Any], dtype: torch.dtype) -> None:
    for result, expected in zip(found, wanted, strict=True):
        if result is None or expected is None:
            if result is not expected:
                raise WrongError("a gradient is missing" if result is None else "a gradient that eager has not")
            continue
        check_close(_array(result), _array(expected), *_TOLERANCES[dtype])


def _results(run: Callable[..., Any], calls: Sequence[_Call], backward: bool) -> list[torch.Tensor | None]:
    tensors = [[t.detach().clone().requires_grad_(t.requires_grad) for t in call.tensors] for call in calls]
    results = [result for each in run(tensors) for result in each]
    if not backward:
        return list(results)
    asked = [tensor for each in tensors for tensor in each if tensor.requires_grad]
    differentiable = [result for result in results if result.requires_grad]
    if not differentiable:
        raise SkippedError("it has no gradients")
    # Gradients that differ from element to element.
    weights = [_slope(result) for result in differentiable]
    return list(torch.autograd.grad(differentiable, asked, weights, allow_unused=True))


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().double().requires_grad_(tensor.requires_grad)


def _slope(like: torch.Tensor) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, like.numel(), dtype=torch.float64).to(like.dtype).reshape(like.shape)


def _array(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach()
    if tensor._is_zerotensor():
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()
