"""ReMix: a mixture of LoRAs with a router that is trained by RLOO (arXiv
2603.10160).  An example, not a service.

    q = softmax(P x)                              over n adapters, per row of x
    I = (i_1, …, i_k)                             sampled from q without replacement, in order
    y = W x + ω Σ_{i∈I} B_i A_i x                 ω constant: the router's weights never
                                                  scale the output
    Q(I) = Π_j q_{i_j} / (1 − Σ_{j'<j} q_{i_j'})  product over layers, too

The adapters are trained by ordinary back-propagation, the router by `router_loss`, because a
choice has no gradient. tests/unit/test_remix.py shows by enumeration that its expected
gradient is that of the expected loss.
"""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import nn


class Scale(StrEnum):
    """Weight ω of the adapters."""

    LORA = "lora"
    """2 / (k r)."""
    RANK_STABLE = "rslora"
    """2 / √(k r)."""


def sample(
    logits: torch.Tensor, active: int, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Ordered choice of `active` of n adapters without replacement, (…, active); `logits` (…, n).

    The largest sums of logit and Gumbel noise have the distribution Q (Plackett–Luce)."""
    uniform = torch.rand(
        logits.shape, generator=generator, dtype=logits.dtype, device=logits.device
    )
    tiny = torch.finfo(logits.dtype).tiny
    noise = -(-uniform.clamp(min=tiny).log()).clamp(min=tiny).log()
    return (logits.detach() + noise).topk(active, dim=-1).indices


def log_probability(logits: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """log Q of an ordered choice, (…), with gradient; `logits` (…, n), `order` (…,
    k) of distinct adapters.
    """
    chosen = logits.gather(-1, order)
    total = torch.zeros_like(chosen[..., 0])
    left = logits
    for place in range(order.shape[-1]):
        total = total + chosen[..., place] - left.logsumexp(dim=-1)
        left = left.scatter(-1, order[..., place : place + 1], -torch.inf)
    return total


def router_loss(losses: torch.Tensor, log_probabilities: torch.Tensor) -> torch.Tensor:
    """Scalar with the gradient Σ_m (L_m − L̄) ∇ log Q(I_m) / (M − 1), mean over
    inputs; both arguments (M, …).

    M independent choices are made for the same input; L̄ is their mean loss, so that a choice is
    compared with the others alone.  Raises ValueError for fewer than two, or other shapes.
    """
    if losses.shape != log_probabilities.shape or len(losses) < 2:
        raise ValueError(
            "expected losses and log probabilities of one shape (M ≥ 2, …), got"
            f" {tuple(losses.shape)} and {tuple(log_probabilities.shape)}"
        )
    centred = losses.detach() - losses.detach().mean(dim=0)
    return (centred * log_probabilities).sum(dim=0).mean() / (len(losses) - 1)


class MixedLora(nn.Module):
    """A frozen linear layer with n adapters of rank r, k of which are active for a row.

    In training mode a forward pass samples adapters and keeps log Q of the choice in
    `chosen_log_probability`, (rows,); in evaluation mode the k most probable are active, the best
    choice where it is sampled with more than half of the probability (the paper's theorem).
    """

    def __init__(
        self,
        base: nn.Linear,
        *,
        adapters: int,
        rank: int,
        active: int,
        scale: Scale = Scale.RANK_STABLE,
    ) -> None:
        """Raises ValueError unless 1 ≤ active ≤ adapters and rank ≥ 1."""
        super().__init__()
        if not 1 <= active <= adapters or rank < 1:
            raise ValueError(
                f"expected 1 ≤ active ≤ adapters and rank ≥ 1, got {active}, {adapters} and {rank}"
            )
        self.base = base.requires_grad_(requires_grad=False)
        self.active = active
        like = base.weight.detach()
        self.down = nn.Parameter(
            like.new_empty(adapters, rank, base.in_features).normal_(std=base.in_features**-0.5)
        )
        self.up = nn.Parameter(like.new_zeros(adapters, base.out_features, rank))
        self.router = nn.Parameter(like.new_zeros(adapters, base.in_features))
        size = active * rank
        self.weight = 2 / size if scale is Scale.LORA else 2 / size**0.5
        self.generator: torch.Generator | None = None
        self.chosen_log_probability: torch.Tensor | None = None

    def forward(self, x: torch.Tensor, order: torch.Tensor | None = None) -> torch.Tensor:
        """(rows, in) → (rows, out); `order` (rows, k) takes the place of the choice."""
        logits = x.detach() @ self.router.T
        if order is None:
            order = (
                sample(logits, self.active, self.generator)
                if self.training
                else logits.topk(self.active, -1).indices
            )
        self.chosen_log_probability = log_probability(logits, order)
        inner = torch.einsum("bkri,bi->bkr", self.down[order], x)
        added = torch.einsum("bkor,bkr->bo", self.up[order], inner)
        found: torch.Tensor = self.base(x) + self.weight * added
        return found
