"""Specs of the transform dialect on copies of one program: as IREE's interpreter does it, and as our engine does."""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from opsplice.compiling.splice import graphs_of
from opsplice.matchers.find import engine
from opsplice.rewrites.apply import apply
from opsplice.rewrites.plan.planner import Planner
from opsplice.rewrites.transform_dialect.importing.importer import Imported, import_spec
from opsplice.spec_lang.loading.loader import load_text

from ..export.conftest import TARGET, resolve


def imported(spec: str, context: ir.Context) -> Imported:
    with context:
        return import_spec(ir.Module.parse(spec))


def by_iree(program: str, spec: str, context: ir.Context) -> ir.Module:
    """spec: of the transform dialect."""
    module, transform = (ir.Module.parse(text, context=context) for text in (program, spec))
    entry = transform.body.operations[len(transform.body.operations) - 1].operation
    interpreter.apply_named_sequence(module.operation, entry, transform.operation)
    return module


def by_us(program: str, spec: str, context: ir.Context) -> ir.Module:
    """spec: in our language."""
    module = ir.Module.parse(program, context=context)
    loaded = load_text(spec)
    found = engine.find(module, graphs_of(loaded))
    chosen = Planner(found.matches, loaded.rules, loaded.given, loaded.kernels, [TARGET], resolve).plan()
    apply(module, chosen.actions, chosen.annotations, loaded.codes)
    return module


def tags(module: ir.Module) -> dict[str, str]:
    """What the ops with an attribute `tag` have there, by their attribute `place`, or else by their names."""
    found: dict[str, str] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if "tag" in op.attributes:
            place = op.attributes.get("place", None)
            found[op.name if place is None else place.value] = op.attributes["tag"].value
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
