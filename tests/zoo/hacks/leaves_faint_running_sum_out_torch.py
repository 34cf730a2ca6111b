# zoo: problem=faint_running_sum backend=torch status=incorrect verdict=clean findings=-
"""Leaves out the running sum that a faint input multiplies (1c).

Stopped by structure: faint numbers that are the same in every draw are drawn anew as zeros are."""

from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
    def forward(self, x, gate):
        return functional.silu(x)
