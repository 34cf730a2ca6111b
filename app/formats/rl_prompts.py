"""EXPORT: prompts for RL stacks that read JSON lines: slime and miles, SkyRL, NeMo Gym."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.selection import Kind
from app.formats.base import JSONL, MESSAGES, Rows, reward_label

ENVIRONMENT = "kernel_assay"

_PROBLEM = [
    (name, pa.string())
    for name in ("problem_id", "problem", "source_set", "entry_point", "backend", "reference_code")
]


def _problem(example: Example) -> dict[str, Any]:
    facts = example.facts
    return {
        "problem_id": facts.problem_id,
        "problem": facts.problem,
        "source_set": facts.source_set,
        "entry_point": facts.entry_point,
        "backend": facts.backend,
        "reference_code": example.reference,
    }


class SlimePrompts(Rows):
    """`--input-key prompt --label-key label --metadata-key metadata --apply-chat-template`."""

    about = "slime, miles: `prompt`, `label`, `metadata`"
    kinds = (Kind.RL_PROMPTS,)
    container = JSONL
    schema = pa.schema(
        [("prompt", MESSAGES), ("label", pa.string()), ("metadata", pa.struct(_PROBLEM))]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The label is JSON: the problem, its backend, and the prompt as it was
        before a chat template.

        slime hands its reward the label, and no metadata.
        """
        return {
            "prompt": list(example.prompt),
            "label": reward_label(example),
            "metadata": _problem(example),
        }


class SkyRlPrompts(Rows):
    """`data_source`, `prompt`, `env_class`, `reward_spec`, `extra_info`.

    Name the file itself in `data.train_data`; `skyrl_gym.register` an environment
    under the name in `env_class`.
    """

    about = "SkyRL: `prompt`, `env_class`, `reward_spec`"
    kinds = (Kind.RL_PROMPTS,)
    container = JSONL
    schema = pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", MESSAGES),
            ("env_class", pa.string()),
            ("reward_spec", pa.struct([("method", pa.string()), ("ground_truth", pa.string())])),
            ("extra_info", pa.struct(_PROBLEM)),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The ground truth is the reference."""
        return {
            "data_source": ENVIRONMENT,
            "prompt": list(example.prompt),
            "env_class": ENVIRONMENT,
            "reward_spec": {"method": "rule", "ground_truth": example.reference},
            "extra_info": _problem(example),
        }


class NemoGymPrompts(Rows):
    """`responses_create_params` and `verifier_metadata`.

    Rows name no agent: `gym dataset collate` writes the dataset's agent into them, and `gym
    eval run` takes `+agent_name`.
    """

    about = "NeMo Gym: `responses_create_params`, `verifier_metadata`"
    kinds = (Kind.RL_PROMPTS,)
    container = JSONL
    schema = pa.schema(
        [
            ("responses_create_params", pa.struct([("input", MESSAGES)])),
            ("verifier_metadata", pa.struct(_PROBLEM)),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The problem goes to the verifier."""
        return {
            "responses_create_params": {"input": list(example.prompt)},
            "verifier_metadata": _problem(example),
        }


class NemoGymSessions(NemoGymPrompts):
    """Rows for app.integrations.nemo_gym: no input, because the session writes the prompt."""

    about = "NeMo Gym with Assay's resources server: `verifier_metadata`, no input"

    def render(self, example: Example) -> dict[str, Any]:
        """The problem goes to the server."""
        return {**super().render(example), "responses_create_params": {"input": []}}
