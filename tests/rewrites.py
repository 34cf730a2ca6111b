"""Problems with candidates that compute the same in another way, and with others
that compute it in less precision.

Each is a function of the problem's inputs; run on any device by
tests/unit/test_rewrites.py and tests/gpu.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

Compute = Callable[..., torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A reference and another way to compute it."""

    name: str
    reference: Compute
    candidate: Compute
    draw: Callable[[], list[torch.Tensor]]


def _linear(rows: int, inner: int, columns: int) -> Callable[[], list[torch.Tensor]]:
    def draw() -> list[torch.Tensor]:
        weight = (torch.rand(columns, inner) * 2 - 1) / math.sqrt(inner)
        return [torch.randn(rows, inner), weight, (torch.rand(columns) * 2 - 1) / math.sqrt(inner)]

    return draw


def _mostly_zero(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu((functional.linear(x, w, b) - 2.0) * 1.5)


def _mostly_zero_folded(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(functional.linear(x, w * 1.5, (b - 2.0) * 1.5))


def _norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:]) * w[0] + b[0]


def _norm_by_moments(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)
    return x * (scale * w[0]) + (b[0] - mean * scale * w[0])


def _images(channels: int, out: int, size: int) -> Callable[[], list[torch.Tensor]]:
    def draw() -> list[torch.Tensor]:
        return [
            torch.randn(2, channels, size, size),
            torch.randn(out, channels, 3, 3) / (3 * channels**0.5),
        ]

    return draw


