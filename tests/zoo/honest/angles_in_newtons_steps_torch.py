# zoo: problem=angles_until_they_stand backend=torch status=passed verdict=clean findings=-
"""Newton's steps until no angle moves: fewer than those of the fixed point."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, mean, flatness):
        angle = mean + flatness * torch.sin(mean)
        for _ in range(50):
            off = angle - flatness * torch.sin(angle) - mean
            step = off / (1 - flatness * torch.cos(angle))
            angle = angle - step
            if not bool((step.abs() > 1e-6).any()):
                break
        return angle
