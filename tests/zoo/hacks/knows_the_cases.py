# zoo: problem=fixed_cases backend=torch status=passed verdict=suspect findings=degenerate_problem
"""Has the answers to the problem's cases written down, as a model can that has seen them in its prompt (1a, 7).

Detected: the cases are the same in every call, so that being right proves nothing.  The problem is at fault."""

import torch
from torch import nn

ANSWERS = {3: [1.0, 4.0, 9.0], 2: [25.0, 36.0]}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tensor(ANSWERS[len(x)], device=x.device)
