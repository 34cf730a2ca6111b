"""Sessions inside of trainers' own code, on the CPU with a random model.  Skipped
where a trainer is not installed.

A worker that pretends to evaluate judges the answers; scripted ones stand for the
model's where their text counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa

from app.client import Client
from app.domain.trajectory import Trajectory
from app.integrations.trl_rollout import KernelRollouts, generated, turn_sum
from app.store.trajectory import trajectories
from tests.integration import fakes, tiny_trainer

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages

REFERENCE = "class Model: pass\n"
SPEC = {
    "strategy": {"turns": 2},
    "stops": {"solved": True},
    "reward": "calculate_reward_like_kernel",
}
PASSES, FAILS = (
    f"```python\n# {first}\nclass ModelNew: pass\n```" for first in ("passes", "fails")
)
SCRIPT = {"g": [PASSES], "h": [FAILS, PASSES], "i": [FAILS, FAILS]}
"""Answers of three trajectories: solved at once, repaired, and wrong."""
REWARDS = {"g": [-0.1], "h": [-0.3, -0.1], "i": [-0.3, -0.3]}


@pytest.fixture
def _worker(start_worker: Callable[..., Popen[bytes]]) -> None:
    start_worker(module=fakes.WORKER)


def stored(client: Client) -> list[Trajectory]:
    with client.database.begin() as connection:
        ids = connection.scalars(
            sa.text("SELECT trajectory_id FROM trajectories ORDER BY trajectory_id")
        )
        found = [trajectories.get(connection, each) for each in ids]
    return [each for each in found if each is not None]


class Script:
    """Answers in the place of the model's, by line and turn; log-probabilities of zero."""

    def __init__(self, tokenizer: Any, lines: list[list[str]]) -> None:
        self.tokenizer, self.lines, self.turn = tokenizer, lines, 0

    def __call__(
        self, prompts: list[list[int]], trainer: Any
    ) -> tuple[list[list[int]], list[list[float]]]:
        going = [line for line in self.lines if len(line) > self.turn]
        assert len(going) == len(prompts)
        ids = [
            self.tokenizer(line[self.turn])["input_ids"] + [self.tokenizer.eos_token_id]
            for line in going
        ]
        self.turn += 1
        return ids, [[0.0] * len(each) for each in ids]


def turn_trainer(
    folder: Path, rollouts: KernelRollouts, *, method: str = "trloo", **more: Any
) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig

    from workers.training.trl_trainer import TurnCreditTrainer

    return TurnCreditTrainer(
        tiny_trainer.model(),
        method=method,
        rollout_func=rollouts,
        reward_funcs=turn_sum,
        processing_class=tiny_trainer.tokenizer(),
        train_dataset=Dataset.from_list(rollouts.rows() * 3),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=1,
            per_device_train_batch_size=3,
            num_generations=3,
            max_completion_length=8,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
            scale_rewards="none",
            **more,
        ),
    )


def trained(trainer: Any) -> dict[str, Any]:
    """Make the trainer's one step; returns the inputs of its loss."""
    seen: dict[str, Any] = {}
    inner = trainer._compute_loss

    def watched(model: Any, inputs: dict[str, Any]) -> Any:
        seen.update(inputs)
        return inner(model, inputs)

    trainer._compute_loss = watched
    trainer.train()
    return seen


def trained_rows(trainer: Any, tokenizer: Any) -> list[tuple[str, Any, Any]]:
    """Make the step; returns the text of each row's trained tokens, its advantages, and the mask of
    those tokens.
    """
    seen = trained(trainer)
    mask = (seen["completion_mask"] * seen["tool_mask"]).bool()
    texts = [
        tokenizer.decode(row[keep]) for row, keep in zip(seen["completion_ids"], mask, strict=True)
    ]
    return list(zip(texts, seen["advantages"], mask, strict=True))


