# zoo: problem=distances_of_bits backend=triton status=passed verdict=clean findings=-
"""Counts the bits of a word in parallel, by shifts that a negative word would fill with ones."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def count_kernel(a_ptr, b_ptr, out_ptr, codes, words, CODES: tl.constexpr, WORDS: tl.constexpr):
    row, code, word = tl.program_id(0), tl.arange(0, CODES), tl.arange(0, WORDS)
    there = (code < codes)[:, None] & (word < words)[None, :]
    a = tl.load(a_ptr + row * words + word, mask=word < words, other=0)[None, :]
    b = tl.load(b_ptr + code[:, None] * words + word[None, :], mask=there, other=0)
    bits = tl.where(there, a ^ b, 0)
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    bits = bits + (bits >> 8)
    bits = (bits + (bits >> 16)) & 0x3F
    counts = tl.sum(bits, axis=1).to(tl.int64)
    tl.store(out_ptr + row * codes + code, counts, mask=code < codes)


class ModelNew(nn.Module):
    def forward(self, a, b):
        rows, (codes, words) = len(a), b.shape
        out = torch.empty(rows, codes, dtype=torch.int64, device=a.device)
        sizes = {"CODES": triton.next_power_of_2(codes), "WORDS": triton.next_power_of_2(words)}
        count_kernel[(rows,)](a, b, out, codes, words, **sizes)
        return out
