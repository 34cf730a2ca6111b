"""EXPORT: the formats of LLaMA-Factory: OpenAI-style messages, preferences and KTO, with the
`dataset_info.json` that its loader wants.  Point `dataset_dir` at the folder of the dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.example_texts import ChatMessage
from app.domain.dataset.selection import Kind
from app.formats.base import JSONL, MESSAGES, Rows

_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}
INFO = "dataset_info.json"
ARGUMENTS = "llamafactory.json"


def _info(name: str, files: dict[str, str], entry: dict[str, Any]) -> dict[str, Any]:
    named = {name if split == "train" else f"{name}_{split}": path for split, path in files.items()}
    return {
        INFO: {own: {"file_name": path} | entry | {"tags": _TAGS} for own, path in named.items()}
    }


def _merged(messages: Sequence[ChatMessage]) -> list[dict[str, str]]:
    """Messages of one side that follow each other become one: its loader wants the
    sides to alternate.
    """
    found: list[dict[str, str]] = []
    for message in messages:
        side = message.role if message.role in ("system", "assistant") else "user"
        if found and found[-1]["role"] == side:
            found[-1] = {"role": side, "content": f"{found[-1]['content']}\n\n{message.content}"}
        else:
            found.append({"role": side, "content": message.content})
    return found


class LlamaFactorySft(Rows):
    """`messages`, formatting `sharegpt` with OpenAI's tags.

    `mask_history: true` puts the loss on the last answer alone; without it
    LLaMA-Factory learns every answer.
    """

    about = "LLaMA-Factory SFT, `messages`, with dataset_info.json"
    kinds = (Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    container = JSONL
    usage = (
        "Set `mask_history: true`, as `llamafactory.json` beside the rows does: without it the"
        " earlier answers of a dialogue bear loss, too."
    )
    schema = pa.schema([("messages", MESSAGES)])

    def render(self, example: Example) -> dict[str, Any]:
        """The conversation, sides alternating."""
        return {"messages": _merged(example.messages)}

    def documents(self, files: dict[str, str]) -> dict[str, Any]:
        """dataset_info.json, and arguments of a training that learns the selected answers."""
        info = _info(
            "kernels_sft", files, {"formatting": "sharegpt", "columns": {"messages": "messages"}}
        )
        return info | {
            ARGUMENTS: {
                "stage": "sft",
                "dataset_dir": ".",
                "dataset": "kernels_sft",
                "mask_history": True,
            }
        }


class LlamaFactoryPreference(Rows):
    """`conversations`, and `chosen` and `rejected` as one message each."""

    about = "LLaMA-Factory DPO, `ranking`, with dataset_info.json"
    kinds = (Kind.PAIRS,)
    container = JSONL
    schema = pa.schema(
        [
            ("conversations", MESSAGES),
            ("chosen", MESSAGES.value_type),
            ("rejected", MESSAGES.value_type),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """Two answers to one prompt."""
        return {
            "conversations": _merged(example.history),
            "chosen": example.reply,
            "rejected": example.rejected,
        }

    def documents(self, files: dict[str, str]) -> dict[str, Any]:
        """dataset_info.json."""
        columns = {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"}
        return _info(
            "kernels_dpo", files, {"formatting": "sharegpt", "ranking": True, "columns": columns}
        )


class LlamaFactoryKto(Rows):
    """`messages` and `label`."""

    about = "LLaMA-Factory KTO, `kto_tag`, with dataset_info.json"
    kinds = (Kind.LABELLED,)
    container = JSONL
    schema = pa.schema([("messages", MESSAGES), ("label", pa.bool_())])

    def render(self, example: Example) -> dict[str, Any]:
        """One answer, good or bad."""
        messages = _merged(example.messages)
        return {"messages": messages, "label": example.extra.label}

    def documents(self, files: dict[str, str]) -> dict[str, Any]:
        """dataset_info.json."""
        columns = {"messages": "messages", "kto_tag": "label"}
        return _info("kernels_kto", files, {"formatting": "sharegpt", "columns": columns})
