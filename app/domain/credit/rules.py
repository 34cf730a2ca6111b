"""Baselines and scalings within one group: from scores to advantages.

Every rule takes the rows of a group of two or more and returns their advantages in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev

from app.domain import keyed_random
from app.domain.credit.turns import CreditError

EPSILON = 1e-6
"""Added to a standard deviation by verl and KernelGYM; TRL adds 1e-4."""
LOO_EPSILON = 1e-8
"""The same in KernelGYM's `erloo_norm`."""


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """One score of a group."""

    score: float
    tokens: int
    key: str
    """Name, for reproducible draws."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Numbers that some rules take.  Raises CreditError for a temperature of 0 or
    less, or a negative ε.
    """

    epsilon: float = EPSILON
    shift: float = -0.1
    """AsymRE: added to the mean."""
    tau: float = 1.0
    """OPMD: temperature of the log-mean-exp baseline."""
    temperature: float = 1.0
    """RED-Weight: the weight is exp(A / temperature)."""
    seed: int = 0
    """RED-Drop: seed of its draw."""

    def __post_init__(self) -> None:
        for name in ("tau", "temperature"):
            if not getattr(self, name) > 0:
                raise CreditError(f"{name}: expected more than 0, got {getattr(self, name)}")
        if not self.epsilon >= 0:
            raise CreditError(f"epsilon: expected 0 or more, got {self.epsilon}")


Rule = Callable[[Sequence[GroupScore], Parameters], list[float]]


