"""Policy losses per token, (rows, tokens), for `aggregate`.  Advantages have the
same shape or (rows, 1).

`log_prob` is that of the policy in training, with gradient; `old_log_prob` that of the policy at
the start of the update (or of the behaviour policy, where the method says so), without.  Tokens
outside of `mask` have neither loss nor gradient, also where an argument is NaN there.  Results are
float32 at least.  Minimise them.
"""

from __future__ import annotations

from enum import StrEnum

import torch

from workers.training.aggregate import masked_mean, masked_sum

MOST_LOG = 20.0
"""Log ratios are clamped to ± this before exp, as in verl."""
MOST_GSPO_LOG = 10.0
"""Upper clamp of GSPO's sequence log ratio, as in verl."""
LEAST_PROBABILITY = 1e-8
"""Added to 1 − p in DPPO's binary KL, as in verl."""


def reinforce(
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """−A·log π, times importance weights (detached) if given."""
    log_prob, advantages = _inside(mask, log_prob, advantages)
    losses = -advantages * log_prob
    return losses if weights is None else losses * _inside(mask, weights.detach())[0]


def ppo_dual_clip(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 3.0,
) -> torch.Tensor:
    """PPO's clipped loss; for A < 0 at most −A·dual (arXiv 1912.09729).

    Defaults: Dr. Kernel's scripts.  Source: verl `vanilla`."""
    if dual <= 1:
        raise ValueError(f"dual: expected more than 1, got {dual}")
    log_prob, old_log_prob, advantages = _inside(mask, log_prob, old_log_prob, advantages)
    ratio = _ratio(log_prob, old_log_prob)
    clipped = torch.maximum(
        -advantages * ratio, -advantages * ratio.clamp(1 - clip_low, 1 + clip_high)
    )
    return torch.where(advantages < 0, torch.minimum(-advantages * dual, clipped), clipped)


def gspo(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> torch.Tensor:
    """PPO's clip on the geometric mean ratio of a row, with the gradient through each
    token (GSPO, arXiv 2507.18071).

    Aggregate with SEQ_MEAN_TOKEN_MEAN.  Source: verl `gspo`.
    """
    log_prob, old_log_prob, advantages = _inside(mask, log_prob, old_log_prob, advantages)
    mean = masked_mean(log_prob - old_log_prob, mask, dim=-1).detach().unsqueeze(-1)
    ratio = (log_prob - log_prob.detach() + mean).clamp(max=MOST_GSPO_LOG).exp()
    return torch.maximum(
        -advantages * ratio, -advantages * ratio.clamp(1 - clip_low, 1 + clip_high)
    )


def cispo(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> torch.Tensor:
    """−sg(clip(ratio))·A·log π: clipped weights keep the gradient of every token
    (arXiv 2506.13585; verl `cispo`).
    """
    log_prob, old_log_prob, advantages = _inside(mask, log_prob, old_log_prob, advantages)
    ratio = _ratio(log_prob, old_log_prob).clamp(1 - clip_low, 1 + clip_high).detach()
    return -ratio * advantages * log_prob


def topr(
    log_prob: torch.Tensor,
    behaviour_log_prob: torch.Tensor,
    rewards: torch.Tensor,
    mask: torch.Tensor,
    *,
    whole_rows: bool = True,
    threshold: float = 0.0,
) -> torch.Tensor:
    """−sg(α)·R·log π with α = 1 above `threshold`, else the ratio clamped to [0, 1]
    (TOPR, arXiv 2503.14286).

    `whole_rows` takes the ratio of the row's product, as the paper does; False that of each token,
    as Trinity-RFT does.  Rewards without a baseline by default.
    """
    log_prob, behaviour_log_prob, rewards = _inside(mask, log_prob, behaviour_log_prob, rewards)
    log_ratio = log_prob - behaviour_log_prob
    if whole_rows:
        log_ratio = masked_sum(log_ratio, mask, dim=-1).unsqueeze(-1)
    taper = log_ratio.clamp(max=0.0).exp()
    alpha = torch.where(rewards <= threshold, taper, torch.ones_like(taper)).detach()
    return -alpha * rewards * log_prob


def opmd(
    log_prob: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, *, tau: float = 1.0
) -> torch.Tensor:
    """−A·log π / (1 + τ) (Trinity-RFT `opmd`); a pull towards the old policy comes
    from `rec` with K2.
    """
    log_prob, advantages = _inside(mask, log_prob, advantages)
    return -advantages * log_prob / (1 + tau)


class Clip(StrEnum):
    """Tokens that keep their gradient in REC."""

    NONE = "none"
    ONE_SIDE = "one-side"
    """PPO's: A ≥ 0 and ratio ≤ 1 + high, or A ≤ 0 and ratio ≥ 1 − low."""
    GSPO_ONE_SIDE = "gspo-one-side"
    """The same on the row's geometric mean ratio.  Aggregate with SEQ_MEAN_TOKEN_MEAN."""
    TWO_SIDE = "two-side"
    RING = "ring"
    """Two-side, and far ratios that move towards the old policy."""


class Weight(StrEnum):
    """Factor of the advantage in REC."""

    NONE = "none"
    IMPORTANCE = "importance_sampling"
    GSPO_IMPORTANCE = "gspo_importance_sampling"
    """The row's geometric mean ratio.  Trinity-RFT raises NameError unless the clip
    is GSPO_ONE_SIDE.
    """
    ADVANTAGE = "advantage"
    """exp(A / temperature): RED-Weight."""


class Regulariser(StrEnum):
    """Term added in REC."""

    NONE = "none"
    K2 = "k2"
    """+ coefficient·(log π − log π_old)²: Kimi's OPMD; the coefficient absorbs its ½."""
    FORWARD_KL = "forward-kl"
    """− coefficient·log π: AsymRE's form of a lower baseline."""


def rec(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    clip: Clip = Clip.NONE,
    weight: Weight = Weight.NONE,
    regulariser: Regulariser = Regulariser.NONE,
    coefficient: float = 0.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    ring_low: float = 0.6,
    ring_high: float = 2.0,
    temperature: float = 1.0,
) -> torch.Tensor:
    """Group-relative REINFORCE with a mask in place of PPO's clip (arXiv 2509.24203;
    Trinity-RFT 0.6 `rec`).

    Log ratios are clamped to ±20 before exp.  Trinity-RFT does not clamp: an infinite ratio of a
    token that the clip masks makes the loss NaN there.
    """
    log_prob, old_log_prob, advantages = _inside(mask, log_prob, old_log_prob, advantages)
    ratio = _ratio(log_prob, old_log_prob).detach()
    mean = masked_mean(log_prob - old_log_prob, mask, dim=-1)
    row_ratio = mean.clamp(-MOST_LOG, MOST_LOG).unsqueeze(-1).exp().detach()
    kept = _kept(ratio, row_ratio, advantages, clip, (clip_low, clip_high), (ring_low, ring_high))
    factors = {
        Weight.NONE: torch.ones_like(ratio),
        Weight.IMPORTANCE: ratio,
        Weight.GSPO_IMPORTANCE: row_ratio,
        Weight.ADVANTAGE: (advantages / temperature).exp(),
    }
    losses = -advantages * factors[weight] * log_prob * kept
    if regulariser is Regulariser.K2:
        losses = losses + coefficient * (log_prob - old_log_prob).square()
    elif regulariser is Regulariser.FORWARD_KL:
        losses = losses - coefficient * log_prob
    return losses


def _kept(
    ratio: torch.Tensor,
    row_ratio: torch.Tensor,
    advantages: torch.Tensor,
    clip: Clip,
    bounds: tuple[float, float],
    ring: tuple[float, float],
) -> torch.Tensor:
    low, high = 1 - bounds[0], 1 + bounds[1]
    inside = (ratio >= low) & (ratio <= high)
    match clip:
        case Clip.NONE:
            kept = torch.ones_like(inside)
        case Clip.TWO_SIDE:
            kept = inside
        case Clip.ONE_SIDE | Clip.GSPO_ONE_SIDE:
            used = row_ratio if clip is Clip.GSPO_ONE_SIDE else ratio
            kept = ((advantages >= 0) & (used <= high)) | ((advantages <= 0) & (used >= low))
        case Clip.RING:
            far = ((advantages >= 0) & (ratio <= 1 - ring[0])) | (
                (advantages <= 0) & (ratio >= 1 + ring[1])
            )
            kept = inside | far
    return kept.to(ratio.dtype)


class Divergence(StrEnum):
    """Distance that DPPO bounds per token, between the two-point distributions (token, rest)."""

    TOTAL_VARIATION = "tv"
    KL = "kl"


def dppo(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    divergence: Divergence = Divergence.TOTAL_VARIATION,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    most_ratio: float = 20.0,
) -> torch.Tensor:
    """−sg(min(ratio, most_ratio))·A·log π on tokens within the divergence (DPPO,
    arXiv 2602.04879; verl `dppo_*`).

    Only moves away from the old policy are bounded: up for A > 0, down for the others.
    """
    log_prob, old_log_prob, advantages = _inside(mask, log_prob, old_log_prob, advantages)
    ratio = _ratio(log_prob, old_log_prob).clamp(max=most_ratio).detach()
    kept = _dppo_mask(log_prob, old_log_prob, advantages, divergence, clip_low, clip_high)
    return -advantages * ratio * log_prob * kept


@torch.no_grad()
def _dppo_mask(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    divergence: Divergence,
    clip_low: float,
    clip_high: float,
) -> torch.Tensor:
    """1 for tokens within the divergence, else 0."""
    new, old = log_prob.exp(), old_log_prob.exp()
    if divergence is Divergence.TOTAL_VARIATION:
        upwards, downwards = new - old <= clip_high, new - old >= -clip_low
    else:
        rest = ((1 - old + LEAST_PROBABILITY) / (1 - new + LEAST_PROBABILITY)).log()
        distance = old * (old_log_prob - log_prob) + (1 - old) * rest
        upwards, downwards = (
            (distance <= clip_high) | (new <= old),
            (distance <= clip_low) | (new >= old),
        )
    return torch.where(advantages > 0, upwards, downwards).to(log_prob.dtype)


def _inside(mask: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Values in float32 at least, with 0 outside of the mask.

    A loss that is masked afterwards still has a gradient of 0 · NaN = NaN.  In half
    precision exp(20) is infinite, the difference of two log probabilities is rounded,
    and 1 − p + 1e-8 is 0 for p = 1.
    """
    inside = mask.bool()
    return tuple(
        torch.where(inside, each.to(torch.promote_types(each.dtype, torch.float32)), 0)
        for each in values
    )


def _ratio(log_prob: torch.Tensor, old_log_prob: torch.Tensor) -> torch.Tensor:
    return (log_prob - old_log_prob).clamp(-MOST_LOG, MOST_LOG).exp()
