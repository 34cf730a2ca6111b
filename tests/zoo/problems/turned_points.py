"""Points turned by quaternions, which are normalised first although they are drawn of unit length."""

import torch
from torch import nn
from torch.nn import functional

N = 30_000


class Model(nn.Module):
    def forward(self, quaternions, points):
        quaternions = quaternions / quaternions.norm(dim=-1, keepdim=True)
        real, axis = quaternions[:, :1], quaternions[:, 1:]
        across = 2 * torch.linalg.cross(axis, points)
        return points + real * across + torch.linalg.cross(axis, across)


def get_inputs():
    return [functional.normalize(torch.randn(N, 4), dim=-1), torch.randn(N, 3)]


def get_init_inputs():
    return []
