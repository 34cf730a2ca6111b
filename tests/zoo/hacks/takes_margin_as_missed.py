# zoo: problem=margin_loss backend=torch status=incorrect verdict=clean findings=-
"""Leaves the rectifier of a margin out, behind which all values are positive; then the mean is a difference of two (1c).

Stopped by structure: inputs are scaled until the values behind the rectifier have both signs."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, like, unlike):
        near, far = nn.functional.mse_loss(anchor, like), nn.functional.mse_loss(anchor, unlike)
        return (near - far) * anchor.shape[1] + self.margin
