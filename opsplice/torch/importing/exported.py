"""Exported programs as one MLIR module, with their weights beside it.

    util.global private @layer.weight = #flow.parameter.named<"model"::"layer.weight"> : tensor<64x64xf32>

A weight has the name that its model gives it, so that an archive with a checkpoint of the model fits, too. A tensor
that several names or functions share is one weight.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from iree.compiler import ir
from iree.compiler.extras.fx_importer import (
    TORCH_DTYPE_TO_MLIR_TYPE,
    FxImporter,
    FxImporterHooks,
    GraphNodeImporter,
    InputInfo,
)
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, OutputSpec
from torch.utils import _pytree

from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.frontends.declarations import declare_function
from opsplice.frontends.parameters import variable
from opsplice.matchers.dims.input_sizes import Size, Sizes
from opsplice.rewrites.ir import emit
from opsplice.runtime.value_text import ELEMENT_TYPES
from opsplice.runtime.weights import Arrays
from opsplice.torch.importing.control_flow import NodeImporter
from opsplice.torch.importing.fx_graph import prepare
from opsplice.torch.importing.higher_order import write_out
from opsplice.torch.importing.refusals import check_effects
from opsplice.torch.importing.tensor_parameters import array_of, torch_tensor

# Buffers and constants of so many bytes stand in the module, where the compiler computes with them. Parameters never
# do: the model's next checkpoint may have others.
LARGEST_LITERAL = 1024
# Of these, those of zeros alone do, too, whatever their size: the zero points of quantised weights.
_WIDE_INTEGERS = (torch.int32, torch.int64)
# The bytes of an f32.
_WORD = 4


def import_programs(programs: Mapping[str, ExportedProgram]) -> ModuleSource:
    """A module with a function for each program, by name; its `parameters` are the programs' own tensors, not copies.

    An input that a program changes in place comes back as a result, after its own. A buffer that it changes is a
    variable of the module, which keeps its value between calls. None: no result. Changes the programs' signatures.

    Raises OpspliceError for what IREE's importer does not take.
    """
    weights = _Weights(programs.values())
    importer = FxImporter(hooks=weights, graph_node_importer_cls=_NodeImporter)
    for name, program in programs.items():
        check_effects(program.graph)
        outputs = _return_changes(program)
        write_out(program.graph_module, program.graph)
        prepare(program.graph_module, program.graph)
        symbolic = bool(program.range_constraints)
        try:
            function = importer.import_program(program, func_name=name, import_symbolic_shape_expressions=symbolic)
        except (NotImplementedError, TypeError, KeyError, AssertionError, RuntimeError) as error:
            raise OpspliceError(f"IREE does not import the exported function '{name}'", details=str(error)) from error
        _describe(function, program, outputs)
    found = (Arrays(weights.arrays),) if weights.arrays else ()
    return ModuleSource(content=emit.bytecode(importer.module_op), parameters=found)


def _return_changes(program: ExportedProgram) -> list[str]:
    """Let a program return the inputs that it changes, and no None. Returns the names of its results."""
    signature = program.graph_signature
    names = iter(_paths(program.call_spec.out_spec))
    results: list[tuple[str, OutputSpec]] = []
    changed: list[tuple[str, OutputSpec]] = []
    others: list[OutputSpec] = []
    for spec in signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT:
            name = next(names, "")
            if not (isinstance(spec.arg, ConstantArgument) and spec.arg.value is None):
                results.append((name or f"output{len(results)}", spec))
        elif spec.kind == OutputKind.USER_INPUT_MUTATION:
            changed.append((str(spec.target), OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None)))
        else:
            others.append(spec)
    signature.output_specs[:] = [*others, *(spec for _, spec in (*results, *changed))]
    return [name for name, _ in (*results, *changed)]


def _paths(tree: _pytree.TreeSpec) -> list[str]:
    """The names of a tree's leaves: `logits`, `cache.0`; the only leaf of a tree that is one has none."""
    leaves, _ = _pytree.tree_flatten_with_path(_pytree.tree_unflatten(range(tree.num_leaves), tree))
    return [".".join(_pytree.keystr((key,)).strip("[].'\"<>") for key in path) for path, _ in leaves]