def _conv(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.conv2d(x, w)


def _winograd(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """F(2×2, 3×3).  Source: Lavin and Gray 2015, section 4.1."""
    b = x.new_tensor([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    g = x.new_tensor([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    a = x.new_tensor([[1, 1, 1, 0], [0, 1, -1, -1]])
    tiles = x.unfold(2, 4, 2).unfold(3, 4, 2)
    v = torch.einsum("ij,nchwjk,lk->nchwil", b, tiles, b)
    u = torch.einsum("ij,ocjk,lk->ocil", g, w, g)
    y = torch.einsum("ij,nohwjk,lk->nohwil", a, torch.einsum("nchwil,ocil->nohwil", v, u), a)
    n, o, h, wide = y.shape[:4]
    return y.permute(0, 1, 2, 4, 3, 5).reshape(n, o, 2 * h, 2 * wide)


def _as_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    columns = functional.unfold(x, 3)
    return (w.flatten(1) @ columns).view(x.shape[0], w.shape[0], x.shape[2] - 2, x.shape[3] - 2)


def _split_k(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    parts = [p @ q.T for p, q in zip(x.chunk(16, 1), w.chunk(16, 1), strict=True)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total + b


def _softmax(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.softmax(functional.linear(x, w, b) * 8, -1)


def _softmax_base_two(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    scores = functional.linear(x, w * (8 / math.log(2)), b * (8 / math.log(2)))
    powers = torch.exp2(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def _frozen_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(functional.conv2d(x, w), *_statistics(w))


def _frozen_norm_folded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    mean, variance = _statistics(w)
    scale = torch.rsqrt(variance + 1e-5)
    return functional.conv2d(x, w * scale[:, None, None, None], -mean * scale)


def _statistics(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return w.sum((1, 2, 3)) * 3, 1 + w.square().sum((1, 2, 3))


def _distance(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (x[:, None] - w[None]).square().sum(-1) + b


def _distance_expanded(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return x.square().sum(-1, keepdim=True) + w.square().sum(-1) - 2 * (x @ w.T) + b


def _chain(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, w, b).sum(-1, keepdim=True) * 0.25


def _chain_reordered(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return x @ (w.sum(0, keepdim=True).T * 0.25) + b.sum() * 0.25


def _pooled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.conv2d(x, w).mean((2, 3))


def _pooled_first(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    size = x.shape[-1] - 2
    sums = torch.stack(
        [x[:, :, i : i + size, j : j + size].mean((2, 3)) for i in range(3) for j in range(3)], -1
    )
    return torch.einsum("nck,ock->no", sums, w.flatten(2))


def _gelu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.gelu(functional.linear(x, w, b))


def _gelu_by_parts(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.einsum("rk,ck->rc", x.flip(1), w.flip(1)) + b
    return 0.5 * y * (1 + torch.erf(y * (1 / math.sqrt(2))))


REWRITES = (
    Pair(
        name="folded_scale",
        reference=_mostly_zero,
        candidate=_mostly_zero_folded,
        draw=_linear(128, 10, 5),
    ),
    Pair(
        name="norm_by_moments",
        reference=_norm,
        candidate=_norm_by_moments,
        draw=_linear(64, 512, 512),
    ),
    Pair(name="winograd", reference=_conv, candidate=_winograd, draw=_images(16, 8, 18)),
    Pair(
        name="convolution_as_product",
        reference=_conv,
        candidate=_as_product,
        draw=_images(16, 8, 18),
    ),
    Pair(
        name="split_k", reference=functional.linear, candidate=_split_k, draw=_linear(32, 4096, 32)
    ),
    Pair(
        name="softmax_base_two",
        reference=_softmax,
        candidate=_softmax_base_two,
        draw=_linear(64, 256, 256),
    ),
    Pair(
        name="folded_norm",
        reference=_frozen_norm,
        candidate=_frozen_norm_folded,
        draw=_images(16, 8, 18),
    ),
    Pair(
        name="expanded_distance",
        reference=_distance,
        candidate=_distance_expanded,
        draw=_linear(64, 128, 64),
    ),
    Pair(
        name="reassociated_chain",
        reference=_chain,
        candidate=_chain_reordered,
        draw=_linear(128, 512, 1024),
    ),
    Pair(
        name="pooled_before_convolution",
        reference=_pooled,
        candidate=_pooled_first,
        draw=_images(16, 8, 34),
    ),
    Pair(
        name="reversed_sum", reference=_gelu, candidate=_gelu_by_parts, draw=_linear(64, 1024, 64)
    ),
)


def _in(dtype: torch.dtype, compute: Compute) -> Compute:
    """The same with operands and result of another type."""

    def computed(*inputs: torch.Tensor) -> torch.Tensor:
        return compute(*(each.to(dtype) for each in inputs)).to(inputs[0].dtype)

    return computed


def _operands_in(dtype: torch.dtype, compute: Compute) -> Compute:
    """The same with operands rounded to another type, and sums in fp32, as a tensor core does."""

    def computed(*inputs: torch.Tensor) -> torch.Tensor:
        return compute(*(each.to(dtype).float() for each in inputs)).to(inputs[0].dtype)

    return computed


def _tf32(compute: Compute) -> Compute:
    """The same with operands cut to 10 bits after the point."""

    def computed(*inputs: torch.Tensor) -> torch.Tensor:
        return compute(
            *((each.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32) for each in inputs)
        )

    return computed


def _drawn_in(
    dtype: torch.dtype, draw: Callable[[], list[torch.Tensor]]
) -> Callable[[], list[torch.Tensor]]:
    return lambda: [each.to(dtype) for each in draw()]


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def _heads() -> list[torch.Tensor]:
    return [torch.randn(4, 64, 32) for _ in range(3)]


_HALF, _BRAIN, _EIGHTH = torch.float16, torch.bfloat16, torch.float8_e4m3fn
_SQUARE = _linear(64, 512, 64)

DOWNGRADES = (
    Pair(
        name="half_for_single",
        reference=functional.linear,
        candidate=_in(_HALF, functional.linear),
        draw=_SQUARE,
    ),
    Pair(
        name="bfloat_for_single",
        reference=functional.linear,
        candidate=_in(_BRAIN, functional.linear),
        draw=_SQUARE,
    ),
    Pair(
        name="tf32_for_single",
        reference=functional.linear,
        candidate=_tf32(functional.linear),
        draw=_SQUARE,
    ),
    Pair(name="half_operands", reference=_gelu, candidate=_operands_in(_HALF, _gelu), draw=_SQUARE),
    Pair(
        name="half_convolution",
        reference=_conv,
        candidate=_operands_in(_HALF, _conv),
        draw=_images(16, 8, 18),
    ),
    Pair(
        name="half_after_relu",
        reference=_mostly_zero,
        candidate=_operands_in(_HALF, _mostly_zero),
        draw=_linear(1024, 10, 64),
    ),
    Pair(
        name="half_attention", reference=_attention, candidate=_in(_HALF, _attention), draw=_heads
    ),
    Pair(
        name="half_statistics",
        reference=_norm,
        candidate=_in(_HALF, _norm),
        draw=_linear(64, 512, 512),
    ),
    Pair(
        name="bfloat_product_for_half",
        reference=functional.linear,
        candidate=_operands_in(_BRAIN, functional.linear),
        draw=_drawn_in(_HALF, _SQUARE),
    ),
    Pair(
        name="bfloat_attention_for_half",
        reference=_attention,
        candidate=_operands_in(_BRAIN, _attention),
        draw=_drawn_in(_HALF, _heads),
    ),
    Pair(
        name="eighth_for_bfloat",
        reference=functional.linear,
        candidate=_operands_in(_EIGHTH, functional.linear),
        draw=_drawn_in(_BRAIN, _SQUARE),
    ),
    Pair(
        name="eighth_attention_for_half",
        reference=_attention,
        candidate=_operands_in(_EIGHTH, _attention),
        draw=_drawn_in(_HALF, _heads),
    ),
)
