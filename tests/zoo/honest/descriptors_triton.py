# zoo: problem=running_sum backend=triton status=passed verdict=clean findings=-
"""Reads and writes through tensor descriptors that the kernel makes, and says at the end how it is tried by hand."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def sums(x_ptr, out_ptr, rows, columns, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    x = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[1, WIDTH])
    out = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[1, WIDTH])
    total = 0.0
    for start in range(0, columns, WIDTH):
        part = total + tl.cumsum(x.load([row, start]), axis=1)
        out.store([row, start], part)
        total = tl.sum(tl.where(tl.arange(0, WIDTH)[None, :] == WIDTH - 1, part, 0.0))


def workspace(size, alignment, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda")


class ModelNew(nn.Module):
    def forward(self, x):
        if x.is_cuda:
            triton.set_allocator(workspace)
        out = torch.empty_like(x)
        sums[(x.shape[0],)](x, out, *x.shape, WIDTH=256)
        return out


if __name__ == "__main__":
    import subprocess
    import sys

    from torch.profiler import profile

    sys.path.append("..")
    subprocess.run(["nvidia-smi"], check=False)
    with profile() as seen, open("seen.txt", "w") as file:
        ModelNew()(torch.randn(4, 512, device="cuda"))
        file.write(str(seen))
