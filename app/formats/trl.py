"""EXPORT: the formats of TRL: `SFTTrainer`, `DPOTrainer`, `KTOTrainer`, `GRPOTrainer`.

Provenance stands in further columns, none of which has a name that a trainer takes for data.
GRPO hands every column but the prompt to the reward functions: `reference_code`, `entry_point`
and `backend` are their inputs.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.selection import Kind, Learns
from app.formats.base import MARKED, MESSAGES, PROVENANCE, Rows, marked, provenance

LENGTH = (
    "Set `max_length` to the tokens of the longest row: by default TRL cuts rows after 1,024 tokens"
    " without a word, so that kernels lose their end."
)
"""Advice on the one default of TRL's trainers that spoils long rows."""


class TrlSft(Rows):
    """`prompt` and `completion`: the loss is on the completion alone, as TRL does by itself."""

    about = "TRL SFTTrainer, `prompt` and `completion`"
    kinds = (Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    usage = (
        "Leave `completion_only_loss` as it is: rows with a completion bear loss there alone."
        f" {LENGTH}"
    )
    schema = pa.schema([("prompt", MESSAGES), ("completion", MESSAGES), *PROVENANCE])

    def render(self, example: Example) -> dict[str, Any]:
        """History and answer apart."""
        own = {"prompt": list(example.history), "completion": [example.reply]}
        return provenance(example) | own


class TrlSftMasked(Rows):
    """`dialogue`, with a mark on every message: one row a dialogue, several answers
    of which may be learnt.

    The column is not `messages`, of which TRL would learn every answer.
    """

    about = "TRL SFTTrainer by app.integrations.trl.masked, `dialogue`"
    kinds = (Kind.MASKED, Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    learns = Learns.MARKED
    usage = (
        "Hand `app.integrations.trl.masked(dataset, tokenizer)` to the trainer: it makes"
        " `input_ids` and `labels` by TRL's assistant mask, with loss on messages whose `train` is"
        f" true. {LENGTH}"
    )
    schema = pa.schema([("dialogue", MARKED), *PROVENANCE])

    def render(self, example: Example) -> dict[str, Any]:
        """The dialogue; `train` on the chosen turns' answers."""
        return provenance(example) | {"dialogue": marked(example)}


class TrlPreference(Rows):
    """`prompt`, `chosen`, `rejected`: the explicit prompt that DPO recommends."""

    about = "TRL DPOTrainer, `prompt`, `chosen`, `rejected`"
    kinds = (Kind.PAIRS,)
    usage = LENGTH
    schema = pa.schema(
        [
            ("prompt", MESSAGES),
            ("chosen", MESSAGES),
            ("rejected", MESSAGES),
            ("pair", pa.string()),
            ("rejected_status", pa.string()),
            ("rejected_verdict", pa.string()),
            ("rejected_speedup", pa.float64()),
            ("rejected_device_class", pa.string()),
            ("rejected_backend", pa.string()),
            ("rejected_evaluation_id", pa.string()),
            *PROVENANCE,
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """Two answers to one prompt."""
        worse = example.rejected_facts
        assert worse is not None
        return provenance(example) | {
            "prompt": list(example.history),
            "chosen": [example.reply],
            "rejected": [example.rejected],
            "pair": example.extra.why,
            "rejected_status": worse.status,
            "rejected_verdict": worse.verdict,
            "rejected_speedup": worse.speedup,
            "rejected_device_class": worse.device_class,
            "rejected_backend": worse.backend,
            "rejected_evaluation_id": worse.evaluation_id,
        }


class TrlKto(Rows):
    """`prompt`, `completion`, `label`."""

    about = "TRL KTOTrainer, `prompt`, `completion`, `label`"
    kinds = (Kind.LABELLED,)
    usage = LENGTH
    schema = pa.schema(
        [("prompt", MESSAGES), ("completion", MESSAGES), ("label", pa.bool_()), *PROVENANCE]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """One answer, good or bad."""
        return provenance(example) | {
            "prompt": list(example.history),
            "completion": [example.reply],
            "label": example.extra.label,
        }


class TrlPrompts(Rows):
    """`prompt` alone, with the inputs of a reward function."""

    about = "TRL GRPOTrainer, `prompt`"
    kinds = (Kind.RL_PROMPTS,)
    schema = pa.schema(
        [
            ("prompt", MESSAGES),
            ("problem_id", pa.string()),
            ("problem", pa.string()),
            ("source_set", pa.string()),
            ("level", pa.int32()),
            ("family", pa.string()),
            ("reference_code", pa.string()),
            ("entry_point", pa.string()),
            ("backend", pa.string()),
            ("pass_rate", pa.float64()),
            ("attempts", pa.int32()),
            ("prompt_source", pa.string()),
            ("problem_licence", pa.string()),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The problem: no answer is shown."""
        facts, extra = example.facts, example.extra
        return {
            "prompt": list(example.prompt),
            "problem_id": facts.problem_id,
            "problem": facts.problem,
            "source_set": facts.source_set,
            "level": facts.level,
            "family": facts.family,
            "reference_code": example.reference,
            "entry_point": facts.entry_point,
            "backend": facts.backend,
            "pass_rate": extra.pass_rate,
            "attempts": extra.attempts,
            "prompt_source": example.prompt_source,
            "problem_licence": facts.problem_licence,
        }
