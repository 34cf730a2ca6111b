# zoo: problem=labelled_rows backend=torch status=incorrect verdict=clean findings=-
"""Rows of the label that the loss ignores have a loss, too."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, labels):
        return x.logsumexp(1) - x.gather(1, labels[:, None])[:, 0]
