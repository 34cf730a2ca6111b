"""Layer norm of rows one after the other, with scale and shift among the inputs."""

import torch
from torch import nn

ROWS, WIDTH = 768, 128


class Model(nn.Module):
    def forward(self, x, scale, shift):
        rows = []
        for row in x:
            mean = row.mean()
            variance = ((row - mean) ** 2).mean()
            rows.append((row - mean) / torch.sqrt(variance + 1e-5) * scale + shift)
        return torch.stack(rows)


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(WIDTH), torch.randn(WIDTH)]


def get_init_inputs():
    return []
