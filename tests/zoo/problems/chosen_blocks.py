"""Blocks of keys that each query attends to: the first, its own and the best others among those before it; -1 where
there are too few.  The first and the own block have equal scores, so that their order is free."""

import torch
from torch import nn

QUERIES, BLOCKS, CHOSEN, WIDTH = 120, 12, 4, 16


class Model(nn.Module):
    def forward(self, queries, keys):
        places = torch.arange(BLOCKS, device=queries.device)
        own = torch.arange(QUERIES, device=queries.device)[:, None] * BLOCKS // QUERIES
        scores = torch.sigmoid(queries @ keys.t() * WIDTH**-0.5)
        scores = torch.where((places == 0) | (places == own), 2.0, scores)
        best, chosen = scores.masked_fill(places > own, -1.0).topk(CHOSEN, dim=-1)
        return torch.where(best < 0, -1, chosen).int()


def get_inputs():
    return [torch.randn(QUERIES, WIDTH), torch.randn(BLOCKS, WIDTH)]


def get_init_inputs():
    return []
