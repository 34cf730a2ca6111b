"""EXPORT: the formats of verl: `MultiTurnSFTDataset` and `RLHFDataset`.

`reward_model.ground_truth` is the reference's source, style `rule`: the value that verl hands
to `compute_score`. `extra_info` is one fixed struct with every key in every row, because
pyarrow cannot write an empty struct and fills missing keys with None, on which tool code
trips.  Its `prompt` repeats the messages as JSON, because verl hands `extra_info` to the
reward function, and no prompt.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.selection import Kind, Learns
from app.formats.base import MARKED, MESSAGES, Rows, marked

DATA_SOURCE = "kernel_assay"
"""verl chooses the reward function and groups validation metrics by it."""


class VerlSft(Rows):
    """`messages` and `enable_thinking`.

    verl puts the loss on every assistant message, so that only dialogues with all answers passing
    the selection are rows; `verl_sft_masked` has the others.  It compares the tokens of each
    message with those of the whole conversation: with templates that drop old thoughts (Qwen3),
    export with `--reasoning drop_history`.
    """

    about = "verl MultiTurnSFTDataset, `messages`, every answer learnt"
    kinds = (Kind.TRAJECTORY, Kind.SINGLE)
    learns = Learns.EVERY
    usage = (
        "verl learns every answer of a dialogue: dialogues with an answer that does not pass are"
        " left out."
    )
    schema = pa.schema(
        [("messages", MESSAGES), ("enable_thinking", pa.bool_()), ("evaluation_id", pa.string())]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The conversation; thinking is on where the answer holds a thought."""
        return {
            "messages": example.messages,
            "enable_thinking": "</think>" in example.answer,
            "evaluation_id": example.facts.evaluation_id,
        }


class VerlSftMasked(Rows):
    """`dialogue`, with a mark on every message, and `enable_thinking`.

    The column is not `messages`, which verl's own dataset would learn whole."""

    about = "verl with app.integrations.verl_dataset.MarkedDataset, `dialogue`"
    kinds = (Kind.MASKED, Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    learns = Learns.MARKED
    usage = (
        "Set `data.custom_cls.path=pkg://app.integrations.verl_dataset` and"
        " `data.custom_cls.name=MarkedDataset`: it puts the loss on messages whose `train` is true."
    )
    schema = pa.schema(
        [("dialogue", MARKED), ("enable_thinking", pa.bool_()), ("evaluation_id", pa.string())]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The dialogue; `train` on the chosen turns' answers."""
        return {
            "dialogue": marked(example),
            "enable_thinking": "</think>" in example.answer,
            "evaluation_id": example.facts.evaluation_id,
        }


class VerlRl(Rows):
    """Columns data_source, prompt, ability, reward_model and extra_info: one row is
    one problem under one prompt.
    """

    about = "verl RLHFDataset"
    kinds = (Kind.RL_PROMPTS,)
    schema = pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", MESSAGES),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
            (
                "extra_info",
                pa.struct(
                    [
                        ("split", pa.string()),
                        ("index", pa.int64()),
                        ("problem_id", pa.string()),
                        ("problem", pa.string()),
                        ("source_set", pa.string()),
                        ("level", pa.int32()),
                        ("family", pa.string()),
                        ("entry_point", pa.string()),
                        ("backend", pa.string()),
                        ("reference_sha256", pa.string()),
                        ("prompt_source", pa.string()),
                        ("sanitized", pa.bool_()),
                        ("pass_rate", pa.float64()),
                        ("attempts", pa.int32()),
                        ("licence", pa.string()),
                        ("prompt", pa.string()),
                    ]
                ),
            ),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The problem: no answer is shown."""
        facts = example.facts
        return {
            "data_source": DATA_SOURCE,
            "prompt": list(example.prompt),
            "ability": "kernel_optimization",
            "reward_model": {"style": "rule", "ground_truth": example.reference},
            "extra_info": {
                "split": example.split,
                "index": example.index,
                "problem_id": facts.problem_id,
                "problem": facts.problem,
                "source_set": facts.source_set,
                "level": facts.level,
                "family": facts.family,
                "entry_point": facts.entry_point,
                "backend": facts.backend,
                "reference_sha256": facts.reference_sha256,
                "prompt_source": example.prompt_source,
                "sanitized": example.sanitized,
                "pass_rate": example.extra.pass_rate,
                "attempts": example.extra.attempts,
                "licence": facts.problem_licence,
                "prompt": json.dumps(list(example.prompt)),
            },
        }
