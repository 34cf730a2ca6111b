"""EXPORT: profiling-based rejection sampling: a correct turn whose own kernels take little of the
time is dropped at random.  Source: Dr. Kernel, eq. 9.

    keep with probability  clip((PR − τ) / s, 0, 1)          PR: coverage by time

Only correct turns are ever dropped: taken literally the equation would drop every failure (PR = 0)
too, and failures are needed for pairs and advantages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from app.domain import keyed_random

TAU = 0.3
"""Coverage below which no turn stays; Dr. Kernel, arXiv 2602.05885."""
SCALE = 0.1
"""Width of the soft ramp above it, in the same unit."""


class Ramp(StrEnum):
    """Sharpness of the ramp."""

    SOFT = "soft"
    """The clipped ramp."""
    HARD = "hard"
    """Keep from τ on, drop below: worse in the paper's ablation."""


class Ratio(StrEnum):
    """Coverage that a turn is judged by.  Source: `coverage_rs` of Dr. Kernel's
    `coverage_helper.py`.
    """

    TURN = "turn"
    """Its own."""
    GEOMETRIC = "geometric"
    """The geometric mean over all turns of its trajectory, or of its sample of a collection, wrong
    ones included.
    """


class Coverage(StrEnum):
    """Measure of coverage."""

    TIME = "time_coverage"
    NUMBER = "number_coverage"
    """By launches."""


LEAST = 1e-8
"""Coverage that a turn without any counts as in a geometric mean."""


class Draw(StrEnum):
    """Unit of one random draw."""

    TURN = "turn"
    TRAJECTORY = "trajectory"
    """One number for all turns of a trajectory, or of a sample of a collection, so that turns of
    equal coverage stay or go together.
    """


def probability(
    coverage: float | None, *, ramp: Ramp = Ramp.SOFT, tau: float = TAU, scale: float = SCALE
) -> float:
    """Chance to keep a correct turn.  Without a profile its coverage counts as 0:
    unseen kernels are not credited.
    """
    ratio = coverage or 0.0
    if ramp is Ramp.HARD:
        return float(ratio >= tau)
    return min(1.0, max(0.0, (ratio - tau) / scale))


def geometric(coverages: Sequence[float | None]) -> float:
    """Geometric mean over the turns of a trajectory; a turn without coverage counts
    as LEAST.  ValueError for none.
    """
    if not coverages:
        raise ValueError("expected the coverage of at least one turn, got none")
    return math.exp(
        math.fsum(math.log(max(one or 0.0, LEAST)) for one in coverages) / len(coverages)
    )


def keeps(
    coverage: float | None,
    *,
    seed: int,
    key: str,
    ramp: Ramp = Ramp.SOFT,
    tau: float = TAU,
    scale: float = SCALE,
) -> bool:
    """True if the correct turn named `key` stays."""
    return keyed_random.uniform(seed, key) < probability(coverage, ramp=ramp, tau=tau, scale=scale)
