"""JUDGE: rewards by name: a function `(measures, options) → parts` in a module here with an entry
in `BUILTIN`, or an entry point `assay.rewards` of another package.
"""

from __future__ import annotations

from app.domain.rewards import dr_kernel, kernelgym
from app.domain.rewards.base import PartsOf
from app.plugins import extend

__all__ = ["BUILTIN", "PARTS"]

BUILTIN: dict[str, PartsOf] = {
    "dr_kernel": dr_kernel.dr_kernel,
    "dr_kernel_pr": dr_kernel.dr_kernel_pr,
    "calculate_reward_speedup": kernelgym.calculate_reward_speedup,
    "calculate_reward_weighted": kernelgym.calculate_reward_weighted,
    "calculate_reward_like_kernel": kernelgym.calculate_reward_like_kernel,
}

PARTS: dict[str, PartsOf] = extend("rewards", BUILTIN)
"""Parts of every reward by name, plug-ins included."""
