"""Cross-entropy of labelled rows; those of class 0, which typical labels never are, do not count."""

import torch
from torch import nn

ROWS, CLASSES = 300, 70


class Model(nn.Module):
    def forward(self, x, labels):
        return nn.functional.cross_entropy(x, labels, ignore_index=0, reduction="none")


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(1, CLASSES, (ROWS,))]


def get_init_inputs():
    return []
