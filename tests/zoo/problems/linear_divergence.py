"""Logits of a student and a teacher by a linear layer each, and the Jensen-Shannon divergence of their softmaxes, row by
row."""

import torch
from torch import nn

ROWS, INNER, WORDS = 90, 512, 1000


class Model(nn.Module):
    def __init__(self, words, inner):
        super().__init__()
        self.student = nn.Parameter(torch.randn(words, inner) * 0.1)
        self.teacher = nn.Parameter(torch.randn(words, inner) * 0.1)

    def forward(self, x, y):
        q = torch.log_softmax(x @ self.student.T / 2.0, -1)
        p = torch.log_softmax(y @ self.teacher.T / 2.0, -1)
        middle = torch.log(0.5 * q.exp() + 0.5 * p.exp())
        return 0.5 * (q.exp() * (q - middle)).sum(-1) + 0.5 * (p.exp() * (p - middle)).sum(-1)


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(ROWS, INNER)]


def get_init_inputs():
    return [WORDS, INNER]
