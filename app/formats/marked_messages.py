"""EXPORT: formats of trainers that read `messages` with a mark on each that says whether it bears
loss, every one under a key of its own.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.selection import Kind, Learns
from app.formats.base import JSONL, Rows


class MarkedMessages(Rows):
    """`messages` with role, content and the mark: true, or 1, on the chosen turns' answers."""

    kinds = (Kind.MASKED, Kind.TURN, Kind.TRAJECTORY, Kind.SINGLE)
    container = JSONL
    learns = Learns.MARKED

    def __init__(self, *, about: str, usage: str, mark: str, number: bool = False) -> None:
        """`mark`: key of the mark; `number`: it is 0 or 1, not a truth value."""
        self.about, self.usage, self.mark = about, usage, mark
        self._type: type[int] = int if number else bool
        message = [
            ("role", pa.string()),
            ("content", pa.string()),
            (mark, pa.int32() if number else pa.bool_()),
        ]
        self.schema = pa.schema([("messages", pa.list_(pa.struct(message)))])

    def render(self, example: Example) -> dict[str, Any]:
        """The dialogue."""
        marked = zip(example.messages, example.trained, strict=True)
        return {"messages": [message | {self.mark: self._type(bears)} for message, bears in marked]}


AXOLOTL = MarkedMessages(
    about="axolotl `chat_template` with `message_field_training: train`",
    usage=(
        "Set `type: chat_template` and `message_field_training: train`, and leave `train_on_inputs`"
        " off."
    ),
    mark="train",
)
SLIME = MarkedMessages(
    about="slime SFT (`slime.rollout.sft_rollout`), `messages` with `step_loss_mask`",
    usage=(
        "Set `--rollout-function-path slime.rollout.sft_rollout.generate_rollout`, `--loss-type"
        " sft_loss`, `--input-key messages` and no `--apply-chat-template`."
    ),
    mark="step_loss_mask",
    number=True,
)
SWIFT = MarkedMessages(
    about="ms-swift SFT, `messages` with `loss`",
    usage="Give the files as `--dataset`; `loss` of a message goes before `--loss_scale`.",
    mark="loss",
)
TINKER = MarkedMessages(
    about="tinker-cookbook `FromConversationFileBuilder`, `messages` with `trainable`",
    usage="Set `train_on_what=TrainOnWhat.CUSTOMIZED` in `common_config`.",
    mark="trainable",
)
