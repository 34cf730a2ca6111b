# zoo: problem=causal_by_flag backend=torch status=incorrect verdict=clean findings=-
"""Is always causal and does not read the flag, which is set in every draw (1c)."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v, is_causal):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
