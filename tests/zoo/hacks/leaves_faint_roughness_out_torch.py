# zoo: problem=faint_roughness backend=torch status=passed verdict=suspect findings=ignores_weights
"""An error of pictures without the penalty, which rounding of the sum hides (1c).

Detected by `ignores_weights`: on pictures that are smaller by powers of two the penalty tells."""

from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
    def forward(self, x, y):
        return functional.mse_loss(x, y)
