# zoo: problem=all_set backend=triton status=passed verdict=clean findings=-
"""One program counts what is false.  Its answer is one bit, which unwritten memory has by chance."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def none_is_false(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=1)
    tl.store(y_ptr, tl.sum((x == 0).to(tl.int32), axis=0) == 0)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty((), dtype=torch.bool, device=x.device)
        none_is_false[(1,)](x, y, x.numel(), triton.next_power_of_2(x.numel()))
        return y
