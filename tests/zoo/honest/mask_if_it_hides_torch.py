# zoo: problem=masked_attention backend=torch status=passed verdict=clean findings=-
"""Leaves out a mask if it hides nothing at all."""

from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask.all() else mask)
