"""EXPORT: the formats of OpenRLHF: `SFTDataset`, `RewardDataset`, `PromptDataset`.

SFT: `--data.input_key input --data.output_key output --data.apply_chat_template`, where an `input`
of messages wants an `output` of messages.  With `--data.multiturn` and no output key it would learn
every answer of the `input`.  RM and DPO: `--data.prompt_key prompt`.  PPO and GRPO:
`--data.input_key context_messages --data.label_key label`; the reward endpoint receives `label`
word for word: it is a JSON string with the reference.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.selection import Kind
from app.formats.base import JSONL, MESSAGES, Rows, reward_label

DATA_SOURCE = "kernel_assay"


class OpenRlhfSft(Rows):
    """`input` and `output`: the loss is on the output alone."""

    about = "OpenRLHF SFTDataset, `input` and `output`"
    kinds = (Kind.TURN, Kind.SINGLE, Kind.TRAJECTORY)
    container = JSONL
    usage = "Set `--data.input_key input --data.output_key output`, without `--data.multiturn`."
    schema = pa.schema([("input", MESSAGES), ("output", MESSAGES), ("datasource", pa.string())])

    def render(self, example: Example) -> dict[str, Any]:
        """History and answer apart."""
        return {
            "input": list(example.history),
            "output": [example.reply],
            "datasource": DATA_SOURCE,
        }


class OpenRlhfPreference(Rows):
    """`prompt`, `chosen`, `rejected`."""

    about = "OpenRLHF RewardDataset (RM, DPO), `prompt`, `chosen`, `rejected`"
    kinds = (Kind.PAIRS,)
    container = JSONL
    schema = pa.schema([("prompt", MESSAGES), ("chosen", MESSAGES), ("rejected", MESSAGES)])

    def render(self, example: Example) -> dict[str, Any]:
        """Two answers to one prompt."""
        return {
            "prompt": list(example.history),
            "chosen": [example.reply],
            "rejected": [example.rejected],
        }


class OpenRlhfPrompts(Rows):
    """`context_messages`, `label`, `datasource`."""

    about = "OpenRLHF PromptDataset (PPO, GRPO), `context_messages` and `label`"
    kinds = (Kind.RL_PROMPTS,)
    container = JSONL
    schema = pa.schema(
        [("context_messages", MESSAGES), ("label", pa.string()), ("datasource", pa.string())]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The problem, and for its reward the reference and the prompt as it was
        before a chat template.
        """
        return {
            "context_messages": list(example.prompt),
            "label": reward_label(example),
            "datasource": DATA_SOURCE,
        }
