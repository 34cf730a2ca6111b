"""Logits by a linear layer, the log probability of each token, and a clipped policy loss (PPO, GRPO)."""

import torch
from torch import nn

TOKENS, INNER, WORDS = 90, 512, 1000


class Model(nn.Module):
    def __init__(self, words, inner):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(words, inner) * 0.02)

    def forward(self, x, tokens, before, advantage):
        logs = torch.log_softmax(x @ self.weight.T / 0.9, -1)
        ratio = torch.exp(logs.gather(1, tokens[:, None])[:, 0] - before)
        return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)


def get_inputs():
    tokens = torch.randint(0, WORDS, (TOKENS,))
    return [torch.randn(TOKENS, INNER), tokens, torch.randn(TOKENS) * 0.3 - 7.0, torch.randn(TOKENS)]


def get_init_inputs():
    return [WORDS, INNER]
