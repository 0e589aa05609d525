"""Why patterns match in a model or do not, at the lines of its Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_sources import PackageOptions, SpecPath
from opsplice.pipeline.flags import for_this_cpu
from opsplice.reports.explanation import Explanation
from opsplice.torch.backend import FLAGS
from opsplice.torch.calls.background import unboxed
from opsplice.torch.decompositions.table import table
from opsplice.torch.importing.fx_graph import import_graph
from opsplice.torch.importing.refusals import check


def explain(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    specs: Iterable[SpecPath],
    flags: Sequence[str] = (),
    pattern: str | None = None,
    at: str | None = None,
    packages: PackageOptions | None = None,
) -> Explanation:
    """Why the patterns of specs match in a module or function, called with `args` and `kwargs`, or do not.

    at: only at these ops: a line of the Python, `model.py:41`. The others are as for `opsplice.explain`. What
    torch.compile makes of the model is looked at, without gradients, and PyTorch runs it once.

    Raises what `opsplice.explain` raises, and OpspliceError for what cannot be compiled.
    """
    from opsplice.compiling.explaining import joined  # it loads the compiler

    specs = (specs,) if isinstance(specs, (str, os.PathLike)) else tuple(specs)
    flags = for_this_cpu((*FLAGS, *flags))
    told, missing = [], OpspliceError("the model computes nothing that torch.compile could hand over")
    for graph in _graphs(model, args, kwargs or {}):
        try:
            told.append(opsplice.explain(graph, specs, flags, pattern=pattern, at=at, packages=packages))
        except OpspliceError as error:  # what is pointed at may be in another graph
            if at is None:
                raise
            missing = error
    if not told:
        raise missing
    return joined(told)


def _graphs(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[bytes]:
    """The graphs that torch.compile makes of a call, as bytecode."""
    found = []

    def keep(module: fx.GraphModule, _inputs: Sequence[Any]) -> Any:
        check(module.graph)
        graph = import_graph(module)
        if not graph.is_empty:
            found.append(graph.bytecode)
        return unboxed(module.forward)

    with torch.no_grad():
        torch.compile(model, backend=aot_autograd(fw_compiler=keep, decompositions=table()))(*args, **kwargs)
    return found
