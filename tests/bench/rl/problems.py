"""Problems of the grammar, each with the Triton kernels that solve it whole
(`fused`) or in part (`part`).
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from textwrap import indent

HEAD = "import torch\nfrom torch import nn\n"
TRITON_HEAD = "import torch\nimport triton\nimport triton.language as tl\nfrom torch import nn\n"


@dataclass(frozen=True, kw_only=True)
class Family:
    """A problem and its kernels, as templates; `$rows` and `$columns` are its shape."""

    name: str
    arguments: str
    """Arguments of forward."""
    parameters: str = "pass"
    """Statement of the constructor, the same in reference and candidates."""
    steps: str
    """Body of the reference's forward."""
    inputs: str
    fused_kernel: str
    fused_call: str
    part_kernel: str
    part_call: str

    def reference(self, rows: int, columns: int) -> str:
        """Source of the reference."""
        inputs = (
            f"def get_inputs():\n    return [{self.inputs}]\n\n\ndef get_init_inputs():\n    return"
            " []\n"
        )
        text = f"{HEAD}\n\n{self.module('Model', self.steps)}\n\n{inputs}"
        return Template(text).substitute(rows=rows, columns=columns)

    def library(self, columns: int) -> str:
        """The reference's steps under the candidate's name."""
        return Template(f"{HEAD}\n\n{self.module('ModelNew', self.steps)}").substitute(
            columns=columns
        )

    def fused(self, columns: int, *, tile: int, warps: int, per_program: int, masked: bool) -> str:
        """One kernel for everything.  `per_program`: rows or tiles that a program
        does one after the other.
        """
        text = f"{TRITON_HEAD}\n\n{self.fused_kernel}\n\n{self.module('ModelNew', self.fused_call)}"
        return filled(text, columns, tile=tile, warps=warps, per_program=per_program, masked=masked)

    def part(self, columns: int, *, tile: int, warps: int) -> str:
        """A kernel for one step, the library for the others."""
        text = f"{TRITON_HEAD}\n\n{self.part_kernel}\n\n{self.module('ModelNew', self.part_call)}"
        return filled(text, columns, tile=tile, warps=warps, per_program=1, masked=True)

    def module(self, name: str, forward: str) -> str:
        """A module with that forward."""
        return (
            f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n      "
            f"  {self.parameters}\n\n    def forward(self,"
            f" {self.arguments}):\n{indent(forward, ' ' * 8)}"
        )


def filled(
    text: str, columns: int, *, tile: int, warps: int, per_program: int, masked: bool
) -> str:
    """The text with its placeholders filled."""
    return Template(text).substitute(
        columns=columns,
        tile=tile,
        warps=warps,
        per_program=per_program,
        inside=", mask=inside" if masked else "",
        zero=", mask=inside, other=0.0" if masked else "",
        least=', mask=inside, other=float("-inf")' if masked else "",
    )


_GATED_NORM = """\
@triton.jit
def gated_norm(x_ptr, weight_ptr, out_ptr, columns, TILE: tl.constexpr, PER_PROGRAM: tl.constexpr):
    for each in range(PER_PROGRAM):
        row = tl.program_id(0) * PER_PROGRAM + each
        squares = tl.zeros([TILE], dtype=tl.float32)
        for start in range(0, columns, TILE):
            column = start + tl.arange(0, TILE)
            inside = column < columns
            x = tl.load(x_ptr + row * columns + column$zero)
            gated = x * tl.sigmoid(x)
            squares += gated * gated
        scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / columns + 1e-6)
        for start in range(0, columns, TILE):
            column = start + tl.arange(0, TILE)
            inside = column < columns
            x = tl.load(x_ptr + row * columns + column$zero)
            weight = tl.load(weight_ptr + column$zero)
            tl.store(out_ptr + row * columns + column, x * tl.sigmoid(x) * scale * weight$inside)
"""
_SOFTMAX_GATE = """\
@triton.jit
def softmax_gate(x_ptr, out_ptr, columns, TILE: tl.constexpr, PER_PROGRAM: tl.constexpr):
    for each in range(PER_PROGRAM):
        row = tl.program_id(0) * PER_PROGRAM + each
        most = tl.full([TILE], float("-inf"), dtype=tl.float32)
        for start in range(0, columns, TILE):
            column = start + tl.arange(0, TILE)
            inside = column < columns
            most = tl.maximum(most, 0.5 * tl.load(x_ptr + row * columns + column$least))
        top = tl.max(most, axis=0)
        total = tl.zeros([TILE], dtype=tl.float32)
        for start in range(0, columns, TILE):
            column = start + tl.arange(0, TILE)
            inside = column < columns
            total += tl.exp(0.5 * tl.load(x_ptr + row * columns + column$least) - top)
        share = 1.0 / tl.sum(total, axis=0)
        for start in range(0, columns, TILE):
            column = start + tl.arange(0, TILE)
            inside = column < columns
            x = tl.load(x_ptr + row * columns + column$zero)
            tl.store(out_ptr + row * columns + column, tl.exp(0.5 * x - top) * share * x$inside)
"""
_GELU_RESIDUAL = """\
@triton.jit
def gelu_residual(
    x_ptr, residual_ptr, out_ptr, size, TILE: tl.constexpr, PER_PROGRAM: tl.constexpr
):
    for each in range(PER_PROGRAM):
        index = (tl.program_id(0) * PER_PROGRAM + each) * TILE + tl.arange(0, TILE)
        inside = index < size
        x = tl.load(x_ptr + index$zero)
        inner = 0.79788456 * (x + 0.044715 * x * x * x)
        gelu = x * tl.sigmoid(2.0 * inner)
        tl.store(out_ptr + index, gelu + tl.load(residual_ptr + index$zero)$inside)
"""

