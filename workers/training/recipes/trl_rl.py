"""RL with TRL by a recipe: `accelerate launch trl_rl.py trl_rl.yaml --model PATH --data
prompts.parquet [--run NAME]`.

The service is found at KERNEL_ASSAY_URL with KERNEL_ASSAY_TOKEN.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml
from datasets import Dataset, load_dataset
from trl import GRPOConfig

from app.domain.credit import MethodOptions
from app.integrations.trl_rollout import KernelRollouts, turn_sum
from workers.training.trl_trainer import TurnCreditTrainer


def trainer_of(
    recipe: Path, model: Any, data: str, *, run: str | None = None, **more: Any
) -> TurnCreditTrainer:
    """The trainer of a recipe.  `more`: further arguments of it; `trainer`: fields
    in place of the recipe's.
    """
    config = yaml.safe_load(recipe.read_text())
    fields = {**config["trainer"], **more.pop("trainer", {})}
    spec = {
        **yaml.safe_load((recipe.parent / config["session"]).read_text()),
        **more.pop("session", {}),
    }
    rows = load_dataset("parquet", data_files=data, split="train")
    rollouts = KernelRollouts(rows, spec, run=run, model=model if isinstance(model, str) else None)
    return TurnCreditTrainer(
        model,
        method=config["credit"]["method"],
        options=MethodOptions(gamma=config["credit"]["gamma"]),
        rollout_func=rollouts,
        reward_funcs=turn_sum,
        train_dataset=Dataset.from_list(rollouts.rows()),
        args=GRPOConfig(**fields),
        **more,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--run")
    given = parser.parse_args()
    trainer_of(given.recipe, given.model, given.data, run=given.run).train()
