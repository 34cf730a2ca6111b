# zoo: problem=bfloat_relu backend=torch status=passed verdict=clean findings=-
"""bfloat16 by the library."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x + 0.5).relu_()
