"""ENQUEUE: verl's SFT dataset for the format `verl_sft_masked`: loss on messages
with a true `train`.

    data.custom_cls.path=pkg://app.integrations.verl_dataset
    data.custom_cls.name=MarkedDataset

Needs verl, and is imported by its trainer alone.
"""

from __future__ import annotations

from typing import Any

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

COLUMN = "dialogue"


class MarkedDataset(MultiTurnSFTDataset):  # type: ignore[misc]  # verl has no types
    """`MultiTurnSFTDataset` of the column `dialogue`, which puts no loss on a
    message that is not to be trained.
    """

    def __init__(
        self, parquet_files: Any, tokenizer: Any, config: Any, *args: Any, **more: Any
    ) -> None:
        super().__init__(
            parquet_files, tokenizer, {**(config or {}), "messages_key": COLUMN}, *args, **more
        )

    def _process_single_message(
        self, index: int, message: dict[str, Any], *args: Any, **more: Any
    ) -> Any:
        said = {"role": message["role"], "content": message["content"]}
        ids, loss_mask, attention_mask, others = super()._process_single_message(
            index, said, *args, **more
        )
        return ids, loss_mask if message["train"] else loss_mask * 0, attention_mask, others
