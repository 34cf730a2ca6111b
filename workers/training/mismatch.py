"""Mismatch between the trainer's and the rollout engine's probabilities: rejection,
veto, weights, metrics.

`log_train_over_rollout` is log π_train − log π_rollout per token, (rows, tokens): positive
where the trainer finds a token more likely.  verl ≥ 0.8 bounds the inverse ratio; its
bounds [a, b] are [1/b, 1/a] here.

`trajectory` numbers the trajectory of each row, (rows,), from 0; without it every row is
one.  Sources: KernelGYM (drkernel/verl_patch/trainer/code/ppo/mismatch_helper.py), verl
0.9.1 (rollout_corr_helper.py).
"""

from __future__ import annotations

import math
from enum import StrEnum

import torch

from workers.training.aggregate import masked_mean, masked_sum, tokens

MOST_LOG = 20.0
"""Log ratios are clamped to ± this before exp, as in KernelGYM, verl and SkyRL."""


class Level(StrEnum):
    """Unit that shares one ratio; names of KernelGYM's `rollout_rs`."""

    TOKEN = "token"  # noqa: S105 (no password)
    TURN = "turn"
    """Product over the row's tokens."""
    TURN_GEOMETRIC = "turn_geo"
    """Geometric mean over the row's tokens."""
    SEQUENCE = "sequence"
    """Product over all tokens of the trajectory."""
    GEOMETRIC = "geometric"
    """Geometric mean over all tokens of the trajectory: Dr. Kernel's MRS."""


def ratios(
    log_train_over_rollout: torch.Tensor,
    mask: torch.Tensor,
    level: Level,
    trajectory: torch.Tensor | None = None,
) -> torch.Tensor:
    """π_train / π_rollout of each token's unit, (rows, tokens), in float32 at least;
    1 for a unit without tokens.

    bfloat16 has no number between 0.996 and 1.008 beside 1, so that bounds such as [0.999,
    1.001] would pass all of them, as they do in KernelGYM, which keeps the precision of its
    argument (verl compares logarithms).
    """
    if level is Level.TOKEN:
        dtype = torch.promote_types(log_train_over_rollout.dtype, torch.float32)
        return log_train_over_rollout.to(dtype).clamp(-MOST_LOG, MOST_LOG).exp()
    total, count = masked_sum(log_train_over_rollout, mask, dim=-1), tokens(mask, dim=-1)
    if level in {Level.SEQUENCE, Level.GEOMETRIC} and trajectory is not None:
        units = int(trajectory.max()) + 1 if trajectory.numel() else 0
        total = total.new_zeros(units).index_add(0, trajectory, total)[trajectory]
        count = count.new_zeros(units).index_add(0, trajectory, count)[trajectory]
    if level in {Level.TURN_GEOMETRIC, Level.GEOMETRIC}:
        total = total / count.clamp(min=1)
    return total.clamp(-MOST_LOG, MOST_LOG).exp().unsqueeze(-1).expand_as(log_train_over_rollout)


@torch.no_grad()
def rejection_mask(
    log_train_over_rollout: torch.Tensor,
    mask: torch.Tensor,
    *,
    level: Level = Level.GEOMETRIC,
    upper: float = 1.001,
    lower: float | None = None,
    trajectory: torch.Tensor | None = None,
) -> torch.Tensor:
    """`mask` without units with a ratio outside [lower, upper], both inclusive;
    lower is 1/upper by default.

    Dr. Kernel eq. 6 is the geometric level; its scripts bound the ratio by
    lower=0.999 and upper=1.001.
    """
    if upper <= 0 or (lower is not None and not 0 <= lower <= upper):
        raise ValueError(
            f"bounds: expected 0 <= lower <= upper and upper > 0, got [{lower}, {upper}]"
        )
    found = ratios(log_train_over_rollout, mask, level, trajectory)
    least = 1 / upper if lower is None else lower
    return mask * ((found >= least) & (found <= upper)).to(mask.dtype)


