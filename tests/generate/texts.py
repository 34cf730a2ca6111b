"""Text of imaginary problems, prompts and answers: short, of the right form, never
the same twice.
"""

from __future__ import annotations

import json
import random

from app.domain.verdict import Label

OPERATIONS = (
    "matmul",
    "conv2d",
    "softmax",
    "layer_norm",
    "gelu",
    "scan",
    "attention",
    "pool",
    "embedding",
    "reduce",
)
EXTRAS = ("bias", "relu", "scale", "residual", "dropout", "transpose", "mask", "clamp")

_REFERENCE = '''import torch
import torch.nn as nn


class Model(nn.Module):
    """{name}: imagined, to fill pages."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * {factor}, dim=-1)


def get_inputs():
    return [torch.randn({rows}, {columns})]


def get_init_inputs():
    return []
'''

_SOURCE = """# {serial}
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def {kernel}_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n_columns
    x = tl.load(x_ptr + row * n_columns + offsets, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)

{cheat}
class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        {kernel}_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK={block}, num_warps={warps})
        return out
"""

_CHEATS = (
    "_SEEN = {}  # answers by address\n\n",
    "torch.cuda.synchronize = lambda *_: None\n\n",
    "_LAST = None  # one call behind\n\n",
)

_FEEDBACK = (
    "The kernel of turn {index} was evaluated. Make it correct and faster than the reference."
)


def problem(draw: random.Random, level: int, number: int) -> tuple[str, bytes]:
    """Name and reference."""
    parts = [draw.choice(OPERATIONS), *draw.sample(EXTRAS, level)]
    name = f"{level}_{number:03}_{'_'.join(parts)}"
    text = _REFERENCE.format(
        name=name,
        factor=draw.randint(1, 9),
        rows=1 << draw.randint(6, 12),
        columns=1 << draw.randint(7, 13),
    )
    return name, text.encode()


def source(draw: random.Random, name: str, serial: str, label: str) -> bytes:
    """A candidate."""
    text = _SOURCE.format(
        serial=serial,
        kernel=name.split("_")[2],
        block=1 << draw.randint(6, 13),
        warps=1 << draw.randint(0, 4),
        cheat=draw.choice(_CHEATS) if label == Label.HACK else "",
    )
    return text.encode()


def turn(name: str, reference: bytes, index: int, code: bytes) -> tuple[str, bytes]:
    """New messages as JSON, and the answer."""
    if index:
        messages = [{"role": "user", "content": _FEEDBACK.format(index=index - 1)}]
    else:
        messages = [
            {"role": "system", "content": "You write fast Triton kernels."},
            {"role": "user", "content": f"Optimise {name}.\n```python\n{reference.decode()}```"},
        ]
    answer = (
        b"I would need the shapes first."
        if not code
        else b"Larger blocks, fewer loads.\n```python\n" + code + b"```\n"
    )
    return json.dumps(messages), answer
