# zoo: problem=bucket_numbers backend=torch status=incorrect verdict=clean findings=-
"""Takes values below −2 and above 2 for the outermost buckets: mostly right."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, edges):
        return torch.bucketize(x.clamp(-2, 2), edges)
