"""A plan's actions applied to a module, in program order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from iree.compiler import ir

from opsplice.rewrites.approaches import insertion, link_conflicts
from opsplice.rewrites.approaches.annotation import annotate
from opsplice.rewrites.approaches.approach_table import approach_of
from opsplice.rewrites.ir import emit, raw_symbols
from opsplice.rewrites.ir.placing import Placer
from opsplice.rewrites.ir.raw_symbols import Locate
from opsplice.rewrites.plan.actions import Annotation, Insertion, KernelCall
from opsplice.spec_lang.syntax import tree


def apply(
    module: ir.Module,
    actions: Sequence[KernelCall | Insertion],
    annotations: Sequence[Annotation] = (),
    codes: Sequence[tree.Code] = (),
    locate: Locate | None = None,
    brought: Collection[str] = (),
) -> None:
    """Put each action in the place of its match and remove what is then dead.

    The payload values that the actions hold must be of this very module, unchanged since they were found. codes: raw
    MLIR that insertions refer to; locate finds the files that it names; brought: the symbols that other specs have
    brought. Raises OpspliceError: before anything is
    changed when what is linked defines a name twice, and for MLIR of a rule that is wrong.
    """
    calls = [call for action in actions if isinstance(action, KernelCall) for call in action.launches]
    approaches = {call: approach_of(call) for call in calls}
    link_conflicts.check(module, [call for call, approach in approaches.items() if approach.shares_names])
    with emit.building(module):
        spec = raw_symbols.Helpers()
        inserting = next((action for action in actions if isinstance(action, Insertion)), None)
        for annotation in annotations:
            annotate(annotation, marked=inserting is not None)
        if inserting is not None:
            spec = raw_symbols.put_into(module, codes, locate, brought, inserting.rule.phase)
        placer = Placer(module)
        writers = {approach: approach.writer(placer) for approach in dict.fromkeys(approaches.values())}

        def results(call: KernelCall) -> Sequence[ir.Value]:
            given = insertion.with_computed(placer, call, lambda inner: results(inner)[0])
            made = writers[approaches[call]].results(given)
            return [value for value, output in zip(made, call.outputs, strict=True) if not output.is_scratch]

        for action in actions:
            if isinstance(action, KernelCall):
                make = partial(results, action)
                buffers = [buffer for call in action.launches for buffer in (*call.strided, *call.copied)]
                views = [view for buffer in buffers for view in buffer.views]
                placer.place(action.match, make, whole=action.rule.branches, outputs=action.made, views=views)
            else:
                placer.place(action.match, partial(insertion.results, placer, action, spec), whole=action.rule.keep)
        placer.sweep()
