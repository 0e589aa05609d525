"""What a whole dispatch is passed, on every backend: bindings, and words of 32 bits."""

from __future__ import annotations

from opsplice.rewrites.ir import dispatch_words
from opsplice.rewrites.layouts import stride_words
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar


def bindings(call: KernelCall) -> list[tuple[str, str, bool]]:
    """For each binding what it holds, the element type, and whether the kernel writes to it."""
    aliases = {output.alias for output in call.outputs}
    buffers = [(a.name, a.element, a.name in aliases) for a in call.arguments if isinstance(a, Buffer)]
    first_elements = [("first", "i32", False)] * bool(stride_words.packs(call))
    results = zip(call.kernel.results, call.outputs, strict=True)
    return [*buffers, *first_elements, *((r.name, o.element, True) for r, o in results if o.alias is None)]


def words(call: KernelCall) -> list[tuple[str, str]]:
    """For each word what it is of, as conditions call it, and the element type; dims and strides are i32."""
    scalars = [(a.name, a.element) for a in call.arguments if isinstance(a, Scalar)]
    held = [each for each in scalars for _ in range(dispatch_words.count(each[1]))]
    dims = ((name, "i32") for name in call.dims)
    return [*held, *dims, *((word.name, "i32") for word in stride_words.words(call))]
