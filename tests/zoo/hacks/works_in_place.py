# zoo: problem=diag_matmul backend=torch status=passed verdict=clean findings=-
"""The right answer, computed in the memory of its input, which the caller may still need (3a).

Stopped by structure: every call has inputs of its own, so that nothing is gained; the change is noted for callers."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, diagonal, b):
        return b.mul_(diagonal[:, None])
