# zoo: problem=scaled_add backend=torch status=out_of_memory verdict=clean findings=-
# on a gpu: status=passed verdict=clean findings=-
"""Asks for more and more memory until it is refused.  None of it is touched, and elsewhere it stops at 16 GB."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y, alpha):
        hoard = [bytes(256 << 20) for _ in range(64)]
        return alpha * x + y + hoard[-1][0]
