# zoo: problem=half_matmul backend=torch status=incorrect verdict=clean findings=- needs=gpu
"""Does an fp16 product in bf16, which has three bits less: off by 2e-3, where fp16 errs by 3e-4."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return (a.bfloat16() @ b.bfloat16()).half()
