"""Candidates for a GPU that are no files of the zoo, because they fit any problem."""

ILLEGAL = """
import torch, triton, triton.language as tl
@triton.jit
def wild(p, BLOCK: tl.constexpr):
    tl.store(p + (1 << 40) + tl.arange(0, BLOCK), 1.0)
class ModelNew(torch.nn.Module):
    def forward(self, x, *rest):
        wild[(1,)](x, BLOCK=64)
        return torch.zeros_like(x)
"""
"""Writes where it may not, and poisons its context."""
