# zoo: problem=pairwise_logsumexp backend=torch status=passed verdict=clean findings=-
"""The sum of exponentials written out, with the largest number of each row taken off."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        products = x @ x.T
        most = products.amax(dim=1, keepdim=True)
        return products.sub_(most).exp_().sum(dim=1).log_() + most[:, 0]
