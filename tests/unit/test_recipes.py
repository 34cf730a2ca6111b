"""Training recipes: they parse, name existing things, and hold the paper's hyper-parameters.

With verl installed, every key of its recipes is one of verl's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.client.session import as_spec
from app.domain.credit import METHODS
from app.integrations.sessions import check_grows
from app.kernel_assay import backend

FOLDER = Path(__file__).parents[2] / "workers/training/recipes"
RECIPES = {path.stem: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yaml")}


def leaves(value: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for name, one in value.items():
        if isinstance(one, Mapping):
            yield from leaves(one, f"{at}{name}.")
        else:
            yield f"{at}{name}"


def test_both_rl_recipes_hold_the_same_dialogue() -> None:
    spec = as_spec(RECIPES["session"])
    check_grows(spec)
    assert RECIPES["session"] == RECIPES["verl_loop"][0]["spec"]
    assert (FOLDER / RECIPES["trl_rl"]["session"]).name == "session.yaml"
    assert spec.most_attempts == 3
    assert spec.longest_answer() == 8192
    assert spec.reward == "dr_kernel_pr"


def test_the_hyper_parameters_are_the_papers() -> None:
    verl, trl = RECIPES["verl_rl"], RECIPES["trl_rl"]["trainer"]
    actor, rollout = verl["actor_rollout_ref"]["actor"], verl["actor_rollout_ref"]["rollout"]
    assert (actor["optim"]["lr"], trl["learning_rate"]) == (1e-6, 1e-6)
    assert (verl["trainer"]["total_training_steps"], trl["max_steps"]) == (300, 300)
    assert (verl["data"]["train_batch_size"], rollout["n"], trl["num_generations"]) == (16, 16, 16)
    assert trl["per_device_train_batch_size"] * trl["gradient_accumulation_steps"] == 16 * 16
    assert verl["data"]["max_prompt_length"] + verl["data"]["max_response_length"] == 32768
    assert (
        verl["algorithm"]["adv_estimator"].removeprefix("assay_")
        == RECIPES["trl_rl"]["credit"]["method"]
        == "trloo"
    )
    assert "trloo" in METHODS
    low, high = (
        verl["algorithm"]["rollout_correction"]["rollout_rs_threshold"].partition(",")[0].split("_")
    )
    assert (1 / float(high), 1 / float(low)) == pytest.approx((0.999, 1.001), abs=1e-8)
    for sft, rate in (
        (RECIPES["verl_sft"], RECIPES["verl_sft"]["optim"]["lr"]),
        (RECIPES["trl_sft"], None),
    ):
        assert (rate or sft["trainer"]["learning_rate"]) == 1e-6
    assert RECIPES["verl_sft"]["data"]["train_batch_size"] == 256
    assert (
        RECIPES["verl_sft"]["trainer"]["total_epochs"]
        == RECIPES["trl_sft"]["trainer"]["num_train_epochs"]
        == 4
    )


def test_the_modules_that_recipes_name_exist_and_are_renamed_in_the_wheel() -> None:
    loop, data = (
        RECIPES["verl_loop"][0]["_target_"],
        RECIPES["verl_sft"]["data"]["custom_cls"]["path"],
    )
    for name in (loop.rpartition(".")[0], data.removeprefix("pkg://")):
        assert importlib.util.find_spec(name) is not None
    files = {name: content.decode() for name, content in backend.sources() if "/recipes/" in name}
    assert {
        f"kernel_assay/training/recipes/{path.name}"
        for path in FOLDER.iterdir()
        if path.suffix in (".py", ".yaml")
    } == set(files)
    assert (
        "kernel_assay.integrations.verl_agent_loop"
        in files["kernel_assay/training/recipes/verl_loop.yaml"]
    )
    assert not [name for name, text in files.items() if "app.integrations" in text]


FREE = [
    "actor_rollout_ref.model.override_config.attn_implementation",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
    "ray_kwargs.ray_init.num_gpus",
]
"""Keys of tables that verl hands on: to the model, to FSDP and to Ray."""


@pytest.mark.parametrize(
    ("recipe", "base", "free"),
    [
        ("verl_rl", "ppo_trainer", []),
        ("verl_sft", "sft_trainer_engine", []),
        ("verl_dry_run", "ppo_trainer", FREE),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_verl_knows_every_key(recipe: str, base: str, free: list[str]) -> None:
    verl = pytest.importorskip("verl")
    from hydra import compose, initialize_config_dir

    own = Path(verl.__file__).parent / "trainer/config"
    with initialize_config_dir(str(own), version_base=None):
        known = compose(base)
    with initialize_config_dir(str(FOLDER), version_base=None):
        merged = compose(recipe, overrides=[f"hydra.searchpath=[file://{own}]"])
    told = {name: value for name, value in RECIPES[recipe].items() if name != "defaults"}
    unknown = [key for key in leaves(told) if not _has(known, key)]
    assert sorted(unknown) == sorted(free)
    for key in leaves(told):
        assert _get(merged, key) == _get(told, key)


@pytest.mark.filterwarnings("ignore")
def test_verl_reads_the_bounds_of_rejection() -> None:
    pytest.importorskip("verl")
    import torch
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_rejection_mask

    told = RECIPES["verl_rl"]["algorithm"]["rollout_correction"]
    log_ratio = torch.zeros(4, 8)
    log_ratio[1] = 0.0009  # the geometric mean of train/rollout is 1.0009
    log_ratio[2] = 0.0011
    log_ratio[3, 0], log_ratio[3, 1] = -9.3, 9.3  # its mean is 1, and one token is below 1e-4
    mask, _ = compute_rollout_rejection_mask(
        log_ratio, torch.ones(4, 8), told["rollout_rs"], told["rollout_rs_threshold"]
    )
    assert mask.sum(dim=1).tolist() == [8, 8, 0, 0]


def _get(config: Any, key: str) -> Any:
    for name in key.split("."):
        config = config[name]
    return config


def _has(config: Any, key: str) -> bool:
    *tables, last = key.split(".")
    for name in tables:
        if name not in config:
            return False
        config = config[name]
    return last in list(config)  # `in` says no where a value is mandatory
