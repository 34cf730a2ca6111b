"""Mismatch of stored turns: distance of trainer and rollout engine, and the turns
that rejection would drop.

`metrics` are those of workers/training/mismatch.py for lists without torch;
tests/unit/test_mismatch.py compares both. Log probabilities are natural logarithms of sampled
tokens; a log ratio is log π_train − log π_rollout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from app.domain.credit.rejection import LEAST_LOG, MOST_LOG, Level, Mismatch, mismatched, vetoed
from app.domain.credit.turns import CreditError, TokenRatios, Turn, by_trajectory

MOST_EXPONENT = 700.0
"""Largest argument of exp: beyond it a double overflows."""

BOUNDS = ((0.9999, 1.0001), (0.999, 1.001), (0.99, 1.01), (0.95, 1.05), (0.9, 1.1), (0.5, 2.0))
"""Usual bounds of a survey: Dr. Kernel's [0.999, 1.001] and tighter and wider ones."""

Logs = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Log probabilities of one turn's response tokens under both engines."""

    train: Logs
    rollout: Logs

    def __post_init__(self) -> None:
        if len(self.train) != len(self.rollout):
            raise CreditError(
                f"expected {len(self.rollout)} log probabilities of the trainer, got"
                f" {len(self.train)}"
            )

    @property
    def ratios(self) -> TokenRatios:
        """Summary that rejection reads."""
        logs = [train - rollout for train, rollout in zip(self.train, self.rollout, strict=True)]
        return TokenRatios(
            log_sum=math.fsum(logs), tokens=len(logs), log_least=min(logs, default=0.0)
        )


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """Outcome of rejection with one pair of bounds."""

    mismatch: Mismatch
    trajectories: int
    """Trajectories with a turn that the bounds drop."""
    turns: int
    """Turns dropped by the bounds."""
    vetoed: int
    """Further turns dropped by the veto alone."""
    share: float
    """Dropped turns, by bounds or veto, over all turns."""
    token_share: float
    """Their tokens over all tokens."""
    credited: int
    """Credited turns among the dropped: correct, compiled and no hack."""
    credited_of_dropped: float | None
    """Share of the dropped turns that are credited; None where none is dropped."""
    credited_of_kept: float | None
    """The same of the kept turns: rejection that does not look at quality has both equal."""
    credited_lost: float | None
    """Share of all credited turns that is dropped; None where there are none."""
    reward_of_dropped: float | None
    """Mean reward of dropped turns with a reward."""
    reward_of_kept: float | None


def metrics(pairs: Sequence[Pair]) -> dict[str, float]:
    """Distance of the two policies on the sampled tokens; names as in KernelGYM.

    `kl` estimates KL(π_rollout ‖ π_train); perplexities are means over turns;
    `chi2_seq` is over turns.  Raises CreditError without tokens.  Turns without tokens
    have a mean log probability of 0.
    """
    logs = [
        [train - rollout for train, rollout in zip(each.train, each.rollout, strict=True)]
        for each in pairs
    ]
    tokens = [one for row in logs for one in row]
    if not tokens:
        raise CreditError("expected turns with response tokens, got none")
    train, rollout = (
        [_mean(getattr(each, side)) for each in pairs] for side in ("train", "rollout")
    )
    gaps = [its - own for its, own in zip(rollout, train, strict=True)]
    return {
        "kl": -fmean(tokens),
        "k3_kl": fmean(_exp(one) - one - 1 for one in tokens),
        "training_ppl": fmean(_exp(-one) for one in train),
        "training_log_ppl": -fmean(train),
        "rollout_ppl": fmean(_exp(-one) for one in rollout),
        "rollout_log_ppl": -fmean(rollout),
        "log_ppl_diff": fmean(gaps),
        "log_ppl_abs_diff": fmean(map(abs, gaps)),
        "log_ppl_diff_max": max(gaps),
        "log_ppl_diff_min": min(gaps),
        "ppl_ratio": fmean(map(_exp, gaps)),
        "chi2_token": fmean(math.exp(2 * _clamped(one)) for one in tokens) - 1,
        "chi2_seq": fmean(math.exp(2 * _clamped(math.fsum(row))) for row in logs) - 1,
    }


def survey(
    turns: Sequence[Turn],
    *,
    level: Level = Level.GEOMETRIC,
    bounds: Iterable[tuple[float, float]] = BOUNDS,
    veto: float | None = Mismatch().veto,
) -> list[Rejected]:
    """Turns that MRS and the veto drop at each pair of bounds.  Raises CreditError
    for a turn without ratios, and for no turns.
    """
    if not turns:
        raise CreditError("expected turns, got none")
    chosen = [Mismatch(level=level, lower=lower, upper=upper, veto=veto) for lower, upper in bounds]
    return [_rejected(turns, one) for one in chosen]


def _rejected(turns: Sequence[Turn], mismatch: Mismatch) -> Rejected:
    out, by_veto, trajectories = set(), set(), 0
    for members in by_trajectory(turns).values():
        rejected = [
            turn for turn, gone in zip(members, mismatched(members, mismatch), strict=True) if gone
        ]
        out |= set(rejected)
        trajectories += bool(rejected)
        by_veto |= {turn for turn in members if turn not in out and vetoed(turn, mismatch)}
    dropped = [turn for turn in turns if turn in out or turn in by_veto]
    kept = [turn for turn in turns if turn not in out and turn not in by_veto]
    credited = sum(turn.correct for turn in turns)
    lost = sum(turn.correct for turn in dropped)
    return Rejected(
        mismatch=mismatch,
        trajectories=trajectories,
        turns=len(out),
        vetoed=len(by_veto),
        share=len(dropped) / len(turns),
        token_share=sum(turn.tokens for turn in dropped)
        / max(1, sum(turn.tokens for turn in turns)),
        credited=lost,
        credited_of_dropped=lost / len(dropped) if dropped else None,
        credited_of_kept=sum(turn.correct for turn in kept) / len(kept) if kept else None,
        credited_lost=lost / credited if credited else None,
        reward_of_dropped=_reward(dropped),
        reward_of_kept=_reward(kept),
    )


def _reward(turns: Sequence[Turn]) -> float | None:
    known = [turn.reward for turn in turns if turn.reward is not None]
    return fmean(known) if known else None


def _mean(values: Logs) -> float:
    return fmean(values) if values else 0.0


def _clamped(value: float) -> float:
    return min(MOST_LOG, max(LEAST_LOG, value))


def _exp(value: float) -> float:
    return math.exp(min(value, MOST_EXPONENT))
