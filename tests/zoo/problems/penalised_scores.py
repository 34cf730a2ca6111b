"""Scores of the words that a text holds already are lowered: a few elements of each row change."""

import torch
from torch import nn

TEXTS, WORDS, SEEN = 12, 6000, 40


class Model(nn.Module):
    def forward(self, scores, seen, penalty):
        found = scores.gather(1, seen)
        lowered = torch.where(found > 0, found / penalty[:, None], found * penalty[:, None])
        return scores.scatter(1, seen, lowered)


def get_inputs():
    seen = torch.rand(TEXTS, WORDS).argsort(dim=1)[:, :SEEN]
    return [torch.randn(TEXTS, WORDS), seen, 1 + torch.rand(TEXTS)]


def get_init_inputs():
    return []
