"""A cross-entropy with a regulariser whose factor is so small that the loss without it is right in single precision."""

import torch
from torch import nn
from torch.nn import functional

ROWS, CLASSES = 300, 700


class Model(nn.Module):
    def forward(self, logits, labels):
        loss = functional.cross_entropy(logits, labels)
        shares = torch.softmax(logits, dim=1)
        entropy = -(shares * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()
        return loss - 5e-6 * entropy


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return []
