"""Rotary embedding by positions, which count up in every draw."""

import torch
from torch import nn

SEQUENCES, LENGTH, WIDTH, BASE = 6, 250, 96, 10_000.0


class Model(nn.Module):
    def forward(self, x, positions):
        half = x.shape[-1] // 2
        rates = BASE ** (-torch.arange(half, device=x.device) / half)
        angles = positions[:, None].float() * rates
        first, second = x[..., :half], x[..., half:]
        cosines, sines = angles.cos(), angles.sin()
        return torch.cat(
            (first * cosines - second * sines, first * sines + second * cosines), dim=-1
        )


def get_inputs():
    return [torch.randn(SEQUENCES, LENGTH, WIDTH), torch.arange(LENGTH)]


def get_init_inputs():
    return []
