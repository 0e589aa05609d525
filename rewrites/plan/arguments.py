"""What a kernel is called with at a match: the values and scalars of its arguments, the sizes of its results."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.dims.extents import ZERO
from opsplice.matchers.dims.layouts import Layout
from opsplice.matchers.ir.tensor_values import defining_op, element_type, is_tensor
from opsplice.matchers.search import uses
from opsplice.matchers.search.matches import Binding, Match, Size, flat, paired
from opsplice.matchers.terms.canonical import WIDENINGS
from opsplice.matchers.terms.terms import DimSize
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.layouts import strides
from opsplice.rewrites.plan import known_sizes, layout_words
from opsplice.rewrites.plan.actions import Argument, Buffer, KernelCall, Output, Scalar, SumSize, Written, Zeros, passed
from opsplice.spec_lang.checking.computed_arguments import pattern_of
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.dims.pack_places import places
from opsplice.spec_lang.syntax import tree, vocabulary

# The MLIR for a rule that puts another pattern in the place of its own, or for what it computes for its kernel.
CodeWriter = Callable[[Match, tree.Rule, tree.Computed | None], Written]

NOT_DENSE = "is not a value of the program by itself"


class LeaveError(Exception):
    """Raised inside the planner: this match cannot have this rule's kernel, for the reason in the message."""


def check_condition(
    views: Views, where: tree.Condition | None, match: Match, whose: str, sizes: judge.Sizes | None = None
) -> None:
    """sizes: those of the dims that the condition speaks of, by default the match's."""
    sizes = match.static_dims(views) if sizes is None else sizes
    own = partial(uses.judge, views, match)
    asked = None if where is None else dim_conditions.without(where, partial(uses.is_left_out, match))
    if asked is None or judge.holds(asked, sizes, own):
        return
    failed = judge.first_failure(asked, sizes, own)
    shown = ", ".join(f"{n} = {judge.shown(sizes.get(n))}" for n in sorted(dim_conditions.numbers_in(failed)))
    raise LeaveError(f"{whose} condition `{failed.span.written}` does not hold{f': {shown}' if shown else ''}")


