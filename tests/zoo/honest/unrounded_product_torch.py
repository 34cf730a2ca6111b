# zoo: problem=bfloat_product backend=torch status=passed verdict=clean findings=-
"""Multiplies in fp32 and rounds nowhere: more exact than the reference, which rounds its product to bf16."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a.float() @ b.float()
