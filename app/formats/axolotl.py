"""EXPORT: the format of axolotl's `chat_template` type, with a mark on every message
that says whether it is learnt.

datasets: [{path: DIR, type: chat_template, field_messages: messages,
message_field_training: train}]
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.example import Example
from app.domain.selection import Kind, Learns
from app.formats.base import JSONL, MARKED, Rows, marked


class Axolotl(Rows):
    """`messages` with role, content and train."""

    about = "axolotl `chat_template` with `message_field_training: train`"
    kinds = (Kind.MASKED, Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    container = JSONL
    learns = Learns.MARKED
    usage = (
        "Set `type: chat_template` and `message_field_training: train`, and leave `train_on_inputs`"
        " off."
    )
    schema = pa.schema([("messages", MARKED)])

    def render(self, example: Example) -> dict[str, Any]:
        """The dialogue; `train` on the chosen turns' answers."""
        return {"messages": marked(example)}