@pytest.mark.usefixtures("_worker")
def test_trl_gives_every_turn_its_own_credit(connected: Client, tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.16")
    tokenizer = tiny_trainer.tokenizer()
    script = Script(tokenizer, list(SCRIPT.values()))
    rollouts = KernelRollouts([REFERENCE], SPEC, run="trloo", model="tiny", generate=script)
    trainer = turn_trainer(tmp_path, rollouts)
    for text, advantages, keep in trained_rows(trainer, tokenizer):
        assert (advantages[~keep] == 0).all()
        found = [round(each, 4) for each in dict.fromkeys(advantages[keep].tolist())]
        # returns of the first turns: -0.1, -0.4, -0.6; of the second ones: -0.1, -0.3
        expected = {1: [0.4], 2: [-0.05, 0.2], 0: [-0.35, -0.2]}[
            text.count("# passes") + (text.count("# fails") == 1)
        ]
        assert found == expected
    kept = stored(connected)
    assert [(each.run, len(each.turns)) for each in kept] == [
        ("trloo step 0", 1),
        ("trloo step 0", 2),
        ("trloo step 0", 2),
    ]
    assert len({each.label for each in kept}) == 3
    logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    assert logged["reward"] == pytest.approx((-0.1 - 0.4 - 0.6) / 3)


@pytest.mark.usefixtures("_worker")
def test_a_trajectory_that_trl_masks_is_in_no_group(connected: Client, tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.16")
    tokenizer = tiny_trainer.tokenizer()
    script = Script(tokenizer, [[PASSES], [FAILS], [FAILS]])

    def last_is_cut(
        prompts: list[list[int]], trainer: Any
    ) -> tuple[list[list[int]], list[list[float]]]:
        answers, logprobs = script(prompts, trainer)
        return [*answers[:-1], answers[-1][:-1]], [*logprobs[:-1], logprobs[-1][:-1]]

    rollouts = KernelRollouts([REFERENCE], {**SPEC, "strategy": {"turns": 1}}, generate=last_is_cut)
    trainer = turn_trainer(tmp_path, rollouts, mask_truncated_completions=True)
    found = sorted(max(row.tolist(), key=abs) for row in trained(trainer)["advantages"])
    assert found == pytest.approx([-0.2, 0, 0.2])  # mean of -0.3 and -0.1, without the other -0.3
    assert len(stored(connected)) == 3


def test_trl_plays_with_the_models_own_answers(connected: Client, tmp_path: Path) -> None:
    """A random model writes no code: no evaluation, and every reward is that of a failure."""
    pytest.importorskip("trl", minversion="1.16")
    rollouts = KernelRollouts([REFERENCE], SPEC, generate=generated)
    trainer = turn_trainer(tmp_path, rollouts, method="grpo")
    trainer.train()
    assert [len(each.turns) for each in stored(connected)] == [2, 2, 2]
    logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    assert logged["reward"] == -2.0


def test_trl_is_told_of_an_answer_without_tokens(connected: Client, tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.16")
    rollouts = KernelRollouts([REFERENCE], SPEC, generate=lambda prompts, _: ([[1], [], [1]], None))
    with pytest.raises(ValueError, match="expected a token at least in each"):
        turn_trainer(tmp_path, rollouts).train()
    assert stored(connected) == []


@pytest.mark.usefixtures("_worker")
def test_skyrl_gym(connected: Client) -> None:
    gym = pytest.importorskip("skyrl_gym")
    if "kernel_assay" not in gym.envs.registration.registry:
        gym.register(id="kernel_assay", entry_point="app.integrations.skyrl:KernelEnv")
    row = {
        "reward_spec": {"ground_truth": REFERENCE},
        "extra_info": {"entry_point": "Model", "backend": "triton"},
    }

    def played(answers: list[str]) -> tuple[list[Any], Any]:
        env = gym.make("kernel_assay", env_config={"spec": SPEC, "run": "sky"}, extras=row)
        messages, _ = env.init([{"role": "user", "content": "?"}])
        assert "class Model" in messages[0]["content"]
        return [env.step(answer) for answer in answers], env

    for name, answers in SCRIPT.items():
        steps, env = played(answers)
        assert [step["reward"] for step in steps] == pytest.approx(REWARDS[name])
        assert [step["done"] for step in steps] == [False] * (len(steps) - 1) + [True]
        assert [len(step["observations"]) for step in steps] == [1] * (len(steps) - 1) + [0]
        assert env.get_metrics()["correct"] == float("# passes" in answers[-1])
        env.close()
    steps, env = played([FAILS])
    env.close()
    assert [len(each.turns) for each in stored(connected)] == [1, 2, 2, 1]
    assert type(env).aggregate_metrics([env.get_metrics()])["turns"] == 1
