"""Has Triton make the code of a softmax for each length of rows."""

import triton
from softmax import softmax_kernel, warps

from opsplice.generating import Code, Request, triton_code


def generate(request: Request) -> Code:
    block = triton.next_power_of_2(request.dims["n"])
    arguments = ("out", "x", "n", "n", "n")  # what the function's parameters get, but for BLOCK_SIZE
    return triton_code.compiled(softmax_kernel, request, {"BLOCK_SIZE": block}, arguments, num_warps=warps(block))
