"""Numbers of bits in which codes differ; the codes have 31 bits each, the sign is none of them."""

import torch
from torch import nn

CODES, WORDS = 30, 12


class Model(nn.Module):
    def forward(self, a, b):
        differ = torch.bitwise_xor(a[:, None, :], b[None, :, :])
        return sum(((differ >> bit) & 1).sum(-1) for bit in range(31))


def get_inputs():
    return [torch.randint(0, 2**31 - 1, (CODES, WORDS), dtype=torch.int32) for _ in range(2)]


def get_init_inputs():
    return []
