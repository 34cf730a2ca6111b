"""EXPORT: turns with their rewards and returns, good or bad: for offline RL, reward
models and analysis.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.dataset.attempt_rewards import KEVIN, SCORES
from app.domain.dataset.example import Example
from app.domain.dataset.selection import Kind
from app.formats.base import MESSAGES, PROVENANCE, Rows, provenance

_COLUMNS = {name: "kevin_score" if name == KEVIN else f"reward_{name}" for name in SCORES}
_RETURNS = {name: "kevin_return" if name == KEVIN else f"return_{name}" for name in SCORES}


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
            *((_COLUMNS[name], pa.float64()) for name in SCORES),
            *((_RETURNS[name], pa.float64()) for name in SCORES),
            ("correct", pa.bool_()),
            ("measured_speedup", pa.float64()),
            *PROVENANCE,
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """Everything that is known of one turn."""
        rewards = dict(zip(_COLUMNS.values(), example.extra.rewards or (), strict=True))
        returns = dict(zip(_RETURNS.values(), example.extra.returns or (), strict=True))
        return (
            provenance(example)
            | rewards
            | returns
            | {
                "prompt": list(example.history),
                "completion": example.answer,
                "code": example.source,
                "correct": example.facts.correct,
                "measured_speedup": example.facts.measured_speedup,
            }
        )
