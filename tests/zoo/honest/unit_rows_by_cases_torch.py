# zoo: problem=unit_rows_cases backend=torch status=passed verdict=clean findings=-
"""The library's normalisation, for a problem that has answers and no model: right in every case."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.normalize(x, dim=1)
