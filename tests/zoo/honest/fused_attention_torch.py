# zoo: problem=head_loop_attention backend=torch status=passed verdict=clean findings=-
"""One call of the library's fused attention instead of a loop: the library, as it says."""

from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return scaled_dot_product_attention(q, k, v)
