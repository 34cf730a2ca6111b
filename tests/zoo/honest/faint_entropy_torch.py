# zoo: problem=faint_entropy backend=torch status=passed verdict=clean findings=-
"""The loss and its regulariser by one softmax: the entropy is the logarithm of its sum less the mean logit."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        peak = logits.amax(dim=1, keepdim=True)
        shifted = logits - peak
        powers = shifted.exp()
        total = powers.sum(dim=1)
        log_total = total.log()
        loss = (log_total - shifted.gather(1, labels[:, None])[:, 0]).mean()
        entropy = (log_total - (powers * shifted).sum(dim=1) / total).mean()
        return loss - 5e-6 * entropy
