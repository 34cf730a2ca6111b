"""JUDGE: rewards of Dr. Kernel (arXiv 2602.05885), equations 1 and 8."""

from __future__ import annotations

from app.domain.rewards.base import STANDARD, Measures, Options, Parts, share


def dr_kernel(measures: Measures, options: Options = STANDARD) -> Parts:
    """C + C·min(speedup, cap).  In [0, 4] with the cap of 3.  Source: Dr. Kernel, eq. 1."""
    if not measures.credited:
        return {"not credited": 0.0}
    return {"correct": 1.0, "speedup": min(measures.speedup or 0.0, options.upper_bound)}


def dr_kernel_pr(measures: Measures, options: Options = STANDARD) -> Parts:
    """C + C·min(speedup, cap) + C·PR.  In [0, 5] with the cap of 3.  Source: Dr. Kernel, eq. 8."""
    coverage = {"coverage": share(measures.coverage_time)} if measures.credited else {}
    return dr_kernel(measures, options) | coverage
