"""EXPORT: the formats of OpenAI's fine-tuning API, which Fireworks, Together and others read, too.

Nothing but its own keys is in a row, because some readers refuse files with keys that fit two
formats: the lineage file is where a row's provenance stands.  `weight` is on every assistant
message: where it is missing on some, `datasets` fills in None, which other readers refuse.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.example_texts import ChatMessage
from app.domain.dataset.selection import Kind, Learns
from app.formats.base import JSONL, MESSAGES, Rows


class OpenAiSft(Rows):
    """`messages`, with `weight` 0 or 1 on assistant messages."""

    about = "OpenAI fine-tuning JSONL, `messages` with `weight`"
    kinds = (Kind.MASKED, Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    container = JSONL
    learns = Learns.MARKED
    usage = "Loss is on assistant messages of weight 1."
    schema = pa.schema(
        [
            (
                "messages",
                pa.list_(
                    pa.struct(
                        [("role", pa.string()), ("content", pa.string()), ("weight", pa.int32())]
                    )
                ),
            )
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The dialogue; weight 1 on the chosen turns' answers."""
        marked = zip(example.messages, example.trained, strict=True)
        return {"messages": [_weighed(message, train) for message, train in marked]}


class OpenAiPreference(Rows):
    """`input`, `preferred_output`, `non_preferred_output`."""

    about = "OpenAI DPO JSONL"
    kinds = (Kind.PAIRS,)
    container = JSONL
    schema = pa.schema(
        [
            (
                "input",
                pa.struct(
                    [
                        ("messages", MESSAGES),
                        ("tools", pa.list_(pa.string())),
                        ("parallel_tool_calls", pa.bool_()),
                    ]
                ),
            ),
            ("preferred_output", MESSAGES),
            ("non_preferred_output", MESSAGES),
        ]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """Two answers to one prompt."""
        return {
            "input": {"messages": list(example.history), "tools": [], "parallel_tool_calls": True},
            "preferred_output": [example.reply],
            "non_preferred_output": [example.rejected],
        }


def _weighed(message: ChatMessage, train: bool) -> dict[str, Any]:
    return message | {"weight": int(train)} if message["role"] == "assistant" else dict(message)
