"""An update whose norm is limited, as for gradients; the limit is several times the norm in every draw."""

import torch
from torch import nn

ROWS, WIDTH, MOST = 512, 384, 2000.0


class Model(nn.Module):
    def __init__(self, most):
        super().__init__()
        self.most = most

    def forward(self, x, update):
        norm = torch.sqrt(update.square().sum())
        return x - 0.1 * update * torch.clamp(self.most / (norm + 1e-6), max=1.0)


def get_inputs():
    return [torch.rand(ROWS, WIDTH), torch.rand(ROWS, WIDTH)]


def get_init_inputs():
    return [MOST]
