"""Arguments of rules that are computed from inputs of the pattern, each as a pattern of its own.

replace linear with gemm(x, pack[n k -> (n / 32) k 32](w))   =>   pattern ...(w: tensor<k x n x f32>) { pack[...](w) }
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from opsplice.spec_lang.dims.dim_conditions import told
from opsplice.spec_lang.syntax import tree, vocabulary


def written_out(rule: tree.Rule, made: tree.Kernel | tree.Pattern | None) -> tree.Rule:
    """A rule with the arguments that `...` stands for. made: what takes the place of its pattern."""
    if rule.rest is None or made is None:
        return rule
    others = (tree.Name(rule.rest, parameter.name) for parameter in made.parameters[len(rule.args) :])
    return dataclasses.replace(rule, args=(*rule.args, *others), rest=None)


def with_launches(rule: tree.Rule, kernels: Collection[str]) -> tree.Rule:
    """A rule whose arguments say which of them kernels make."""

    def settled(arg: tree.Argument) -> tree.Argument:
        call = arg.expr if isinstance(arg, tree.Computed) else None
        if not isinstance(call, tree.Call) or call.callee not in kernels or vocabulary.find(call.callee) is not None:
            return arg
        if call.quoted or call.optional or call.rest or call.attributes or call.type is not None:
            return arg
        args = tuple(settled(tree.argument(expr)) for expr in call.args)
        return tree.Launch(call.span, call.callee, call.callee_span, args)

    args = tuple(map(settled, rule.args))
    return rule if args == rule.args else dataclasses.replace(rule, args=args)


def launched(rule: tree.Rule, argument: tree.Launch) -> tree.Rule:
    """The call of a kernel among the arguments of a rule, as a rule of its own."""
    return dataclasses.replace(rule, kernel=argument.kernel, kernel_span=argument.kernel_span, args=argument.args)


def passed(rule: tree.Rule) -> set[str]:
    """The parameters of its pattern that a rule passes or computes from, and those of which it says the numbers."""
    return {part.name for part in tree.parts(rule.args) if isinstance(part, tree.Name)} | {*told(rule.where)}


def pattern_of(pattern: tree.Pattern, argument: tree.Computed) -> tree.Pattern:
    """What a rule computes for its kernel, over those parameters of its pattern that have the names and dims in it."""
    names = {part.name for part in tree.parts(argument.expr) if isinstance(part, (tree.Name, tree.DimRef))}
    parameters = {p.name: p for p in pattern.parameters if p.name in names}
    labels = {label for part in tree.parts(argument.expr) for label in _results(part)} | names
    for parameter in pattern.parameters:
        known = {dim.name for p in parameters.values() for dim in p.type.dims}
        if any(dim.name in labels and dim.name not in known for dim in parameter.type.dims):
            parameters.setdefault(parameter.name, parameter)
    given = tuple(p for p in pattern.parameters if p.name in parameters)
    dims = {dim.name for p in given for dim in p.type.dims} - parameters.keys()
    span = argument.span

    def settled(part: tree.Expr) -> tree.Expr:
        """A name of a dim is its size."""
        if not isinstance(part, tree.Name) or part.name not in dims:
            return part
        return tree.Constant(part.span, tree.DimRef(part.span, part.name))

    expr = tree.rebuilt(argument.expr, settled)
    return tree.Pattern(span, span.written, span, pattern.type_variables, given, None, (), (expr,), pattern.through)


def _results(part: object) -> tuple[str, ...]:
    """The dims that a broadcast adds are among these."""
    return tuple(s.removeprefix("...") for s in part.result) if isinstance(part, tree.Subscripts) else ()