def plain(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = score: no baseline."""
    del parameters
    return [row.score for row in rows]


def mean(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = score − mean of the group, the row itself included.

    Source: Dr. GRPO (arXiv 2503.20783); Dr. Kernel eq. 3.  Self-inclusion scales the expected
    gradient by 1 − 1/N (eq. 4); where groups differ in size the factor differs between turns.
    """
    del parameters
    middle = fmean(row.score for row in rows)
    return [row.score - middle for row in rows]


def leave_one_out(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = score − mean of the others = N/(N−1) · (score − mean).

    Source: RLOO (arXiv 2402.14740); Dr. Kernel eq. 5."""
    count = len(rows)
    return [value * count / (count - 1) for value in mean(rows, parameters)]


def standardised(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = (score − mean) / (std + ε), with the unbiased standard deviation.

    Source: GRPO (arXiv 2402.03300), verl's `compute_grpo_outcome_advantage`.  TRL: ε = 1e-4."""
    spread = stdev([row.score for row in rows])
    return [value / (spread + parameters.epsilon) for value in mean(rows, parameters)]


def leave_one_out_standardised(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = (score − mean of the others) / (unbiased std of the others + 1e-8); a
    group of two is not scaled.

    A row whose others are equal gets its distance from them times 1e8, as in the reference: of
    rewards 1, 0, 0 the first has an advantage of 1e8.  Source: `erloo_norm` of KernelGYM
    (drkernel/kernel/kernel_trainer.py).
    """
    centred = leave_one_out(rows, parameters)
    if len(rows) == 2:
        return [value / (1 + LOO_EPSILON) for value in centred]
    scores = [row.score for row in rows]
    spreads = [stdev(scores[:at] + scores[at + 1 :]) for at in range(len(scores))]
    return [value / (spread + LOO_EPSILON) for value, spread in zip(centred, spreads, strict=True)]


def token_weighted(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = score − Σ tokens·score / Σ tokens: the variance-optimal baseline under
    equal gradient norms per token.

    Source: OPO (arXiv 2505.23585), verl's `compute_opo_outcome_advantage`.  A group without any
    tokens has the plain mean; verl divides by zero there (NaN).
    """
    total = sum(row.tokens for row in rows)
    if not total:
        return mean(rows, parameters)
    baseline = sum(row.tokens * row.score for row in rows) / total
    return [row.score - baseline for row in rows]


def best_only(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = best − second best for the best row, 0 for all others; a tie gives 0 to all.

    Source: pass@k training (arXiv 2503.19595), verl's `grpo_passk` without scaling."""
    del parameters
    order = sorted(range(len(rows)), key=lambda at: -rows[at].score)
    found = [0.0] * len(rows)
    found[order[0]] = rows[order[0]].score - rows[order[1]].score
    return found


def best_only_standardised(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A of `best_only` over the group's unbiased std + ε, verl's default for `grpo_passk`."""
    spread = stdev([row.score for row in rows])
    return [value / (spread + parameters.epsilon) for value in best_only(rows, parameters)]


def mean_normalised(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = (score − mean) / (mean + ε): weights a prompt by the inverse of its success rate.

    Source: MaxRL, SkyRL's `compute_maxrl_advantage`.  For scores ≥ 0 only: a negative
    mean turns every sign round, so that the worst answer is pushed up.  SkyRL divides by
    it; here it raises CreditError.
    """
    middle = fmean(row.score for row in rows)
    if middle < 0:
        raise CreditError(f"maxrl: expected scores with a mean of 0 or more, got {middle}")
    divisor = middle + parameters.epsilon
    return [value / divisor if divisor else 0.0 for value in mean(rows, parameters)]


def shifted_mean(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = score − (mean + shift), shift −0.1 by default.

    Source: AsymRE (arXiv 2506.20520), Trinity-RFT's `asymre_advantage`.  A shift of
    0 or more collapses off-policy.
    """
    return [value - parameters.shift for value in mean(rows, parameters)]


def log_mean_exp(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A = score − τ·log mean exp(score / τ).

    Source: OPMD's soft baseline, Trinity-RFT's `opmd_advantage` with `logavgexp`."""
    tau = parameters.tau
    largest = max(row.score for row in rows)
    baseline = largest + tau * math.log(
        fmean(math.exp((row.score - largest) / tau) for row in rows)
    )
    return [row.score - baseline for row in rows]


def balanced(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """RED-Drop: drop random rows below the mean until no more are below than above;
    A = score − mean of the rest.

    Dropped rows get 0.  Source: arXiv 2509.24203, Trinity-RFT's `rec_advantage` with
    drop="balance".  The draw depends on seed and row names; Trinity's on torch's generator.  A
    single remaining row has baseline 0, as there.
    """
    kept = set(kept_by_balance(rows, parameters.seed))
    baseline = fmean(rows[at].score for at in kept) if len(kept) > 1 else 0.0
    return [row.score - baseline if at in kept else 0.0 for at, row in enumerate(rows)]


def balanced_standardised(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """A of `balanced` over the population std of the kept rows + ε, Trinity-RFT's
    `std_normalize`.
    """
    kept = kept_by_balance(rows, parameters.seed)
    spread = pstdev([rows[at].score for at in kept]) if len(kept) > 1 else 1.0
    return [value / (spread + parameters.epsilon) for value in balanced(rows, parameters)]


def kept_by_balance(rows: Sequence[GroupScore], seed: int) -> list[int]:
    """Indices of the rows that RED-Drop keeps, in order."""
    middle = fmean(row.score for row in rows)
    below = [at for at, row in enumerate(rows) if row.score < middle]
    extra = len(below) - (len(rows) - len(below))
    below.sort(key=lambda at: (keyed_random.uniform(seed, rows[at].key), at))
    dropped = set(below[: max(0, extra)])
    return [at for at in range(len(rows)) if at not in dropped]


def exponentially_weighted(rows: Sequence[GroupScore], parameters: Parameters) -> list[float]:
    """RED-Weight: A·exp(A / temperature) with A = score − mean.

    Source: arXiv 2509.24203, Trinity-RFT's REC loss with weight "advantage".  Raises CreditError
    where the weight does not fit into a float (infinite in the reference).
    """
    try:
        return [
            value * math.exp(value / parameters.temperature) for value in mean(rows, parameters)
        ]
    except OverflowError:
        raise CreditError(
            f"temperature: expected one that fits the scores, got {parameters.temperature}"
        ) from None
