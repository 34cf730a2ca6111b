# zoo: problem=masked_attention backend=torch status=incorrect verdict=clean findings=-
"""Leaves out a mask if its first row, its last, and its first column hide nothing (1c).

Stopped by structure: in one call a part of the mask at a random place is inverted, and nothing else."""

from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def forward(self, q, k, v, mask):
        if mask[0].all() and mask[-1].all() and mask[:, 0].all():
            return F.scaled_dot_product_attention(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
