"""From a loss matrix (rows, tokens) to a scalar."""

from __future__ import annotations

from enum import StrEnum

import torch


class Aggregation(StrEnum):
    """Names of verl and KernelGYM."""

    TOKEN_MEAN = "token-mean"  # noqa: S105 (no password)
    """Mean over all tokens: long rows weigh more."""
    SEQ_MEAN_TOKEN_SUM = "seq-mean-token-sum"  # noqa: S105
    """Sum per row, mean over rows that have tokens: Dr. Kernel's choice, divided by 1000."""
    SEQ_MEAN_TOKEN_MEAN = "seq-mean-token-mean"  # noqa: S105
    """Mean per row, mean over rows that have tokens: tokens of long rows weigh less."""
    SEQ_SUM_OVER_LENGTH = "seq-mean-token-sum-norm"
    """Sum over all tokens divided by the width of the matrix (KernelGYM, Dr. GRPO).
    verl also divides by rows.
    """
    TOKEN_SUM = "seq-sum-no-norm"  # noqa: S105 (no password)
    """Sum over all tokens."""


def masked_sum(values: torch.Tensor, mask: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """Sum over unmasked elements, in float32 at least; NaN and infinities outside of
    the mask do not count.

    Source: `masked_sum` of verl's torch_functional.py, which keeps the precision of `values`: in
    bfloat16 the sum of 1,001 ones is 1,000, and a ratio of 1.002 is 1.
    """
    dtype = torch.promote_types(values.dtype, torch.float32)
    return (torch.where(mask.bool(), values, 0).to(dtype) * mask).sum(dim=dim)


def tokens(mask: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """Number of unmasked elements, in float32 at least."""
    return masked_sum(torch.ones_like(mask), mask, dim=dim)


def masked_mean(values: torch.Tensor, mask: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """Mean over unmasked elements; 0 where there are none."""
    return masked_sum(values, mask, dim=dim) / tokens(mask, dim=dim).clamp(min=1)


def aggregate(
    losses: torch.Tensor,
    mask: torch.Tensor,
    mode: Aggregation,
    *,
    divisor: float | None = None,
    scale: float = 1.0,
) -> torch.Tensor:
    """Scalar loss of a matrix (rows, tokens) over `scale`.

    `divisor` replaces the number of tokens (TOKEN_MEAN), of rows with tokens (SEQ_MEAN_…) or the
    width (SEQ_SUM_OVER_LENGTH).  Give the number of *trajectories* for an unbiased gradient of
    multi-turn data: where a row is a turn, the number of rows depends on the actions, and the mean
    over rows is biased (app/domain/credit/README.md).  Without any token the loss is 0, where verl
    0.9.1 has 0/0.  Source: `agg_loss` of KernelGYM
    (drkernel/verl_patch/trainer/code/ppo/core_algos.py) and verl.
    """
    rows = (mask.sum(dim=-1) > 0).sum()
    match mode:
        case Aggregation.TOKEN_MEAN:
            total, count = masked_sum(losses, mask), tokens(mask)
        case Aggregation.SEQ_MEAN_TOKEN_SUM:
            total, count = masked_sum(losses, mask), rows
        case Aggregation.SEQ_MEAN_TOKEN_MEAN:
            total, count = masked_mean(losses, mask, dim=-1).sum(), rows
        case Aggregation.SEQ_SUM_OVER_LENGTH:
            total, count = masked_sum(losses, mask), torch.tensor(mask.shape[-1])
        case Aggregation.TOKEN_SUM:
            total, count = masked_sum(losses, mask), torch.tensor(1)
    return total / (count.clamp(min=1) if divisor is None else divisor) / scale
