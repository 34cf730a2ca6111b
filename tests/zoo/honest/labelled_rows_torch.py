# zoo: problem=labelled_rows backend=torch status=passed verdict=clean findings=-
"""The logarithm of a row's sum less the labelled element, zero for ignored labels."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, labels):
        losses = x.logsumexp(1) - x.gather(1, labels[:, None])[:, 0]
        return losses * (labels != 0)
