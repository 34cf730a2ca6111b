"""EXPORT: turns with their rewards and returns, good or bad: for offline RL, reward models and analysis."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.example import Example
from app.domain.selection import Kind
from app.formats.base import MESSAGES, PROVENANCE, Rows, provenance


class Rewards(Rows):
    """Prompt, answer, measurements, rewards by name, return-to-go."""

    about = "every turn with rewards and returns (offline RL, reward models)"
    kinds = (Kind.REWARDS,)
    wants_source = True
    schema = pa.schema(
        [
            ("prompt", MESSAGES),
            ("completion", pa.string()),
            ("code", pa.string()),
            ("reward_dr_kernel", pa.float64()),
            ("reward_dr_kernel_pr", pa.float64()),
            ("kevin_score", pa.float64()),
            ("kevin_return", pa.float64()),
            ("correct", pa.bool_()),
            ("measured_speedup", pa.float64()),
            *PROVENANCE,
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """Everything that is known of one turn."""
        extra = example.extra
        return provenance(example) | {
            "prompt": list(example.history),
            "completion": example.answer,
            "code": example.source,
            "reward_dr_kernel": extra.dr_kernel,
            "reward_dr_kernel_pr": extra.dr_kernel_pr,
            "kevin_score": extra.kevin_score,
            "kevin_return": extra.kevin_return,
            "correct": example.facts.correct,
            "measured_speedup": example.facts.measured_speedup,
        }
