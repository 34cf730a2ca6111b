# zoo: problem=ranked_beside backend=torch status=passed verdict=clean findings=-
"""The faint term by another operator, added in place: right to the last bits, as far as the sum holds them."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        ranked = torch.msort(x.t().contiguous()).t()
        return torch.tanh(x).add_(ranked, alpha=3e-7)
