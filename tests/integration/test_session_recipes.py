"""Recipes of `workers/training/recipes`, run by TRL on the CPU with a random model,
where TRL is installed.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.client import Client
from tests.integration import tiny_trainer
from tests.integration.test_session_trainers import FAILS, PASSES, REFERENCE, stored

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

RECIPES = Path(__file__).parents[2] / "workers/training/recipes"
SMALL = {
    "max_steps": 1,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 1,
    "report_to": [],
    "use_cpu": True,
    "bf16": False,
    "save_strategy": "no",
}


def trainer_of(name: str, *given: Any, **more: Any) -> Any:
    """The trainer that a recipe's script makes."""
    return runpy.run_path(str(RECIPES / f"{name}.py"))["trainer_of"](
        RECIPES / f"{name}.yaml", *given, **more
    )


def parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def test_the_recipe_of_rl_runs_with_trl(connected: Client, tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.16")
    fields = {
        **SMALL,
        "output_dir": str(tmp_path),
        "use_vllm": False,
        "num_generations": 2,
        "max_completion_length": 6,
    }
    data = parquet(
        tmp_path / "data.parquet",
        [{"reference_code": REFERENCE, "entry_point": "Model", "backend": "cuda"}],
    )
    trainer = trainer_of(
        "trl_rl",
        tiny_trainer.model(),
        data,
        run="recipe",
        trainer=fields,
        session={"device_class": "cpu"},
        processing_class=tiny_trainer.tokenizer(),
    )
    assert (trainer.args.learning_rate, trainer.args.epsilon_high, trainer.method) == (
        1e-6,
        0.28,
        "trloo",
    )
    trainer.train()
    kept = stored(connected)
    assert [(each.run, each.backend, len(each.turns)) for each in kept] == [
        ("recipe step 0", "cuda", 3)
    ] * 2


def test_the_recipe_of_sft_runs_with_trl(tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.16")
    said = [
        ("user", "?", False),
        ("assistant", FAILS, False),
        ("user", "!", False),
        ("assistant", PASSES, True),
    ]
    dialogue = [{"role": role, "content": text, "train": train} for role, text, train in said]
    data = parquet(tmp_path / "data.parquet", [{"dialogue": dialogue}] * 4)
    tokenizer = tiny_trainer.tokenizer(generation=True)
    fields = {**SMALL, "output_dir": str(tmp_path), "logging_steps": 1}
    trainer = trainer_of("trl_sft", tiny_trainer.model(), data, tokenizer, **fields)
    assert (trainer.args.learning_rate, trainer.args.num_train_epochs, trainer.args.max_length) == (
        1e-6,
        4,
        18432,
    )
    trainer.train()
    assert trainer.state.log_history[0]["loss"] > 0