def _describe(function: ir.Operation, program: ExportedProgram, outputs: Sequence[str]) -> None:
    """Note what the function takes and gives by the names that the model has for it, and the sizes of its inputs."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    inputs = [name for name in program.graph_signature.user_inputs if isinstance(name, str) and name in placeholders]
    limited = ((symbol, limits) for symbol, limits in program.range_constraints.items() if limits.lower.is_Integer)
    bounds = {str(symbol): _bounds(limits) for symbol, limits in limited}
    shapes = [getattr(placeholders[name].meta["val"], "shape", ()) for name in inputs]
    sizes = Sizes([[_size(dim, bounds) for dim in shape] for shape in shapes], bounds) if bounds else None
    declare_function(function, inputs, outputs, sizes)


def _bounds(limits: Any) -> tuple[int, int | None]:
    # What has no limit has one that is not a number, or no int of the machine's.
    high = int(limits.upper) if limits.upper.is_Integer and limits.upper < torch.iinfo(torch.int64).max else None
    return int(limits.lower), high


def _size(dim: Any, bounds: Mapping[str, Any]) -> Size | None:
    if isinstance(dim, int):
        return None
    expression = dim.node.expr
    symbols = sorted(expression.free_symbols, key=str)
    if len(symbols) != 1 or str(symbols[0]) not in bounds:
        return None
    factor = expression.coeff(symbols[0])
    offset = expression - factor * symbols[0]
    return (str(symbols[0]), int(factor), int(offset)) if factor.is_Integer and offset.is_Integer else None


@dataclass(frozen=True)
class _Variable:
    symbol: ir.Attribute
    type: ir.Type


class _Weights(FxImporterHooks):
    """Puts the tensors of programs into variables. arrays: the parameters that these begin as, by name."""

    def __init__(self, programs: Iterable[ExportedProgram]) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        # Of tied weights, checkpoints hold the first.
        self._names: dict[tuple[Any, ...], str] = {}
        self._changed: set[tuple[Any, ...]] = set()
        for program in programs:
            held = {**program.state_dict, **program.constants}
            for name, tensor in held.items():
                if isinstance(tensor, torch.Tensor):
                    self._names.setdefault(_identity(tensor), name)
            self._changed |= {_identity(held[name]) for name in program.graph_signature.buffers_to_mutate.values()}
        self._variables: dict[tuple[Any, ...], _Variable] = {}
        # IREE's importer knows tensors by their ids, which are those of others once they are gone.
        self._kept: list[torch.Tensor] = []

    def prepare_module(self, module_op: ir.Operation) -> None:
        self._body = module_op.regions[0].blocks[0]

    def resolve_input(self, gni: GraphNodeImporter, value: Any, info: InputInfo) -> ir.Value | None:
        may_be_literal = info.input_spec.kind != InputKind.PARAMETER and _identity(value) not in self._changed
        if may_be_literal and value.dtype in _WIDE_INTEGERS and not value.any():
            return _written(gni, value, "0")
        if may_be_literal and _can_be_literal(value):
            return None
        return self.load(gni, value)

    def resolve_literal(self, gni: GraphNodeImporter, literal: Any, info: InputInfo | None) -> ir.Value | None:
        if not isinstance(literal, torch.Tensor):
            return None
        self._kept.append(literal)
        if not _can_be_literal(literal):
            return self.load(gni, literal)
        return _written(gni, literal) if literal.is_floating_point() and literal.itemsize < _WORD else None

    def load(self, gni: GraphNodeImporter, tensor: torch.Tensor) -> ir.Value:
        """The value of a tensor's variable, which is made if it is not there."""
        key = _identity(tensor)
        if key not in self._variables:
            self._variables[key] = self._define(tensor, self._names.get(key, "constant"), changes=key in self._changed)
        variable = self._variables[key]
        loaded = ir.Operation.create("util.global.load", [variable.type], [], {"global": variable.symbol}).result
        wanted = gni._cc.tensor_to_vtensor_type(tensor)
        return torch_tensor(loaded, wanted)

    def store(self, tensor: torch.Tensor, produced: ir.Value) -> None:
        """Write to a tensor's variable."""
        variable = self._variables[_identity(tensor)]
        value = ir.Operation.create("torch_c.to_builtin_tensor", [variable.type], [produced]).result
        ir.Operation.create("util.global.store", [], [value], {"global": variable.symbol})

    def _define(self, tensor: torch.Tensor, name: str, changes: bool) -> _Variable:
        element = str(TORCH_DTYPE_TO_MLIR_TYPE[tensor.dtype]()).lstrip("su")
        type_ = ir.RankedTensorType.get(tensor.shape, ir.Type.parse(element))
        taken = {each.symbol.value for each in self._variables.values()}
        unique = next(each for n in itertools.count(1) if (each := name if n == 1 else f"{name}.{n}") not in taken)
        array = array_of(tensor, ELEMENT_TYPES[element])
        attributes = variable(unique, type_)
        if changes:
            # A program writes to the memory of a parameter: the model's own, or that of a file.
            attributes |= {"is_mutable": ir.UnitAttr.get(), "initial_value": _literal(array, unique, type_)}
        else:
            self.arrays[unique] = array
        with ir.InsertionPoint.at_block_begin(self._body):
            ir.Operation.create("util.global", attributes=attributes)
        return _Variable(ir.FlatSymbolRefAttr.get(unique), type_)


