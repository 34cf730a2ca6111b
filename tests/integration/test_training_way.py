"""The whole way, once through TRL and once through verl: a problem → RL prompts → the trainer's own
rewards → stored rollouts → a report → an SFT set, with nothing touched by hand between.  Skipped
where the trainer is not installed.

Once with a worker that only pretends to evaluate, and judges for real, and once with a real one on
the CPU device.  The model is random: its answers are put into the trainer's generation, one right
and one wrong for each prompt, a token a letter.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from app import export
from app.client import Client
from app.domain import filter_language as filters
from app.domain import metrics
from app.domain.dataset.selection import Kind
from app.domain.problem import Problem
from app.export import Spec
from app.export.writers import rows_of
from app.integrations import trl as rewards
from app.store.figures import metric_inputs
from tests import zoo
from tests.integration import fakes, tiny_trainer
from tests.integration.test_rollouts import stored

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

SAMPLE = "row_softmax_triton"


def answer(source: str) -> str:
    return f"Here it is.\n```python\n{source}```"


def sample() -> zoo.Case:
    return next(case for case in zoo.cases() if case.path.stem == SAMPLE)


SOURCE = sample().candidate.decode().encode("ascii", "replace").decode()
RIGHT, WRONG = f"# passes\n{SOURCE}", f"# fails\n{SOURCE}".replace("tl.exp(", "tl.exp2(")
"""A worker that pretends reads the first line; to a real one it is a comment."""
assert WRONG.count("tl.exp2(") == 1


@pytest.fixture(params=["pretends", "evaluates"], autouse=True)
def _worker(request: pytest.FixtureRequest, start_worker: Callable[..., Popen[bytes]]) -> None:
    if not any(map(importlib.util.find_spec, ("datasets", "verl"))):
        pytest.skip("no trainer is installed")
    start_worker(
        module=fakes.WORKER if request.param == "pretends" else "workers.worker.celery_app"
    )


def prompts(client: Client, layout: str, out: Path) -> list[str]:
    """Exported prompts of a problem that was tried once, in vain; the paths of their files."""
    case = sample()
    problem = Problem(
        name=case.problem_path.stem,
        source_set="zoo",
        level=1,
        reference=case.problem_path.read_bytes(),
    )
    [tried] = client.evaluate_many([{"reference": problem, "candidate": WRONG}])
    assert tried["status"] == "incorrect"
    export.export(
        client.database, Spec(format=layout, include_benchmarks=True, val_fraction=0.0), out
    )
    return [str(path) for path in sorted(out.glob("data/train*"))]


def assert_led_to_an_sft_set(client: Client, run: str, out: Path) -> list[dict[str, Any]]:
    """Check the rollouts of a run: figures, and the right answer as the one row of an SFT set."""
    rollouts = stored(client.database, run)
    assert [one["source_set"] for one in rollouts] == ["zoo"] * 2
    assert {one["response"].decode() for one in rollouts} == {answer(RIGHT), answer(WRONG)}
    assert all(one["messages"][0]["role"] == "user" for one in rollouts)
    with client.database.begin() as connection:
        found = metric_inputs.attempted(connection, filters.parse(f'run ~ "{run}"'))
    figures = metrics.report(run, [one.outcome for one in found], thresholds=(0.0, 1.0))
    assert figures.samples == 2
    assert sum(one.outcome.correct for one in found) == figures.fast[0.0].count == 1
    layout = "trl_sft" if run == "trl" else "verl_sft"
    how: dict[str, Any] = {"kind": Kind.TRAJECTORY, "include_benchmarks": True, "val_fraction": 0.0}
    spec = Spec(format=layout, where=f'run ~ "{run}"', **how)
    export.export(client.database, spec, out)
    assert export.verify(out) == []
    [row] = [row for file in sorted(out.glob("data/train*")) for row in rows_of(file)]
    said = [*row["prompt"], *row["completion"]] if run == "trl" else row["messages"]
    assert said == [*rollouts[0]["messages"], {"role": "assistant", "content": answer(RIGHT)}]
    return said


def test_through_trl(connected: Client, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    trl = pytest.importorskip("trl", minversion="1.0")
    files = prompts(connected, "trl_prompts", tmp_path / "prompts")
    rows = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))[
        "train"
    ]
    tokenizer, chosen = tiny_trainer.tokenizer(), [answer(RIGHT), answer(WRONG)]

    def play(asked: list[Any], _: Any) -> dict[str, Any]:
        """Right and wrong answers in turn, in the place of the model's."""
        ids = [
            tokenizer.apply_chat_template(one, add_generation_prompt=True)["input_ids"]
            for one in asked
        ]
        said = [
            tokenizer(chosen[place % 2])["input_ids"] + [tokenizer.eos_token_id]
            for place in range(len(asked))
        ]
        return {
            "prompt_ids": ids,
            "completion_ids": said,
            "logprobs": [[0.0] * len(one) for one in said],
        }

    trainer = trl.GRPOTrainer(
        tiny_trainer.model(),
        reward_funcs=rewards.reward_funcs(
            run="trl", reward="calculate_reward_like_kernel", timing_budget_s=0.2
        ),
        rollout_func=play,
        processing_class=tokenizer,
        train_dataset=rows,
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=8192,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
    )
    trainer.train()
    logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    assert logged["kernel/correct_rate"] == 0.5
    assert [one["step"] for one in stored(connected.database, "trl")] == [0, 0]
    said = assert_led_to_an_sft_set(connected, "trl", tmp_path / "sft")
    assert said[0]["content"] == rows[0]["prompt"][0]["content"]


