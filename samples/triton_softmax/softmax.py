"""A softmax over rows in Triton, with the launcher that its author uses in PyTorch. Nothing here knows of opsplice."""

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, in_ptr, out_row_stride, in_row_stride, n_cols, BLOCK_SIZE: tl.constexpr):  # noqa: N803
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK_SIZE)
    is_there = columns < n_cols
    values = tl.load(in_ptr + row * in_row_stride + columns, mask=is_there, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out_ptr + row * out_row_stride + columns, powers / tl.sum(powers, axis=0), mask=is_there)


def softmax(x):
    import torch

    out = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](out, x, out.stride(0), x.stride(0), columns, BLOCK_SIZE=block, num_warps=warps(block))
    return out


def warps(block: int) -> int:
    return min(max(block // 256, 1), 16)
