"""EXPORT: Dr. Kernel's own formats, column for column: `drkernel-coldstart-8k` and
`drkernel-rl-data`.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.selection import Kind, Learns
from app.formats.base import MESSAGES, Rows

CONVERSION = "full_conversation_enhanced"
"""Value for whole dialogues in the published cold-start set."""


def number_of(identifier: str) -> int:
    """A UUID as the 63-bit number that their `uuid` column holds."""
    return UUID(identifier).int & (2**63 - 1)


class DrKernelColdstart(Rows):
    """A whole dialogue; `best_round` counts from 1."""

    about = "Dr. Kernel cold start (hkust-nlp/drkernel-coldstart-8k), 12 columns and `timestamp`"
    kinds = (Kind.TRAJECTORY,)
    learns = Learns.EVERY
    usage = (
        "Its trainer learns every answer of a dialogue: dialogues with an answer that does not pass"
        " are left out."
    )
    schema = pa.schema(
        [
            ("messages", MESSAGES),
            ("uuid", pa.int64()),
            ("entry_point", pa.string()),
            ("repo_name", pa.string()),
            ("module_name", pa.string()),
            ("final_speedup", pa.float64()),
            ("num_rounds", pa.int64()),
            ("original_python_code", pa.string()),
            ("best_round", pa.int64()),
            ("timestamp", pa.float64()),
            ("conversion_mode", pa.string()),
            ("enable_thinking", pa.bool_()),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The dialogue ends with its chosen turn, which is its best unless another
        was asked for.
        """
        facts = example.facts
        rounds = len(example.answered) + 1
        moment = UUID(facts.evaluation_id).int >> 80  # milliseconds, of a version-7 id
        return {
            "messages": example.messages,
            "uuid": number_of(facts.trajectory_id or facts.evaluation_id),
            "entry_point": facts.entry_point,
            "repo_name": facts.source_set,
            "module_name": facts.problem,
            "final_speedup": facts.speedup,
            "num_rounds": rounds,
            "original_python_code": example.reference,
            "best_round": rounds,
            "timestamp": moment / 1000,
            "conversion_mode": CONVERSION,
            "enable_thinking": "</think>" in example.answer,
        }


class DrKernelRl(Rows):
    """verl's columns with their `extra_info`."""

    about = "Dr. Kernel RL (hkust-nlp/drkernel-rl-data), verl's columns with their `extra_info`"
    kinds = (Kind.RL_PROMPTS,)
    schema = pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", MESSAGES),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
            (
                "extra_info",
                pa.struct(
                    [
                        ("entry_point", pa.string()),
                        ("level", pa.string()),
                        ("module_name", pa.string()),
                        ("ops", pa.string()),
                        ("original_prompt", pa.string()),
                        ("repo_name", pa.string()),
                        ("type", pa.string()),
                        ("uuid", pa.string()),
                    ]
                ),
            ),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The problem."""
        facts = example.facts
        return {
            "data_source": "cuda_llm",
            "prompt": list(example.prompt),
            "ability": "kernel_optimization",
            "reward_model": {"ground_truth": example.reference, "style": "rule"},
            "extra_info": {
                "entry_point": facts.entry_point,
                "level": "" if facts.level is None else str(facts.level),
                "module_name": facts.problem,
                "ops": json.dumps([]),
                "original_prompt": example.prompt[-1].content,
                "repo_name": facts.source_set,
                "type": facts.source_set,
                "uuid": facts.problem_id,
            },
        }
