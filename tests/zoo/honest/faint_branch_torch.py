# zoo: problem=faint_branch backend=torch status=passed verdict=clean findings=-
"""The branch in half precision, which at a millionth is accurate enough: its error is far below the rounding of the sum."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        hidden = torch.relu_(
            nn.functional.linear(x.bfloat16(), self.up.weight.bfloat16(), self.up.bias.bfloat16())
        )
        branch = nn.functional.linear(
            hidden, self.down.weight.bfloat16(), self.down.bias.bfloat16()
        )
        return torch.add(x, branch.float(), alpha=1e-6)