_FAMILIES = (
    Family(
        name="gated_norm",
        arguments="x",
        parameters="self.weight = nn.Parameter(torch.linspace(0.5, 1.5, $columns))",
        steps="""\
gated = x * torch.sigmoid(x)
return gated * torch.rsqrt(gated.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * self.weight
""",
        inputs="torch.randn($rows, $columns)",
        fused_kernel=_GATED_NORM,
        fused_call="""\
out = torch.empty_like(x)
grid = (x.shape[0] // $per_program,)
gated_norm[grid](
    x, self.weight, out, x.shape[1], TILE=$tile, PER_PROGRAM=$per_program, num_warps=$warps
)
return out
""",
        part_kernel="""\
@triton.jit
def gate(x_ptr, out_ptr, size, TILE: tl.constexpr):
    index = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = index < size
    x = tl.load(x_ptr + index$zero)
    tl.store(out_ptr + index, x * tl.sigmoid(x)$inside)
""",
        part_call="""\
gated = torch.empty_like(x)
gate[(triton.cdiv(x.numel(), $tile),)](x, gated, x.numel(), TILE=$tile, num_warps=$warps)
return gated * torch.rsqrt(gated.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * self.weight
""",
    ),
    Family(
        name="softmax_gate",
        arguments="x",
        steps="return torch.softmax(0.5 * x, dim=-1) * x\n",
        inputs="torch.randn($rows, $columns)",
        fused_kernel=_SOFTMAX_GATE,
        fused_call="""\
out = torch.empty_like(x)
grid = (x.shape[0] // $per_program,)
softmax_gate[grid](x, out, x.shape[1], TILE=$tile, PER_PROGRAM=$per_program, num_warps=$warps)
return out
""",
        part_kernel="""\
@triton.jit
def multiply(share_ptr, x_ptr, out_ptr, size, TILE: tl.constexpr):
    index = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = index < size
    x = tl.load(x_ptr + index$zero)
    tl.store(out_ptr + index, x * tl.load(share_ptr + index$zero)$inside)
""",
        part_call="""\
out, share = torch.empty_like(x), torch.softmax(0.5 * x, dim=-1)
multiply[(triton.cdiv(x.numel(), $tile),)](share, x, out, x.numel(), TILE=$tile, num_warps=$warps)
return out
""",
    ),
    Family(
        name="gelu_residual",
        arguments="x, residual",
        steps="""\
inner = 0.79788456 * (x + 0.044715 * x * x * x)
return residual + 0.5 * x * (1.0 + torch.tanh(inner))
""",
        inputs="torch.randn($rows * $columns - 3), torch.randn($rows * $columns - 3)",
        fused_kernel=_GELU_RESIDUAL,
        fused_call="""\
out = torch.empty_like(x)
grid = (triton.cdiv(x.numel(), $tile * $per_program),)
gelu_residual[grid](
    x, residual, out, x.numel(), TILE=$tile, PER_PROGRAM=$per_program, num_warps=$warps
)
return out
""",
        part_kernel="""\
@triton.jit
def polynomial(x_ptr, out_ptr, size, TILE: tl.constexpr):
    index = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = index < size
    x = tl.load(x_ptr + index$zero)
    tl.store(out_ptr + index, 0.79788456 * (x + 0.044715 * x * x * x)$inside)
""",
        part_call="""\
inner = torch.empty_like(x)
polynomial[(triton.cdiv(x.numel(), $tile),)](x, inner, x.numel(), TILE=$tile, num_warps=$warps)
return residual + 0.5 * x * (1.0 + torch.tanh(inner))
""",
    ),
)
PROBLEMS = {family.name: family for family in _FAMILIES}
