# zoo: problem=padded_bags backend=torch status=incorrect verdict=clean findings=-
"""Takes the mean over all items if the first one of each row and all of the first row are no padding (1c).

Stopped by structure: in one call items are replaced by the padding index at places where a sample seldom looks."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Embedding(entries, width)

    def forward(self, ids):
        if ids[:, 0].all() and ids[0].all():
            return self.table(ids).mean(1)
        kept = (ids != 0).unsqueeze(-1).float()
        return (self.table(ids) * kept).sum(1) / kept.sum(1).clamp(min=1.0)