def test_through_verl(connected: Client, tmp_path: Path) -> None:
    loop = pytest.importorskip("verl.experimental.reward_loop.reward_loop")
    loader = pytest.importorskip("verl.utils.dataset.rl_dataset")
    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto

    files = prompts(connected, "verl_rl", tmp_path / "prompts")
    tokenizer = tiny_trainer.tokenizer()
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    function = {
        "path": "pkg://app.integrations.verl",
        "name": "compute_score",
        "reward_kwargs": {"run": "verl", "timing_budget_s": 0.2},
    }
    reward = {
        "reward_model": {"enable": False},
        "custom_reward_function": function,
        "reward_manager": {
            "source": "importlib",
            "name": "KernelRewardManager",
            "module": {"path": "pkg://app.integrations.verl_manager"},
        },
    }
    model = {"path": None, "tokenizer_path": str(tmp_path / "tokenizer")}
    config = OmegaConf.create({"actor_rollout_ref": {"model": model}, "reward": reward})
    told = OmegaConf.create(
        {"cache_dir": str(tmp_path), "max_prompt_length": 65536, "return_raw_chat": True}
    )
    [item] = [loader.RLHFDataset(files, tokenizer, told)[0]]
    batch = loader.collate_fn([dict(item), dict(item)])
    said = [tokenizer(answer(source))["input_ids"] for source in (RIGHT, WRONG)]
    width = max(map(len, said))
    responses = torch.tensor([one + [tokenizer.pad_token_id] * (width - len(one)) for one in said])
    mask = torch.tensor([[1] * len(one) + [0] * (width - len(one)) for one in said])
    batch |= {"responses": responses, "prompts": responses[:, :1], "attention_mask": mask}
    data = DataProto.from_single_dict(batch | {"uid": np.array(["prompt-1"] * 2, dtype=object)})
    data.meta_info["global_steps"] = 7  # both as verl's trainer sets them

    async def scored() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await loop.RewardLoopWorker(config).compute_score_batch(data)
        return found

    found = asyncio.run(scored())
    assert [one["reward_extra_info"]["correct"] for one in found] == [1.0, 0.0]
    assert found[0]["reward_score"] > found[1]["reward_score"] == 0.0
    rollouts = stored(connected.database, "verl")
    assert [(one["name"], one["step"]) for one in rollouts] == [("verl step 7", 7)] * 2
    assert {one["label"]: one["claims"]["extra_info"]["response_ids"] for one in rollouts} == {
        f"prompt-1/{place}": ids for place, ids in enumerate(said)
    }
    said = assert_led_to_an_sft_set(connected, "verl", tmp_path / "sft")
    module = pytest.importorskip("verl.utils.dataset.multiturn_sft_dataset")
    options = OmegaConf.create({"max_length": 65536, "pad_mode": "no_padding"})
    paths = [str(path) for path in (tmp_path / "sft").glob("data/train*")]
    learnt = module.MultiTurnSFTDataset(paths, tokenizer, options)[0]
    assert (
        tokenizer.decode(learnt["input_ids"][learnt["loss_mask"].bool()]) == f"{answer(RIGHT)}<eos>"
    )
