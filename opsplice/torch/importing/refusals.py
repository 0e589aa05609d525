"""What cannot be compiled of a graph, said with the line of the user's Python and what to do about it."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx
from torch._dynamo.exc import ShortenTraceback

from opsplice.common.errors import OpspliceError
from opsplice.pipeline.diagnostics import CONSTANT, unlowered
from opsplice.reports.render import short_location
from opsplice.torch.importing.lines import location_of

_WAYS = (
    "write it with other ops, put it into a function with @torch.compiler.disable, or let PyTorch run such graphs: "
    "options={'fallback': True}"
)
_EXPORTED = "write it with other ops, or leave it to PyTorch: export what comes before and behind it"
_ERROR = re.compile(r"^(\S+?:\d+)(?::\d+)?: error: ", re.MULTILINE)
# Ops without a line are numbered (`frontends/numbering.py`).
_UNPLACED = re.compile(r"^(torch\.aten\S+) number \d+: error: ", re.MULTILINE)


class _Passing(ShortenTraceback):
    """What torch.compile hands on to the user as it is."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, first_useful_frame=None)


class GraphError(OpspliceError, _Passing):
    """A graph, or the options that it is to be compiled with, that the backend does not take."""

    @classmethod
    def of(cls, error: OpspliceError) -> GraphError:
        return cls(error.message, hint=error.hint, details=error.details)


class UnsupportedError(OpspliceError):
    """Something in a graph that only PyTorch can run."""


def check(graph: fx.Graph) -> None:
    """Raise UnsupportedError for the first value of a graph that programs have no type for, or that is elsewhere."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(tensor, torch.Tensor):
                _check_tensor(node, tensor)


def _check_tensor(node: fx.Node, tensor: torch.Tensor) -> None:
    what = f"{location_of(node)}{'an input' if node.op == 'placeholder' else f'the result of {node.target}'}"
    if tensor.device.type != "cpu":
        raise UnsupportedError(
            f"{what} is on the device '{tensor.device}', and programs run on the CPU",
            hint="move the model and its inputs: model.cpu(), x.cpu()",
        )
    if tensor.layout != torch.strided:
        raise UnsupportedError(f"{what} is sparse ({tensor.layout})", hint="use x.to_dense()")


def check_effects(graph: fx.Graph) -> None:
    """Raise UnsupportedError for the first op of a graph that does more than give results, as printing does."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target == torch.ops.higher_order.with_effects:
            what = f"{location_of(node)}{node.args[1]} has effects besides its results"
            raise UnsupportedError(f"{what}, which programs cannot run", hint=_EXPORTED)


def unimportable(error: Exception) -> UnsupportedError:
    """What IREE's importer says of a graph."""
    words = str(error).strip().partition("\n")[0] or type(error).__name__
    return UnsupportedError(f"IREE's importer does not take the graph: {words}", hint=_WAYS)


def uncompilable(error: OpspliceError, graph: fx.GraphModule) -> UnsupportedError:
    """A failure of the compiler with the op that it stands for and the line that asks for it, where they are known."""
    op = unlowered(error.details)
    if not op:
        return UnsupportedError(error.message, hint=error.hint or _WAYS, details=error.details)
    place = _ERROR.search(error.details)
    line = f"{short_location(place[1])}: " if place else ""
    # Of what an op is converted to, IREE names a part: the constants, say, which may have no line.
    is_constant = op.startswith(CONSTANT)
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    nodes = [node for node in calls if (location_of(node) == line if place else is_constant)]
    targets = sorted({f"torch.{node.target}" for node in nodes})
    if unplaced := _UNPLACED.search(error.details):
        op = unplaced[1]
    elif targets and not any(target.startswith(op) for target in targets):
        op = targets[0] if len(targets) == 1 else f"one of {', '.join(targets)}"
    return UnsupportedError(f"{line}IREE has no code for {op}", hint=_WAYS, details=error.details)
