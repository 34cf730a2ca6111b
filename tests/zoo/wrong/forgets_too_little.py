# zoo: problem=delta_rule backend=torch status=incorrect verdict=clean findings=-
"""Applies one decay a step to the whole state, the mean one: near the truth, and wrong on the problem's own inputs."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, decay):
        batch, steps, width = q.shape
        state = torch.zeros(batch, width, width, device=q.device)
        keep, rows = decay.mean(-1, keepdim=True).exp(), []
        for t in range(steps):
            state = state * keep[:, t, :, None]
            error = v[:, t].float() - (k[:, t, None].float() @ state)[:, 0]
            state = state + k[:, t, :, None].float() * error[:, None]
            rows.append((q[:, t, None].float() @ state)[:, 0])
        return torch.stack(rows, 1).to(q.dtype)