@torch.no_grad()
def veto_mask(
    log_train_over_rollout: torch.Tensor, mask: torch.Tensor, *, below: float = 1e-4
) -> torch.Tensor:
    """`mask` without rows in which a token's ratio π_train / π_rollout is strictly below `below`.

    Not redundant beside a geometric mean, which one such token among many barely moves.  Pass the
    mask from before rejection, as KernelGYM does, and multiply the results.
    """
    if below <= 0:
        raise ValueError(f"below: expected more than 0, got {below}")
    exact = log_train_over_rollout.to(
        torch.promote_types(log_train_over_rollout.dtype, torch.float32)
    )
    bad = ~(exact >= math.log(below)) & mask.bool()  # NaN is bad, too
    return mask * (~bad.any(dim=-1, keepdim=True)).to(mask.dtype)


@torch.no_grad()
def importance_weights(
    log_train_over_rollout: torch.Tensor,
    mask: torch.Tensor,
    *,
    level: Level = Level.TOKEN,
    upper: float = 2.0,
    trajectory: torch.Tensor | None = None,
) -> torch.Tensor:
    """Truncated importance weights (TIS): min(π_train / π_rollout, upper), 0 outside `mask`.

    TRL's default on exp(Σ log ratio) with 3.0 lets no long answer survive where trainer and engine
    differ a little in every token; TOKEN is biased and keeps its variance small.
    """
    if upper <= 0:
        raise ValueError(f"upper: expected more than 0, got {upper}")
    found = ratios(log_train_over_rollout, mask, level, trajectory)
    return torch.where(mask.bool(), found.clamp(max=upper), 0) * mask


@torch.no_grad()
def icepop_weights(
    log_train_over_rollout: torch.Tensor,
    mask: torch.Tensor,
    *,
    level: Level = Level.TOKEN,
    lower: float = 0.5,
    upper: float = 5.0,
    trajectory: torch.Tensor | None = None,
) -> torch.Tensor:
    """IcePop weights: the ratio π_train / π_rollout where it is within [lower,
    upper], else 0 (verl "0.5_5.0").
    """
    if not 0 <= lower <= upper:
        raise ValueError(f"bounds: expected 0 <= lower <= upper, got [{lower}, {upper}]")
    found = ratios(log_train_over_rollout, mask, level, trajectory)
    return torch.where((found >= lower) & (found <= upper) & mask.bool(), found, 0) * mask


@torch.no_grad()
def metrics(
    train_log_prob: torch.Tensor, rollout_log_prob: torch.Tensor, mask: torch.Tensor
) -> dict[str, float]:
    """Distance of the two policies on the sampled tokens; names of KernelGYM without
    the prefix `mismatch_`.

    `kl` estimates KL(π_rollout ‖ π_train); perplexities are means over rows; `chi2_seq` is over
    rows.  Raises ValueError without tokens.
    """
    if not mask.any():
        raise ValueError("mask: expected at least one token, got none")
    exact = (
        each.to(torch.promote_types(each.dtype, torch.float32))
        for each in (train_log_prob, rollout_log_prob)
    )
    train_log_prob, rollout_log_prob = exact
    log_ratio = train_log_prob - rollout_log_prob
    train, rollout = (
        masked_mean(each, mask, dim=-1) for each in (train_log_prob, rollout_log_prob)
    )
    gap = rollout - train
    found = {
        "kl": -masked_mean(log_ratio, mask),
        "k3_kl": masked_mean(log_ratio.exp() - log_ratio - 1, mask),
        "training_ppl": (-train).exp().mean(),
        "training_log_ppl": (-train).mean(),
        "rollout_ppl": (-rollout).exp().mean(),
        "rollout_log_ppl": (-rollout).mean(),
        "log_ppl_diff": gap.mean(),
        "log_ppl_abs_diff": gap.abs().mean(),
        "log_ppl_diff_max": gap.max(),
        "log_ppl_diff_min": gap.min(),
        "ppl_ratio": gap.exp().mean(),
        "chi2_token": masked_mean((2 * log_ratio.clamp(-MOST_LOG, MOST_LOG)).exp(), mask) - 1,
        "chi2_seq": (
            (2 * masked_sum(log_ratio, mask, dim=-1).clamp(-MOST_LOG, MOST_LOG)).exp().mean() - 1
        ),
    }
    return {name: float(value) for name, value in found.items()}
