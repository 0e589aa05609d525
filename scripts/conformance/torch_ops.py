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
    "The samples that PyTorch tests its own operators with (`OpInfo`), up to six of each in f32 and two in other\n"
    'dtypes, through `torch.compile(..., backend="opsplice")`, compared with eager mode, and with eager mode in f64\n'
    "where that differs. `backward` compares the gradients of the inputs, in f32, and in halves for layers. Allowed\n"
    "are differences up to 1e-4 of a value plus 5e-5 in f32 and c64, 2e-2 in f16 and bf16, 1e-7 in f64, and none in\n"
    "integers. Left out are operators whose results PyTorch does not define, such as `empty`, and those of CUDA alone."
)
PACKAGES = ("torch",)

_MOST_SAMPLES, _MOST_SAMPLES_OF_OTHERS = 6, 2
_SHORT = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.complex64: "c64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.bool: "bool",
}
_HALVES = (torch.float16, torch.bfloat16)
# The types that numpy has none of.
_WIDER = {**dict.fromkeys(_HALVES, torch.float32), torch.complex32: torch.complex64}
_TOLERANCES = {
    torch.float32: (1e-4, 5e-5),
    torch.complex64: (1e-4, 5e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    **dict.fromkeys(_HALVES, (2e-2, 2e-2)),
}

# What the library has patterns for: gradients in halves, too.
_LAYERS = """
softmax log_softmax nn.functional.softmin nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm
nn.functional.batch_norm nn.functional.instance_norm nn.functional.gelu nn.functional.silu nn.functional.relu sigmoid
nn.functional.linear addmm matmul bmm mm mv addmv baddbmm addbmm einsum inner dot outer nn.functional.conv1d
nn.functional.conv2d nn.functional.conv3d nn.functional.scaled_dot_product_attention
nn.functional.multi_head_attention_forward
"""
# What PyTorch says nothing of the order of equal elements of, unless it is asked to keep it.
_STABLE = ("sort", "argsort")
# Memory as it happens to be, and kernels that PyTorch compiles for CUDA while it runs.
_LEFT_OUT = ("empty", "new_empty", "jiterator", "resize_", "resize_as_")


@functools.cache
def cases() -> tuple[Case, ...]:
    """Those of an operator in turn."""
    return tuple(Case(sampled.name, functools.partial(_run, sampled)) for op in op_db for sampled in _of(op))


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """An operator, with the samples that PyTorch makes of a dtype."""

    op: OpInfo
    dtype: torch.dtype
    backward: bool = False

    @property
    def name(self) -> str:
        variant = f".{self.op.variant_test_name}" if self.op.variant_test_name else ""
        return f"{self.op.name}{variant} {_SHORT[self.dtype]}{' backward' if self.backward else ''}"

    def calls(self) -> list[_Call]:
        torch.manual_seed(0)
        samples = list(self.op.sample_inputs("cpu", self.dtype, requires_grad=self.backward))
        most = _MOST_SAMPLES if self.dtype == torch.float32 else _MOST_SAMPLES_OF_OTHERS
        calls = [_Call.of(self.op, sample, self.dtype) for sample in samples[:: max(1, len(samples) // most)][:most]]
        return [call for call in calls if call.tensors or not self.backward]


def _of(op: OpInfo) -> Iterator[_Sampled]:
    if op.name.startswith(_LEFT_OUT):
        return
    for dtype in _SHORT:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        yield _Sampled(op, dtype)
        is_asked = dtype == torch.float32 or (dtype in _HALVES and op.name in _LAYERS.split())
        if is_asked and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
            yield _Sampled(op, dtype, backward=True)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call of an operator on a dtype: its arguments flat, tensors apart from the rest.

    shown: what PyTorch makes of results that are only known up to a sign or a phase, such as singular vectors.
    """

    op: Callable[..., Any]
    leaves: tuple[Any, ...]
    tree: Any
    shown: Callable[[Any], Any]
    dtype: torch.dtype

    @classmethod
    def of(cls, op: OpInfo, sample: Any, dtype: torch.dtype) -> _Call:
        args, named = sample.args, sample.kwargs
        if op.name in _STABLE:
            args, named = (), {"stable": True, **dict(zip(("dim", "descending"), args, strict=False)), **named}
        leaves, tree = pytree.tree_flatten(((sample.input, *args), named))
        return cls(op.op, tuple(leaves), tree, sample.output_process_fn_grad, dtype)

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
        results = pytree.tree_leaves(self.shown(self.op(*args, **kwargs)))
        return [result for result in results if isinstance(result, torch.Tensor)]


def _run(sampled: _Sampled, specs: Specs) -> int:
    calls = sampled.calls()
    try:
        return _compared(calls, sampled.backward, specs)
    except (OpspliceError, WrongError, torch._dynamo.exc.TorchDynamoException):
        return sum(_compared([call], sampled.backward, specs) for call in calls)


def _compared(calls: Sequence[_Call], backward: bool, specs: Specs) -> int:
    torch.compiler.reset()
    opsplice.torch.reset()

    compiled = torch.compile(_all, backend="opsplice", dynamic=False, options={"specs": list(specs)})
    wanted, found = (_results(run, calls, backward) for run in (_all, compiled))
    if not any(wanted):
        raise SkippedError("it has no results to compare")
    for number, call in enumerate(calls):
        try:
            _check(found[number], wanted[number], call.dtype)
        except WrongError as wrong:
            # Eager is off itself where it adds halves up, or takes sums apart.
            try:
                exact = _results(_all, [call.in_double()], backward)[0]
                pairs = zip(exact, wanted[number], strict=True)
                near = [w if e is None or w is None else e.to(w.dtype) for e, w in pairs]
                _check(found[number], near, call.dtype)
            except (WrongError, RuntimeError):
                raise wrong from None
    return sum(len(graph.report.replacements) for graph in opsplice.torch.reports())


def _check(found: Sequence[Any], wanted: Sequence[Any], dtype: torch.dtype) -> None:
    for result, expected in zip(found, wanted, strict=True):
        if result is None or expected is None:
            if result is not expected:
                raise WrongError("a gradient is missing" if result is None else "a gradient that eager has not")
            continue
        limits = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in (dtype, expected.dtype)]
        check_close(_array(result), _array(expected), *max(limits))


def _all(calls: Sequence[_Call], tensors: Sequence[Sequence[torch.Tensor]]) -> list[list[torch.Tensor]]:
    return [call(given) for call, given in zip(calls, tensors, strict=True)]


def _results(run: Callable[..., Any], calls: Sequence[_Call], backward: bool) -> list[list[torch.Tensor | None]]:
    """The results of each call, or the gradients of its inputs, those of the first one at first."""
    tensors = [[_copy(each) for each in call.tensors] for call in calls]
    torch.manual_seed(0)
    results = run(calls, tensors)
    if not backward:
        return [list(each) for each in results]
    made = [result for each in results for result in each if result.requires_grad]
    if not made:
        raise SkippedError("it has no gradients")
    asked = [tensor for each in tensors for tensor in each if tensor.requires_grad]
    # Gradients that differ from element to element.
    gradients = iter(torch.autograd.grad(made, asked, [_slope(result) for result in made], allow_unused=True))
    return [[next(gradients) for tensor in each if tensor.requires_grad] for each in tensors]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """With all of the memory that it is a part of, which operators such as `as_strided` read."""
    if tensor.layout != torch.strided:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    whole = tensor.detach().untyped_storage().clone()
    copy = torch.empty(0, dtype=tensor.dtype).set_(whole, tensor.storage_offset(), tensor.shape, tensor.stride())
    return copy.requires_grad_(tensor.requires_grad)


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    wide = torch.promote_types(tensor.dtype, torch.float64)
    return tensor.detach().to(wide).requires_grad_(tensor.requires_grad)


def _slope(like: torch.Tensor) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, like.numel(), dtype=torch.float64).to(like.dtype).reshape(like.shape)


def _array(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach().to_dense().resolve_conj().resolve_neg()
    if tensor._is_zerotensor():
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    return tensor.to(_WIDER.get(tensor.dtype, tensor.dtype)).numpy()
