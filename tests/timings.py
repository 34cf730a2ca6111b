"""Timings of made-up evaluations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.domain.evaluation import Timing

TWICE = Timing(
    reference_us=20.0,
    candidate_us=10.0,
    speedup=2.0,
    ci_low=1.9,
    ci_high=2.1,
    groups=6,
    calls_per_side=60,
    handover_us=5.0,
    candidate_handover_us=5.0,
    claimed_us=None,
    floor_us=1.0,
    stop_reason="precise",
    blocks=(),
)
"""A candidate twice as fast as its reference."""


def timing(**changes: Any) -> Timing:
    """That timing with some fields changed."""
    return replace(TWICE, **changes)
