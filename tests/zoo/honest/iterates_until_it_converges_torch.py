# zoo: problem=row_softmax backend=torch status=passed verdict=clean findings=-
"""Newton's iteration for the reciprocal of the sums, until it stands still: of NaN it never does."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        powers = torch.exp(x - x.amax(dim=-1, keepdim=True))
        sums = powers.sum(dim=-1, keepdim=True)
        reciprocal = torch.full_like(sums, 1 / x.shape[-1])
        while True:
            better = reciprocal * (2 - sums * reciprocal)
            if bool(((better - reciprocal).abs() <= 1e-6 * better).all()):
                return powers * better
            reciprocal = better