class _NodeImporter(NodeImporter):
    """Reads what a program changes before it begins, and writes it when all is computed."""

    def lazy_import_buffer(self, loc: ir.Location, node: torch.fx.Node, buffer_value: Any, info: InputInfo) -> None:
        if info.store_producer_node is None:
            super().lazy_import_buffer(loc, node, buffer_value, info)
            return
        with loc, ir.InsertionPoint(self._b):
            self.bind_node_value(node, self._import_input(buffer_value, info))
        self._changes = [*getattr(self, "_changes", ()), (buffer_value, info)]

    def return_node_values(self, loc: ir.Location, nodes: list[Any], constants: dict[int, Any]) -> None:
        for tensor, info in getattr(self, "_changes", ()):
            (producer,) = (node for node in info.program.graph.nodes if node.name == info.store_producer_node)
            with loc, ir.InsertionPoint(self._b):
                self.fx_importer._hooks.store(tensor, self.resolve_node_value(producer))
        super().return_node_values(loc, nodes, constants)


def _identity(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tells a tensor from others that are there: the memory, and how it reads it."""
    return (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())


def _can_be_literal(tensor: torch.Tensor) -> bool:
    # IREE's importer gives literals of bytes the wrong type.
    return tensor.nbytes <= LARGEST_LITERAL and tensor.dtype != torch.uint8


def _written(gni: GraphNodeImporter, tensor: torch.Tensor, number: str | None = None) -> ir.Value:
    """A tensor as a literal with its bits, or of one number: IREE 3.13 does not widen to f32 those that the module
    keeps apart."""
    element = TORCH_DTYPE_TO_MLIR_TYPE[tensor.dtype]()
    bits = number or f'"0x{array_of(tensor, ELEMENT_TYPES[str(element)]).tobytes().hex()}"'
    value = ir.Attribute.parse(f"dense<{bits}> : {ir.RankedTensorType.get(tensor.shape, element)}")
    kind = gni._cc.tensor_to_vtensor_type(tensor)
    return ir.Operation.create("torch.vtensor.literal", [kind], attributes={"value": value}).result


def _literal(array: np.ndarray, name: str, type_: ir.RankedTensorType) -> ir.Attribute:
    values = array.reshape(-1)
    if not values.view(np.uint8).any():
        zero = "false" if array.dtype == np.bool_ else "0" if array.dtype.kind in "iu" else "0.0"
        return ir.Attribute.parse(f"dense<{zero}> : {type_}")
    if array.dtype == np.bool_ or array.size == 1:
        # MLIR packs booleans, and has no resources of rank 0.
        return ir.DenseElementsAttr.get(array, type=type_.element_type, shape=array.shape)
    return ir.DenseResourceElementsAttr.get_from_buffer(values.copy(), name, type_)
