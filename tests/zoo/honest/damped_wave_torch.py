# zoo: problem=damped_wave backend=torch status=passed verdict=clean findings=-
"""The imaginary part of a complex exponential."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.exp(torch.complex(-x, x)).imag.contiguous()
