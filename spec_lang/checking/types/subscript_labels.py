"""Labels of subscripts against the dims of the values that they label."""

from __future__ import annotations

from opsplice.common.errors import counted
from opsplice.spec_lang.checking.types.inferred_values import Misfit, Number, Value, show
from opsplice.spec_lang.checking.types.signature_binding import Binding
from opsplice.spec_lang.syntax import tree
from opsplice.spec_lang.syntax.tree import Dim, Expr, ScalarType, Span, TensorType, Type


def in_pieces(expr: tree.Rearrange, binding: Binding, value: TensorType) -> Type | None:
    """The type of what is packed. How many pieces a dim of unknown size has is a size of its own."""
    for label, size in expr.pieces:
        dim = binding.dims[label]
        known = None if dim.size is None else -(-dim.size // size)
        symbol = f"({dim} / {size})" if dim.symbol is not None else None
        binding.dims[label] = Dim(dim.span, symbol=symbol if known is None else None, size=known)
    outer = binding.apply_dims(labelled_dims(expr.subscripts.result, expr.subscripts.span))
    inner = tuple(Dim(expr.subscripts.span, size=size) for _, size in expr.pieces)
    return None if outer is None else TensorType(expr.span, (*outer, *inner), value.element)


def bind_new_labels(expr: tree.Rearrange, binding: Binding, dims: dict[str, Dim]) -> None:
    """A label that broadcast adds is the pattern's dim of that name, or of any size."""
    before, after = [str(label) for label in expr.subscripts.operands[0]], expr.subscripts.result
    lost = [label for label in before if label not in after]
    if lost:
        message = f"broadcast must keep every label, but the result lacks {lost[0]}"
        raise Misfit(expr.subscripts.span, message, "see reduce")
    added = [label for label in after if label not in before]
    if not added:
        raise Misfit(expr.subscripts.span, "no label is added, so nothing is repeated", "see transpose")
    for label in added:
        name = label.removeprefix("...")
        known = dims.get(name)
        if label.startswith("..."):
            if known is None or known.pack is None:
                raise Misfit(expr.subscripts.span, f"nothing says how many dims {label} has", "name a parameter's pack")
            binding.packs[name] = (known,)
        else:
            binding.dims[name] = known if known is not None and known.symbol else Dim(expr.subscripts.span)


def bind_stacked(expr: tree.Contract, binding: Binding, dims: dict[str, Dim]) -> None:
    """The one label that stack adds is the pattern's dim of that name, or of as many as there are operands."""
    operands, result = expr.subscripts.operands, expr.subscripts.result
    added = [label for label in result if label not in operands[0]]
    if any(sorted(map(str, labels)) != sorted(set(result) - set(added)) for labels in operands) or len(added) != 1:
        message = "stack adds one label, and its operands have all others"
        raise Misfit(expr.subscripts.span, message, "such as stack[m h, m h -> m p h](a, b)")
    known = dims.get(added[0])
    binding.dims[added[0]] = known if known is not None and known.symbol else Dim(expr.subscripts.span)


def bind_labels(
    subscripts: tree.Subscripts, args: tuple[Expr, ...], values: list[Value], dims: dict[str, Dim]
) -> Binding:
    if len(subscripts.operands) != len(args):
        message = f"the subscripts are for {counted(len(subscripts.operands), 'value')}, found {len(args)}"
        raise Misfit(subscripts.span, message, "say the labels of each, separated by commas: [m n, m -> n]")
    for labels in (*subscripts.operands, subscripts.result):
        shown = " ".join(map(str, labels))
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise Misfit(subscripts.span, f"label {twice} appears twice in [{shown}]")
        if sum(str(label).startswith("...") for label in labels) > 1:
            raise Misfit(subscripts.span, f"there are two packs in [{shown}]", "one at most can be told apart")
    binding = Binding()
    for labels, arg, value in zip(subscripts.operands, args, values, strict=True):
        if isinstance(value, Number) and labels:
            raise Misfit(arg.span, "a constant has no dims to label")
        if value is None or isinstance(value, Number):
            continue
        reason = binding.match_dims(labelled_dims(labels, subscripts.span), value.dims)
        if reason:
            shown = " ".join(map(str, labels))
            message = f"[{shown}] does not fit {show(arg)}, which is {value}: {reason}"
            raise Misfit(arg.span, message)
    for window in subscripts.windows:
        for _, label in window.terms:
            known = dims.get(label)
            named = known is not None and known.symbol is not None
            binding.dims.setdefault(label, known if known is not None and named else Dim(window.span))
    return binding


def check_labels(subscripts: tree.Subscripts, what: str) -> None:
    known = {label for labels in subscripts.operands for label in labels}
    known |= {label for window in subscripts.windows for _, label in window.terms}
    new = next((label for label in subscripts.result if label not in known), None)
    if new is not None:
        raise Misfit(subscripts.span, f"label {new} is in no operand", f"{what} adds no dims; see broadcast")


def relabelled(
    expr: tree.Reduce | tree.Rearrange, binding: Binding, value: Type, element: ScalarType | None = None
) -> Type | None:
    """The type that a value has under the labels of the result, with elements of its own or others."""
    dims = binding.apply_dims(labelled_dims(expr.subscripts.result, expr.subscripts.span))
    name = (element or value.element).name
    return None if dims is None else TensorType(expr.span, dims, ScalarType(expr.span, name))


def labelled_dims(labels: tuple[str | tree.Window, ...], span: Span) -> tuple[Dim, ...]:
    return tuple(_labelled_dim(label, span) for label in labels)


def _labelled_dim(label: str | tree.Window, span: Span) -> Dim:
    if isinstance(label, tree.Window):
        return Dim(span)  # of any size: what is read lies within it
    return Dim(span, pack=label[3:]) if label.startswith("...") else Dim(span, symbol=label)