@dataclass(eq=False)
class Signature:
    """A kernel's signature against a match: arguments, dims and types bound."""

    match: Match
    rule: tree.Rule
    kernel: tree.Kernel
    views: Views
    write: CodeWriter
    launch: Callable[[tree.Launch], KernelCall]
    made: dict[tree.Argument, Written | KernelCall] = field(default_factory=dict)
    dims: dict[str, Size | tuple[Size, ...]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.variables = {v.name: v for v in self.kernel.type_variables}
        self.given = passed(self.match, self.rule, self.kernel)

    def call(self, inner: bool = False) -> KernelCall:
        """inner: whether another kernel is given what this one makes."""
        self._bind_all()
        results = self.kernel.made
        # What is made may say what a type and a dim is.
        made = [*(map(self._given_on, results) if inner else itertools.starmap(self._output, enumerate(results)))]
        of_result = dict(zip(results, made, strict=True))
        outputs = tuple(of_result.get(each) or self._scratch(each) for each in self.kernel.results)
        arguments = [self._argument(p, self.given[p.name]) for p in self.kernel.parameters]
        zeroed, outputs = self._zeroed(outputs)
        sizes = {n: known_sizes.numbers(self.views, s) for n, s in self.dims.items()}
        ranks = {f"rank({name})": len(size) for name, size in sizes.items() if isinstance(size, tuple)}
        for where in dim_conditions.conjuncts(self.kernel.where):
            if not strides.is_asked(where):
                self._check(where, {**sizes, **ranks})
        call = self._made([*arguments, *zeroed], outputs, self._in_order())
        laid_out = strides.nearest(self.views, call)
        if laid_out is None:
            raise LeaveError(
                "a pack's dims lie apart in one input and together in another, with sizes only known later"
            )
        if unmet := strides.unmet(laid_out):
            raise LeaveError(f"kernel {self.kernel.name}'s condition {unmet}")
        if apart := strides.apart(laid_out):
            raise LeaveError(f"{apart}: `copied` makes a copy")
        return laid_out

    def _bind_all(self) -> None:
        for parameter in self.kernel.parameters:
            self._bind(parameter, self.given[parameter.name])

    def _check(self, where: tree.Condition | None, sizes: judge.Sizes) -> None:
        """Raise LeaveError for a condition of the kernel that does not hold. sizes: of what it names besides types."""
        types = {f"bits({name})": vocabulary.bits(element) for name, element in self.types.items()}
        check_condition(self.views, where, self.match, f"kernel {self.kernel.name}'s", {**sizes, **types})

    def _made(
        self,
        arguments: Sequence[Buffer | Scalar],
        outputs: tuple[Output, ...],
        dims: Mapping[str, Size | tuple[Size, ...]],
    ) -> KernelCall:
        symbol = self.kernel.symbol or self.kernel.name
        for name, element in self.types.items():
            symbol = symbol.replace("{" + name + "}", element)
        types = {} if self.kernel.is_scalar else self.types
        return KernelCall(self.match, self.rule, self.kernel, symbol, tuple(arguments), outputs, dims, types=types)

    def _zeroed(self, outputs: Sequence[Output]) -> tuple[list[Buffer], tuple[Output, ...]]:
        """The buffers of zeros that results are written over, and the results."""
        buffers, made = [], []
        for result, output in zip(self.kernel.results, outputs, strict=True):
            if result.type is not None and result.type.zeroed:
                name = f"0 {result.name}"  # no parameter's
                buffers.append(Buffer(name, Zeros(output), output.element, output.shape))
                output = dataclasses.replace(output, alias=name)
            made.append(output)
        return buffers, tuple(made)

    def _in_order(self) -> dict[str, Size | tuple[Size, ...]]:
        """The dims in the order of the signature, also where an optional buffer that names them is left out."""
        kinds = [p.type for p in self.kernel.parameters] + [r.type for r in self.kernel.results]
        dims = [dim.name for kind in kinds if kind is not None for dim in kind.dims]
        return {name: self.dims[name] for name in dict.fromkeys(dims) if name is not None}

    def scalar_call(self) -> KernelCall:
        """A call for each element. Its dims are those of the pattern that it is told, which are arguments."""
        (root,), (sizes,) = self.match.roots, self.match.root_sizes
        if any(isinstance(s, DimSize) and s.value == root for s in sizes):
            raise LeaveError("the size of its result depends on no input")
        self._bind_all()
        result, made = self.kernel.results[0].type, element_type(root)
        assert isinstance(result, tree.ScalarType)
        self._bind_type(result, made, "the result")
        self.dims = {
            arg.name: self.match.dims[arg.name]
            for arg in self.rule.args
            if isinstance(arg, tree.Name) and arg.name not in self.match.inputs
        }
        self._check(self.kernel.where, {})
        arguments = [self._element_argument(p, self.given[p.name]) for p in self.kernel.parameters]
        return self._made(arguments, (Output(root, sizes, made, ()),), self.dims)

    def _element_argument(self, parameter: tree.Parameter, arg: tree.Argument) -> Buffer | Scalar:
        if isinstance(arg, tree.Name) and arg.name in self.match.shapes:
            binding = self.match.inputs[arg.name]
            if binding.value is not None:
                self._check_same_count(arg.name)
                return Buffer(parameter.name, binding.value, binding.element, ())
        return self._argument(parameter, arg)

    def _check_same_count(self, name: str) -> None:
        """An argument has as many elements as the result. The checker has compared their dims by name."""
        own, wanted = known_sizes.product(flat(self.match.shapes[name])), known_sizes.product(self.match.root_sizes[0])
        if own is not None and wanted is not None and own != wanted:
            raise LeaveError(f"{name} has {own} elements, and the result has {wanted}")

    def _bind(self, parameter: tree.Parameter, arg: tree.Argument) -> None:
        """Learn dims and types from an argument that is a value of the program."""
        if isinstance(parameter.type, tree.TensorType):
            self._bind_buffer(parameter.type, arg)
        elif isinstance(arg, tree.Name) and arg.name in self.match.inputs:
            binding, wanted = self.match.inputs[arg.name], self.types.get(parameter.type.name, parameter.type.name)
            if binding.constant is None or not vocabulary.is_wider_float(wanted, binding.element):
                self._bind_type(parameter.type, binding.element, arg.name)

    def _bind_buffer(self, kind: tree.TensorType, arg: tree.Argument) -> None:
        if lacking := self._lacking(arg):
            if not kind.optional:
                name = self.kernel.name
                raise LeaveError(f"it has no {lacking}, and kernel {name}'s buffer is not `optional`")
            return
        if isinstance(arg, (tree.Computed, tree.Launch)):
            made = self.made[arg] = self._written(arg) if isinstance(arg, tree.Computed) else self.launch(arg)
            tensor = made if isinstance(made, Written) else made.made[0]
            self._bind_dims(kind, tensor.element, tensor.sizes, f"`{arg.span.written}`")
            return
        assert isinstance(arg, tree.Name), "the checker passes only inputs to buffers"
        if arg.name not in self.match.shapes:
            self.made[arg] = made = self._in_tensor(arg, kind.element)
            self._bind_dims(kind, made.element, (), arg.name)
            return
        self._bind_dims(kind, self.match.inputs[arg.name].element, self.match.shapes[arg.name], arg.name)

    def _in_tensor(self, arg: tree.Name, element: tree.ScalarType) -> Written:
        """A scalar as a tensor without dims."""
        default, binding = self._default(arg), self.match.inputs.get(arg.name)
        if binding is None:
            assert default is not None, "the match has it"
            binding = Binding(constant=default.value, element=self.types.get(element.name, element.name))
        elif binding.value is not None:
            binding = _held(binding, arg.name)
        kind = f"tensor<{binding.element}>"
        return Written(arg.span, (Argument(arg.name, kind, binding),), (), f"%{arg.name}", kind)

    def _default(self, arg: tree.Name) -> tree.Literal | None:
        """What a scalar of the pattern is where a match has none."""
        return next((p.default for p in self.match.pattern.parameters if p.name == arg.name), None)

    def _lacking(self, arg: tree.Argument) -> str | None:
        """What a buffer's argument is, or is computed from, and the match has not."""
        if isinstance(arg, tree.Computed):
            names = [p.name for p in pattern_of(self.match.pattern, arg).parameters]
        else:
            names = [arg.name] if isinstance(arg, tree.Name) and self._default(arg) is None else []
        return next((name for name in names if name not in self.match.inputs), None)

    def _written(self, arg: tree.Computed) -> Written:
        """The ops for what the rule computes."""
        try:
            code = self.write(self.match, self.rule, arg)
        except OpspliceError as failure:
            details = f": {failure.details}" if failure.details else ""
            raise LeaveError(f"{failure.message}{details}") from None
        if (growth := known_sizes.growth(code)) > known_sizes.MOST_GROWTH:
            size = f"{growth / 2**20:.1f} MB larger than the weights in it"
            raise LeaveError(f"`{arg.span.written}` is {size}, so IREE would compute it in each call")
        return code

    def _bind_dims(
        self, kind: tree.TensorType, element: str, sizes: Sequence[Size | tuple[Size, ...]], what: str
    ) -> None:
        self._bind_type(kind.element, element, what)
        for dim, size in paired(kind.dims, sizes):
            if dim.size is not None and dim.size != size:
                raise LeaveError(f"kernel {self.kernel.name} wants a dim of {dim.size} in {what}")
            if dim.name is None:
                continue
            known = self.dims.setdefault(dim.name, size)
            if known_sizes.known_unequal(known, size):
                raise LeaveError(f"kernel {self.kernel.name}'s dim {dim.name} would be two sizes")
            if known_sizes.product(known) is None and known_sizes.product(size) is not None:
                self.dims[dim.name] = size

    def _bind_type(self, kind: tree.ScalarType, element: str, what: str) -> None:
        if element not in (*vocabulary.COMMON_ELEMENTS, "i4"):
            raise LeaveError(f"{what} has elements of type {element}, which no kernel can take")
        variable = self.variables.get(kind.name)
        choices = [c.name for c in variable.choices] if variable else []
        if choices and element not in choices:
            raise LeaveError(f"kernel {self.kernel.name} takes {kind.name} in {{{', '.join(choices)}}}, not {element}")
        wanted = self.types.setdefault(kind.name, element) if variable else kind.name
        if wanted != element:
            raise LeaveError(f"kernel {self.kernel.name} takes {wanted}, and {what} is {element}")

    def _argument(self, parameter: tree.Parameter, arg: tree.Argument) -> Buffer | Scalar:
        if isinstance(parameter.type, tree.TensorType):
            return self._buffer(parameter.name, parameter.type, arg)
        assert not isinstance(arg, (tree.Computed, tree.Launch)), "the checker wants a buffer for what is computed"
        element = self.types.get(parameter.type.name, parameter.type.name)
        if isinstance(arg, tree.Literal):
            if not vocabulary.holds(element, arg.value):
                raise LeaveError(f"kernel {self.kernel.name} takes {element} here, which cannot hold {arg.value}")
            return Scalar(parameter.name, element, number=arg.value)
        if arg.name not in self.match.inputs:
            default = self._default(arg)
            return self._argument(parameter, default) if default else self._dim_argument(parameter, element, arg)
        binding = self.match.inputs[arg.name]
        if binding.constant is not None:
            return Scalar(parameter.name, element, number=binding.constant)
        held = _held(binding, arg.name)
        return Scalar(
            parameter.name, element, value=self._in_tensor(arg, parameter.type) if held.widened else held.value
        )

    def _buffer(self, name: str, kind: tree.TensorType, arg: tree.Argument) -> Buffer:
        if self._lacking(arg):
            return self._absent(name, kind)
        layout, copy = self._dense(kind)
        if arg in self.made:
            element = self.types.get(kind.element.name, kind.element.name)
            return Buffer(name, self.made[arg], element, kind.in_memory, layout, copy=copy)
        assert isinstance(arg, tree.Name)
        binding = self.match.inputs[arg.name]
        copy = binding.places[0][1] if binding.places and kind.copied else copy
        if binding.places and layout is None and copy is None:
            there = layout_words.whereabouts(binding.places[0][0])
            message = f"{arg.name} is a view of {there}, and kernel {self.kernel.name} takes it dense"
            raise LeaveError(f"{message}: make the buffer `strided`, or `copied` for a copy")
        return Buffer(name, binding.value, binding.element, kind.in_memory, layout, copy=copy)

    def _absent(self, name: str, kind: tree.TensorType) -> Buffer:
        """What an optional buffer is at a match that has none."""
        element = self.types.get(kind.element.name, kind.element.name)
        if kind.element.name in self.variables and kind.element.name not in self.types:
            raise LeaveError(f"nothing says what {kind.element} of kernel {self.kernel.name} is")
        layout = Layout(ZERO, ZERO, ((),) * len(kind.dims)) if kind.strided else None
        return Buffer(name, None, element, kind.in_memory, layout)

    def _dim_argument(self, parameter: tree.Parameter, element: str, arg: tree.Name) -> Scalar:
        """A dim of the pattern for a scalar: a number, or the kernel's own dim of the same size."""
        size = self.match.dims[arg.name]
        number = known_sizes.product(size)
        bits = vocabulary.bits(element) or 64
        if number is not None and number >= 1 << (bits - 1):
            raise LeaveError(f"{arg.name} = {number} does not fit into the {element} of kernel {self.kernel.name}")
        if number is not None:
            return Scalar(parameter.name, element, number=number)
        if bits < 32:
            raise LeaveError(f"the dynamic dim {arg.name} may not fit into the {element} of kernel {self.kernel.name}")
        for name, known in self.dims.items():
            if known == size:
                return Scalar(parameter.name, element, dim=name)
        raise LeaveError(f"the dynamic dim {arg.name} is not a dim of kernel {self.kernel.name}")

    def _given_on(self, result: tree.KernelResult) -> Output:
        """A result that another kernel is given."""
        kind = self._kind_of(result)
        dims = self._sized(kind.dims)
        sizes = flat(self._size_of(dim) for dim in dims)
        element = self.types.get(kind.element.name, kind.element.name)
        layout, _ = self._dense(dataclasses.replace(kind, dims=dims))
        return Output(None, sizes, element, dims, result.alias, layout)

    def _kind_of(self, result: tree.KernelResult) -> tree.TensorType:
        kind = result.type or next(p.type for p in self.kernel.parameters if p.name == result.alias)
        assert isinstance(kind, tree.TensorType), "the checker lets only buffers be made and overwritten"
        return kind

    def _scratch(self, result: tree.KernelResult) -> Output:
        """The kernel's own memory."""
        return dataclasses.replace(self._given_on(result), is_scratch=True)

    def _sized(self, dims: Sequence[tree.Dim]) -> tuple[tree.Dim, ...]:
        """The dims of a result, with the sizes that are computed."""
        known = {name: known_sizes.numbers(self.views, size) for name, size in self.dims.items()}
        found = []
        for dim in dims:
            if dim.sum is None:
                found.append(dim)
                continue
            size = judge.evaluate(dim.sum, known)
            if size is not None and (not isinstance(size, int) or size < 1):
                raise LeaveError(f"the size {dim} of what kernel {self.kernel.name} makes is {size}")
            found.append(dim if size is None else tree.Dim(dim.span, size=size))
        if any(clause.is_command for clause in self.kernel.artifacts) and any(dim.sum is not None for dim in found):
            raise LeaveError(f"the size of what command {self.kernel.name} makes is known at run time only")
        return tuple(found)

    def _size_of(self, dim: tree.Dim, wanted: DimSize | None = None) -> Size | tuple[Size, ...]:
        """The size of a dim of a result. wanted: what the program has there."""
        if dim.sum is not None:
            return SumSize(None, 0, self.kernel.name, dim.sum, tuple(self.dims.items()), wanted)
        return self.dims[dim.name or ""] if dim.size is None else dim.size

    def _computed(self, kind: tree.TensorType, root: ir.Value, sizes: tuple[Size, ...]) -> tuple[Size, ...]:
        """The sizes of a result, with those that the kernel computes at run time."""
        if any(dim.sum is not None for dim in kind.dims):
            if len(kind.dims) != len(sizes) or any(dim.pack for dim in kind.dims) or kind.any_layout:
                message = f"kernel {self.kernel.name} makes sizes that are known at run time only"
                raise LeaveError(f"{message}, which goes for dense results with the program's dims and no packs")
            made = zip(kind.dims, sizes, strict=True)
            sizes = tuple(
                self._size_of(dim, None if size.value == root else size)  # type: ignore[misc]
                if dim.sum is not None and isinstance(size, DimSize)
                else size
                for dim, size in made
            )
        if any(isinstance(s, DimSize) and not isinstance(s, SumSize) and s.value == root for s in sizes):
            raise LeaveError("the size of its result depends on no input")
        return sizes

    def _output(self, number: int, result: tree.KernelResult) -> Output:
        root, sizes = self.match.roots[number], self.match.root_sizes[number]
        element = element_type(root)
        kind = self._kind_of(result)
        split = flat(self.match.split)
        shape = sizes if self.match.order is None else tuple(split[axis] for axis in self.match.order)
        self._bind_type(kind.element, element, "the result")
        if any(dim.symbol is not None and dim.symbol not in self.dims for dim in kind.dims):
            open_rank = any(dim.pack for dim in kind.dims)
            fits = open_rank or len(kind.dims) == len(shape)
            shape = shape if fits else tuple(size for size in shape if size != 1)
            if len(kind.dims) != len(shape) and not open_rank:
                raise LeaveError(
                    f"kernel {self.kernel.name} makes rank {len(kind.dims)}, and the result has rank {len(sizes)}"
                )
            if self.match.ones_first and number == 0:
                shape = tuple(sorted(shape, key=lambda size: size != 1))
            for dim, size in paired(kind.dims, shape):
                if dim.symbol is not None:
                    self.dims.setdefault(dim.symbol, size)
        kind = dataclasses.replace(kind, dims=self._sized(kind.dims))
        sizes = self._computed(kind, root, sizes)
        made, wanted = self._count(kind.dims), known_sizes.product(sizes)
        if made is not None and wanted is not None and made != wanted:
            raise LeaveError(f"kernel {self.kernel.name} makes {made} elements, and {wanted} are wanted")
        layout, _ = self._dense(kind)
        order, copy = self._written_order(kind, self.match.order or tuple(range(len(shape)))), None
        moved = [axis for axis in order if not split or split[axis] != 1]
        if layout is None and moved != sorted(moved):
            if not kind.copied:
                raise LeaveError(
                    f"its dims are in another order than kernel {self.kernel.name} writes them in: make the result "
                    "`strided`, or `copied` for a copy"
                )
            copy = strides.ordered(self.views, self.match.split or [(size,) for size in sizes], order)
        return Output(root, sizes, element, kind.in_memory, result.alias, layout, copy=copy)

    def _written_order(self, kind: tree.TensorType, own: tuple[int, ...]) -> tuple[int, ...]:
        """The dims of a result as the kernel writes them. own: these in the pattern's order."""
        at = places((dim.pack is not None for dim in kind.dims), len(own))
        if kind.lies and not at:
            raise LeaveError(f"kernel {self.kernel.name} makes rank {len(kind.dims)}, and the result has {len(own)}")
        return tuple(itertools.chain(*(own[at[dim]] for dim in kind.order))) if kind.lies else own

    def _dense(self, kind: tree.TensorType) -> tuple[Layout | None, Layout | None]:
        """Where a strided buffer, or else one with an order of its own, lies unless the planner finds it elsewhere."""
        if not kind.strided and not kind.lies:
            return None, None
        sizes = [self._size_of(dim) for dim in kind.dims]
        if any(isinstance(size, SumSize) for size in flat(sizes)):
            raise LeaveError(f"a strided buffer of kernel {self.kernel.name} has a size that is computed at run time")
        found = strides.dense(self.views, sizes)
        return (found, None) if kind.strided else (None, found.turned(kind.order))

    def _count(self, dims: Sequence[tree.Dim]) -> int | None:
        """How many elements a buffer has, None if only known at run time."""
        return known_sizes.product(tuple(known_sizes.product(self._size_of(dim)) for dim in dims))


def _held(binding: Binding, name: str) -> Binding:
    """A scalar, or the tensor of rank 0 that it is read from.

    That spares the program a read of device memory, and IREE's virtual machine has no 16-bit floats to read.
    """
    value: Any = binding.value
    widened, op = binding.widened, defining_op(value)
    if op is not None and op.name in WIDENINGS and not is_tensor(value) and not widened:  # two may differ in the sign
        value, widened = op.operands[0], op.name
        op = defining_op(value)
    if op is not None and op.name == "tensor.extract" and len(op.operands) == 1:
        return dataclasses.replace(binding, value=op.operands[0], widened=widened)
    if op is not None and isinstance(value.type, (ir.F16Type, ir.BF16Type)):
        raise LeaveError(
            f"{name} is a single {value.type} made by {op.name}, and IREE computes none outside of tensors"
        )
    return binding
