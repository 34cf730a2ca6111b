"""EXPORT: the layout of axolotl's `chat_template` type, with a mark on every message that says whether it is learnt.

datasets: [{path: DIR, type: chat_template, field_messages: messages, message_field_training: train}]"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.example import Example
from app.domain.selection import Kind
from app.formats.base import JSONL, Rows


class Axolotl(Rows):
    """`messages` with role, content and train."""

    about = "axolotl `chat_template` with `message_field_training: train`"
    kinds = (Kind.MASKED, Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    container = JSONL
    schema = pa.schema(
        [("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("train", pa.bool_())])))]
    )

    def render(self, example: Example) -> dict[str, Any]:
        """The dialogue; `train` on the chosen turns' answers."""
        marked = zip(example.messages, example.trained, strict=True)
        return {"messages": [message | {"train": train} for message, train in marked]}
