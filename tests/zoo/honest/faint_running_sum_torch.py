# zoo: problem=faint_running_sum backend=torch status=passed verdict=clean findings=-
"""All of it, with one operator less."""

import torch
from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
    def forward(self, x, gate):
        return torch.addcmul(functional.silu(x), gate, torch.sort(x, dim=1).values.cumsum(dim=1))
