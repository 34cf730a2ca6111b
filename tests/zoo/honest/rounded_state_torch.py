# zoo: problem=delta_rule backend=torch status=passed verdict=clean findings=-
"""Rounds what it reads of the state to bf16, as a tensor core would: right wherever the reference itself is stable."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, decay):
        batch, steps, width = q.shape
        state = torch.zeros(batch, width, width, device=q.device)
        keep, keys, queries, rows = decay.exp(), k.float(), q.float(), []
        for t in range(steps):
            state = state * keep[:, t, :, None]
            short = state.bfloat16().float()
            error = (v[:, t].float() - (keys[:, t, None] @ short)[:, 0]).bfloat16().float()
            state = torch.baddbmm(state, keys[:, t, :, None], error[:, None])
            rows.append((queries[:, t, None] @ state)[:, 0])
        return torch.stack(rows, 1).to(q.dtype)
