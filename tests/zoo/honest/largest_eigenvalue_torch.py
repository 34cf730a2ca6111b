# zoo: problem=largest_eigenvalue backend=torch status=passed verdict=clean findings=-
"""The vector keeps its length in a norm that is cheaper, and is normalised at every fourth iteration only."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        vector = torch.ones_like(x[:, :, 0])
        for step in range(self.steps):
            vector = torch.einsum("bij,bj->bi", x, vector)
            if step % 4 == 3:
                vector = vector / vector.abs().amax(dim=1, keepdim=True)
        vector = vector / torch.linalg.vector_norm(vector, dim=1, keepdim=True)
        value = torch.einsum("bi,bij,bj->b", vector, x, vector)
        return x / value[:, None, None]
