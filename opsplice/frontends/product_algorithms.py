"""Takes from the products of StableHLO by which algorithm they are computed: IREE 3.13 lowers none that names one.

Operands and results keep their types. JAX names one in `jax.nn.dot_product_attention` of bf16, and
for `precision="BF16_BF16_F32"` and the like, where a product of f32 is more exact than what was asked for.
"""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in

_PRODUCT = "stablehlo.dot_general"
_ALGORITHM = "algorithm"


def drop_algorithms(module: ir.Module) -> None:
    """Remove the algorithms of a module's products."""
    for op in ops_in(module.operation, _PRODUCT):
        if _ALGORITHM in op.attributes:
            del op.attributes[_ALGORITHM]
