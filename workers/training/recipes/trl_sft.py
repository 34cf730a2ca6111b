"""SFT with TRL by a recipe: `accelerate launch trl_sft.py trl_sft.yaml --model PATH
--data sft.parquet`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

from app.integrations import trl as kernel_assay


def trainer_of(recipe: Path, model: Any, data: str, tokenizer: Any, **fields: Any) -> SFTTrainer:
    """The trainer of a recipe.  `fields`: in place of the recipe's."""
    config = yaml.safe_load(recipe.read_text())
    rows = load_dataset("parquet", data_files=data, split="train")
    return SFTTrainer(
        model,
        args=SFTConfig(**{**config["trainer"], **fields}),
        train_dataset=kernel_assay.masked(rows, tokenizer),
        processing_class=tokenizer,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    given = parser.parse_args()
    trainer_of(
        given.recipe, given.model, given.data, AutoTokenizer.from_pretrained(given.model)
    ).train()
