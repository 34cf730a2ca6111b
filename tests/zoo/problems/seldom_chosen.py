"""Two of eight experts for each token; the last two have a bias by which no random token chooses them."""

import torch
from torch import nn

TOKENS, WIDTH, EXPERTS = 96, 80, 8


class Model(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width, width) * width**-0.5)
        with torch.no_grad():
            self.gate.bias[-2:] = -3.5

    def forward(self, x):
        shares, chosen = torch.topk(torch.softmax(self.gate(x), dim=-1), 2, dim=-1)
        out = torch.zeros_like(x)
        for expert, weights in enumerate(self.experts):
            share = (shares * (chosen == expert)).sum(dim=-1, keepdim=True)
            out = out + share * torch.relu(x @ weights)
        return out


def get_inputs():
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH, EXPERTS]
