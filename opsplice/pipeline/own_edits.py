"""The edits that every compile makes, whatever specs it has: what IREE leaves open or does wrongly is put right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.pipeline import unknown_ops
from opsplice.pipeline.compiler import Step
from opsplice.pipeline.flags import links_executables, offset_alignment
from opsplice.pipeline.phases import PHASE
from opsplice.rewrites.approaches import dynamic_function
from opsplice.rewrites.link import mathematics
from opsplice.rewrites.loops import rounds
from opsplice.rewrites.memory import (
    aligned_buffers,
    branch_operands,
    carried_values,
    crossed_reads,
    global_values,
    in_bounds,
    kept_values,
    loop_types,
    slice_sizes,
    sliced_gathers,
    split_sums,
    stored_types,
    turned_copies,
    workgroup_sizes,
)
from opsplice.rewrites.numbers import (
    complex_constants,
    complex_functions,
    joined_scans,
    looked_up_values,
    nan_places,
    negated_halves,
    orders,
    place_loops,
    scalar_forms,
    single_reads,
    small_halves,
    turned_results,
    wide_fusions,
    windowed_ops,
)

# A phase, what is done in words, and the edit. Those of one phase are applied in this order.
_Edit = tuple[str, str, Callable[[ir.Module], Any]]

_BEFORE_LINKING: tuple[_Edit, ...] = (
    (global_values.PHASE, "hand on what globals hold", global_values.carry_globals),
    (global_values.PHASE, "keep globals apart", global_values.part),
    (PHASE, "hide complex constants", complex_constants.hide),
    (PHASE, "write complex functions otherwise", complex_functions.mend),
    (PHASE, "write scalar ops otherwise", scalar_forms.mend),
    (PHASE, "keep equal elements in order", orders.mend),
    (PHASE, "find NaN's place", nan_places.mend),
    (PHASE, "find places in loops", place_loops.mend),
    (PHASE, "join dims beside running sums", joined_scans.mend),
    (PHASE, "write windows otherwise", windowed_ops.mend),
    (PHASE, "hide negated parts", negated_halves.hide),
    (PHASE, "transpose results in memory", turned_results.mend),
    (PHASE, "look up elements in memory", looked_up_values.mend),
    (PHASE, "keep indices in bounds", in_bounds.keep_in_bounds),
    (PHASE, "read slices where they lie", sliced_gathers.read_through),
    (crossed_reads.PHASE, "keep crossed reads apart", crossed_reads.separate),
    (split_sums.PHASE, "split sums of products", split_sums.split),
    (crossed_reads.PHASE, "transpose from memory", turned_copies.part),
    (crossed_reads.PHASE, "read as many values as a dispatch may", wide_fusions.part),
    (crossed_reads.PHASE, "compute sizes of slices outside", slice_sizes.keep_outside),
)
_BEHIND_LINKING: tuple[_Edit, ...] = (
    (unknown_ops.PHASE, "look for ops that IREE does not know", unknown_ops.check),
    (rounds.PHASE, "do several rounds at a time", rounds.join),
    (loop_types.PHASE, "begin loops with what they end with", loop_types.align),
    (kept_values.PHASE, "join what was kept apart", crossed_reads.join),
    (kept_values.PHASE, "keep what is overwritten too early", kept_values.keep),
    (kept_values.PHASE, "part what blocks are given", carried_values.part),
    (kept_values.PHASE, "part what globals are given", global_values.part_stores),
    (carried_values.MEMORY_PHASE, "keep memory that blocks are given", carried_values.keep_memory),
    (single_reads.PHASE, "read single elements without loops", single_reads.mend),
    (workgroup_sizes.PHASE, "count workgroups from their sizes", workgroup_sizes.mend),
    (branch_operands.PHASE, "hand over numbers of one width", branch_operands.widen),
    (branch_operands.PHASE, "hand over no reference twice", branch_operands.part),
    (small_halves.PHASE, "keep small halves", small_halves.keep),
)


# Behind all others, those of providers included, whose kernels are no longer there.
LAST = Step(stored_types.PHASE, "check what devices store", stored_types.check, is_own=True)


def steps(flags: Sequence[str], note: Callable[[ir.Module], None] | None) -> list[Step]:
    """The edits of a compile with some flags. note: keeps in the module which kernels it has; None without specs."""
    rows = [*_BEFORE_LINKING]
    if note is not None:
        align = functools.partial(aligned_buffers.align, alignment=offset_alignment(flags))
        rows += [
            (aligned_buffers.PHASE, "align buffers", align),
            (dynamic_function.NOTE_PHASE, "note imports", dynamic_function.note_imports),
            (dynamic_function.NUMBER_PHASE, "make imports weak", dynamic_function.weaken_imports),
            (dynamic_function.NUMBER_PHASE, "note kernels", note),
        ]
        if not links_executables(flags):
            rows.append((dynamic_function.NUMBER_PHASE, "number imports", dynamic_function.number_imports))
    rows += [*mathematics.edits(), *_BEHIND_LINKING]
    return [Step(*row, is_own=True) for row in rows]
