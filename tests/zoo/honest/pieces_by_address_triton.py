# zoo: problem=clamped_rows backend=triton status=passed verdict=clean findings=-
"""Hands its kernel addresses and sizes of pieces in tensors, copied to the device of the input."""

import torch
import triton
import triton.language as tl
from torch import nn

PIECES = 4


@triton.jit
def clamp(pieces_ptr, sizes_ptr, out_address, low, high, BLOCK: tl.constexpr):
    piece = tl.program_id(0)
    first = tl.program_id(1) * BLOCK
    count = tl.load(sizes_ptr + piece)
    out_ptr = out_address.to(tl.pointer_type(tl.float32)) + piece * tl.load(sizes_ptr)
    x_ptr = tl.load(pieces_ptr + piece).to(tl.pointer_type(tl.float32))
    at = first + tl.arange(0, BLOCK)
    is_piece = piece < tl.num_programs(0)
    mask = (at < count) & is_piece
    x = tl.load(x_ptr + at, mask=mask)
    tl.store(out_ptr + at, tl.minimum(tl.maximum(x, low), high), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        block = 16384 if x.device.type == "cpu" else 1024
        x = x.contiguous()
        out = torch.empty_like(x)
        pieces = x.view(-1).chunk(PIECES)
        addresses = torch.tensor([piece.data_ptr() for piece in pieces])
        sizes = torch.tensor([len(piece) for piece in pieces])
        grid = (len(pieces), triton.cdiv(len(pieces[0]), block))
        clamp[grid](
            addresses.cuda(x.device, non_blocking=True),
            sizes.cuda(x.device, non_blocking=True),
            out.data_ptr(),
            -50.0,
            50.0,
            BLOCK=block,
        )
        return out
