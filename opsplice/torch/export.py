"""`opsplice.torch.export`: a model, ahead of time, as a program that needs no PyTorch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

import opsplice
from opsplice.common.errors import OpspliceError, did_you_mean
from opsplice.torch.backend import FLAGS
from opsplice.torch.decompositions.table import decomposed
from opsplice.torch.importing.exported import import_programs


def export(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Mapping[str, Any] | Sequence[Any] | None = None,
    specs: Iterable[Any] = (),
    flags: Sequence[str] = (),
    **options: Any,
) -> opsplice.Program:
    """Compile a model ahead of time.

    model: a module, a method of one, or a `torch.export.ExportedProgram`; or several that share their weights in one
           program, by the names of its functions: `{"prefill": (model, args), "decode": (model, args, kwargs,
           dynamic)}`. A model alone is the function `main`.
    args, kwargs: an example of what the model is called with. Numbers in them are part of the program; tensors are its
           inputs.
    dynamic: which dims of inputs may have other sizes: `{"x": {0: "batch"}}`. Dims of one name have one size. Where it
           has bounds, write `torch.export.Dim("batch", min=1, max=64)`. Inputs that are trees take trees. Without
           names it has an entry for each input, in their order.
    specs, flags, options: as for `opsplice.compile`.

    The program takes the tensors of args and kwargs, and returns those of the model, in the order of PyTorch's trees;
    `program.functions` says their names. Its parameters are the model's own memory until it is saved: what changes
    there changes the program. A buffer that the model changes is kept in the program from call to call.

    Raises OpspliceError where PyTorch cannot export the model, and what `opsplice.compile` raises.
    """
    methods = model if isinstance(model, Mapping) else {"main": (model, args, kwargs, dynamic)}
    programs = {}
    for name, method in methods.items():
        programs[name] = _exported(name, *(method if isinstance(method, (tuple, list)) else (method,)))
    return opsplice.compile(import_programs(programs), specs, [*FLAGS, *flags], **options)


def _exported(
    name: str,
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Mapping[str, Any] | Sequence[Any] | None = None,
) -> ExportedProgram:
    try:
        if not isinstance(model, ExportedProgram):
            model = _export(model, tuple(args), dict(kwargs or {}), dynamic)
        return decomposed(model)
    except (OpspliceError, MemoryError):
        raise
    except Exception as error:  # PyTorch's tracer raises what the model raises, and kinds of its own
        raise OpspliceError(f"PyTorch cannot export '{name}'", details=str(error).strip()) from error


def _export(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Mapping[str, Any] | Sequence[Any] | None
) -> ExportedProgram:
    module = model if isinstance(model, torch.nn.Module) else _Method(model)
    if module.training:
        warnings.warn(
            f"{type(model).__name__} is exported in training mode, with its dropout: call eval() before", stacklevel=4
        )
    shapes = None if dynamic is None else _shapes(module.forward, args, kwargs, dynamic)
    return torch.export.export(module, args, kwargs, dynamic_shapes=shapes)


class _Method(torch.nn.Module):
    """A module whose forward is a method of another one."""

    def __init__(self, method: Callable[..., Any]) -> None:
        super().__init__()
        owner = getattr(method, "__self__", None)
        if not isinstance(owner, torch.nn.Module):
            raise OpspliceError(
                f"{method!r} is neither a module nor a method of one", hint="wrap it in a torch.nn.Module"
            )
        self.model = owner
        self.train(owner.training)
        self.forward = method


def _shapes(
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Mapping[str, Any] | Sequence[Any],
) -> dict[str, Any]:
    """What torch.export wants to be told of each input."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    names: list[str] = []
    for name in bound.arguments:
        gathers = bound.signature.parameters[name].kind == inspect.Parameter.VAR_KEYWORD
        names += bound.arguments[name] if gathers else [name]
    if not isinstance(dynamic, Mapping):
        if len(dynamic) != len(names):
            raise OpspliceError(
                f"dynamic has {len(dynamic)} entries, and the model is called with {len(names)} inputs",
                hint=f"its inputs are {', '.join(names)}",
            )
        dynamic = dict(zip(names, dynamic, strict=True))
    for name in dynamic:
        if name not in names:
            hint = did_you_mean(name, names) or f"its inputs are {', '.join(names)}"
            raise OpspliceError(f"dynamic names the input '{name}', which the model is not called with", hint=hint)
    dims: dict[str, Any] = {}
    return {name: _dims(dynamic.get(name), dims) for name in names}


def _dims(tree: Any, dims: dict[str, Any]) -> Any:
    """A tree with a dim for each name, the same for the same name."""
    if isinstance(tree, str):
        return dims.setdefault(tree, Dim(tree))
    if isinstance(tree, Mapping):
        return {key: _dims(each, dims) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(_dims(each, dims) for each in tree)
    return tree
