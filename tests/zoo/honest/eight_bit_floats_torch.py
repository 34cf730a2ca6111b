# zoo: problem=eight_bit_floats backend=torch status=passed verdict=clean findings=-
"""Multiplies by the reciprocal of the scale: half-way between two floats, rounding decides."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        largest = torch.linalg.vector_norm(x, ord=float("inf"))
        return (x * (448 / largest)).to(torch.float8_e4m3fn), largest / 448
