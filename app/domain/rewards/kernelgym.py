"""JUDGE: rewards of KernelGYM's reward client, under the names that its configuration files use.

One deliberate difference from that client: the speedup counts only where C is 1, as in
Dr. Kernel's paper.  There it is the server that sends a speedup of 0 for everything
else, so the numbers are the same.
"""

from __future__ import annotations

from app.domain.rewards.base import STANDARD, Measures, Options, Parts, weighed

FAILED = -1.0
"""Reward on KernelGYM's ladder for attempts that did not come to an end of their own (compile
error, timeout), and for hacks.
"""
LADDER = ((3.0, 1.0), (2.0, 0.8), (1.5, 0.6), (1.2, 0.4), (1.0, 0.2))
"""(least speedup, reward) of `calculate_reward_like_kernel`."""


def calculate_reward_speedup(measures: Measures, options: Options = STANDARD) -> Parts:
    """w_c·C + w_p·clip(speedup) + w_v·coverage, or the penalty for a failure or a hack.

    With the weights of KernelGYM's RL scripts (½, ½, ½) it is half of eq. 8.
    Source: its reward_client.py, :445.
    """
    if not measures.completed or measures.hacked:
        return {"penalty": options.penalty_score}
    speedup = min(measures.speedup or 0.0, options.upper_bound)
    return weighed(measures, options, speedup if speedup >= options.lower_bound else 0.0)


def calculate_reward_weighted(measures: Measures, options: Options = STANDARD) -> Parts:
    """w_c·C + w_p·[speedup ≥ 1 + ε] + w_v·coverage, or the penalty.  Source:
    KernelGYM's reward_client.py, :355.
    """
    if not measures.completed or measures.hacked:
        return {"penalty": options.penalty_score}
    return weighed(measures, options, float((measures.speedup or 0.0) >= 1.0 + options.speedup_eps))


def calculate_reward_like_kernel(measures: Measures, options: Options = STANDARD) -> Parts:
    """A ladder from −1 to 1.  Source: KernelGYM's reward_client.py, :234."""
    if not measures.completed or measures.hacked:
        return {"failed or hack": FAILED}
    if not measures.compiled:
        return {"compile error": options.compilation_fail}
    if not measures.correct:
        return {"not correct": options.correctness_fail}
    speedup = measures.speedup or 0.0
    for least, reward in LADDER:
        if speedup >= least:
            return {f"speedup ≥ {least:g}×": reward}
    return {"slower than the reference": options.perf_degrade}
