# zoo: problem=faint_entropy backend=torch status=passed verdict=suspect findings=ignores_weights
"""A loss without its regulariser, by which it changes less than an error that is allowed (1c).

Detected by `ignores_weights`: on inputs of other kinds, too, its error is the regulariser."""

from torch import nn
from torch.nn import functional


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        return functional.cross_entropy(logits, labels)
