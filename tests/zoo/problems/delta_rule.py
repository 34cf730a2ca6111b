"""A recurrence that forgets and corrects itself (a gated delta rule): stable for keys as short as these, and no others."""

import torch
from torch import nn

BATCH, STEPS, WIDTH = 3, 48, 24


class Model(nn.Module):
    def forward(self, q, k, v, decay):
        dtype = q.dtype
        q, k, v, decay = q.float(), k.float(), v.float(), decay.float()
        state = torch.zeros(BATCH, WIDTH, WIDTH, dtype=torch.float32, device=q.device)
        out = torch.empty_like(v)
        for t in range(STEPS):
            state = state * decay[:, t, :, None].exp()
            error = v[:, t] - torch.einsum("bk,bkv->bv", k[:, t], state)
            state = state + k[:, t, :, None] * error[:, None, :]
            out[:, t] = torch.einsum("bk,bkv->bv", q[:, t], state)
        return out.to(dtype)


def get_inputs():
    q, k, v = (torch.randn(BATCH, STEPS, WIDTH) / WIDTH**0.5 for _ in range(3))
    decay = -torch.rand(BATCH, STEPS, WIDTH)
    return [q.bfloat16(), k.bfloat16(), v.bfloat16(), decay]


def get_init_inputs():
    return []
