"""Sessions inside of trainers' own code, on the CPU with a random model.  Skipped
where a trainer is not installed.

A worker that pretends to evaluate judges the answers; scripted ones stand for the
model's where their text counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa

from app.client import Client
from app.domain.trajectory import Trajectory
from app.integrations.trl_rollout import KernelRollouts, generated, turn_sum
from app.store import trajectories
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


@pytest.mark.usefixtures("_worker")
def test_trl_gives_every_turn_its_own_credit(connected: Client, tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.16")
    tokenizer = tiny_trainer.tokenizer()
    script = Script(tokenizer, list(SCRIPT.values()))
    rollouts = KernelRollouts([REFERENCE], SPEC, run="trloo", model="tiny", generate=script)
    trainer = turn_trainer(tmp_path, rollouts)
    seen: dict[str, Any] = {}
    inner = trainer._compute_loss

    def watched(model: Any, inputs: dict[str, Any]) -> Any:
        seen.update(inputs)
        return inner(model, inputs)

    trainer._compute_loss = watched
    trainer.train()
    mask = (seen["completion_mask"] * seen["tool_mask"]).bool()
    order = [
        tokenizer.decode(row[keep]) for row, keep in zip(seen["completion_ids"], mask, strict=True)
    ]
    for text, advantages, keep in zip(order, seen["advantages"], mask, strict=True):
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
    seen: dict[str, Any] = {}
    inner = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: (seen.update(inputs), inner(model, inputs))[1]
    trainer.train()
    found = sorted(max(row.tolist(), key=abs) for row in seen["advantages"])
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


class Engine:
    """verl's client of the rollout engine: scripted answers, and the tiny model's
    own for every further trajectory.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.model = tokenizer, tiny_trainer.model()
        self.lines: dict[str, list[str] | None] = {}
        self.calls: Counter[str] = Counter()

    async def generate(
        self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]
    ) -> Any:
        import torch
        from verl.workers.rollout.replica import TokenOutput

        scripts: list[list[str] | None] = [list(each) for each in SCRIPT.values()]
        line = self.lines.setdefault(
            request_id, [*scripts, None][min(len(self.lines), len(scripts))]
        )
        self.calls[request_id] += 1
        version = {
            "min_global_steps": self.calls[request_id],
            "max_global_steps": self.calls[request_id],
        }
        if line:
            ids = [*self.tokenizer(line.pop(0))["input_ids"], self.tokenizer.eos_token_id]
            return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=version)
        given = torch.tensor([prompt_ids])
        made = self.model.generate(
            given, max_new_tokens=min(6, sampling_params["max_tokens"]), do_sample=True
        )
        ids = made[0, len(prompt_ids) :].tolist()
        return TokenOutput(token_ids=ids, log_probs=[-4.6] * len(ids), extra_fields=version)


def verl_config(folder: Path, tokenizer: Any) -> Any:
    import verl
    from omegaconf import OmegaConf, open_dict

    tiny_trainer.model().save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    loop = {"name": "kernel_assay", "_target_": "app.integrations.verl_agent_loop.KernelAgentLoop"}
    OmegaConf.save(OmegaConf.create([{**loop, "spec": SPEC, "run": "verl"}]), folder / "loop.yaml")
    config = OmegaConf.load(
        Path(verl.__file__).parent / "trainer/config/_generated_ppo_trainer.yaml"
    )
    with open_dict(config):
        config.actor_rollout_ref.model.path = str(folder / "model")
        config.actor_rollout_ref.rollout.name = "vllm"
        config.actor_rollout_ref.rollout.prompt_length = 8192
        config.actor_rollout_ref.rollout.response_length = 8192
        config.actor_rollout_ref.rollout.agent.default_agent_loop = "kernel_assay"
        config.actor_rollout_ref.rollout.agent.agent_loop_config_path = str(folder / "loop.yaml")
        config.algorithm.adv_estimator = "assay_trloo"
        config.data.tokenizer = None
    return config


def verl_batches(
    config: Any, engine: Engine, sessions: int, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """Keys and fields that verl's agent loop worker puts into its queue after some
    sessions of one prompt.
    """
    from verl.experimental.agent_loop import AgentLoopWorker
    from verl.trainer.ppo.v1 import agent_loop_tq

    kind = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class
    worker = kind.__new__(kind)  # its own initialisation starts Ray and a queue
    AgentLoopWorker.__init__(worker, config, engine)
    worker.hf_model_type = None  # the tokenizer of letters has no template of Qwen's
    batches: list[Any] = []

    async def put(**told: Any) -> None:
        batches.append((told["keys"], told["fields"]))

    monkeypatch.setattr(agent_loop_tq.tq, "async_kv_batch_put", put)
    row = {
        "raw_prompt": [{"role": "user", "content": "?"}],
        "uid": "p",
        "global_steps": 7,
        "index": 0,
        "extra_info": {"entry_point": "Model"},
        "reward_model": {"ground_truth": REFERENCE},
    }
    place = {"step": 7, "sample_index": 0, "rollout_n": 0, "validate": False}
    wanted = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}

    async def played() -> None:
        for session in range(sessions):
            await worker._run_agent_loop(
                wanted,
                trajectory=place,
                trace=False,
                agent_name="kernel_assay",
                session_id=session,
                **row,
            )

    asyncio.run(played())
    return batches


@pytest.mark.usefixtures("_worker")
def test_verl_leaves_out_a_trajectory_with_an_answer_without_tokens(
    connected: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reward would be put on a token of the turn before."""
    pytest.importorskip("verl")
    pytest.importorskip("transfer_queue")
    from verl.workers.rollout.replica import TokenOutput

    from workers.training import verl_plugin

    verl_plugin.register()
    tokenizer = tiny_trainer.tokenizer()
    engine, calls = Engine(tokenizer), iter([FAILS, None, None, PASSES])

    async def generate(**_: Any) -> Any:
        text = next(calls)
        ids = [] if text is None else [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))

    monkeypatch.setattr(engine, "generate", generate)
    [(keys, fields)] = verl_batches(verl_config(tmp_path, tokenizer), engine, 3, monkeypatch)
    assert keys == ["p_2_0"]
    assert [round(float(each), 4) for each in fields["rm_scores"][0] if each] == [-0.1]
    assert [(each.label, len(each.turns)) for each in stored(connected)] == [("p/0", 1), ("p/2", 1)]


@pytest.mark.usefixtures("_worker")
def test_verl_gives_every_turn_its_own_credit(
    connected: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("verl")
    pytest.importorskip("transfer_queue")
    import numpy as np
    from verl import DataProto
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    from workers.training import verl_plugin

    verl_plugin.register()
    tokenizer = tiny_trainer.tokenizer()
    config = verl_config(tmp_path, tokenizer)
    batches = verl_batches(config, Engine(tokenizer), 4, monkeypatch)
    keys = [key for names, _ in batches for key in names]
    fields = [field for _, field in batches]
    versions = [field["extra_fields"][0] for field in fields]
    assert [(each["min_global_steps"], each["max_global_steps"]) for each in versions] == [
        (1, 1),
        (1, 2),
        (1, 2),
        (1, 2),
    ]
    rewards = [field["rm_scores"][0] for field in fields]
    assert [[round(float(each), 4) for each in row if each] for row in rewards] == [
        [-0.1],
        [-0.3, -0.1],
        [-0.3, -0.3],
        [-1, -1],
    ]
    width = max(len(row) for row in rewards)

    def padded(name: str) -> Any:
        import torch

        rows = [field[name][0] for field in fields]
        return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])

    data = DataProto.from_single_dict(
        {
            "token_level_rewards": padded("rm_scores"),
            "response_mask": padded("response_mask"),
            "uid": np.array(["p"] * 4, dtype=object),
        }
    )
    found = compute_advantage_for_multi_trajectories(
        data, batch_keys=keys, adv_estimator="assay_trloo", gamma=1.0, config=config.algorithm
    )
    advantages = found.batch["advantages"]
    assert (advantages[found.batch["response_mask"] == 0] == 0).all()
    turns = [
        [round(each, 4) for each in dict.fromkeys(row[row != 0].tolist())] for row in advantages
    ]
    # returns of the first turns: -0.1, -0.4, -0.6, -2; of the second ones: -0.1, -0.3, -1
    assert turns == [[0.9], [0.5, 0.55], [0.2333, 0.25], [-1.6333, -0.8]]
    kept = stored(connected)
    assert [(each.run, each.label, len(each.turns)) for each in kept] == [
        ("verl step 7", f"p/{session}", turns) for session, turns in enumerate([1, 2, 2, 2])
    ]


def test_verl_is_told_when_the_plug_in_did_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.trainer.ppo import core_algos

    from app.integrations.verl_agent_loop import check_estimator
    from workers.training import verl_check, verl_plugin

    config = OmegaConf.create({"algorithm": {"adv_estimator": "assay_trloo"}})
    verl_plugin.register()
    check_estimator(config)
    assert verl_check.problems() == []
    monkeypatch.setattr(core_algos, "ADV_ESTIMATOR_REGISTRY", {})
    with pytest.raises(
        RuntimeError, match=r"assay_trloo is not registered: verl did not load the plug-in"
    ):
        check_estimator(config)
    check_estimator(OmegaConf.create({"algorithm": {"adv_estimator": "grpo"}}))
    assert verl_check.problems()[0].startswith("not registered: assay_")
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    monkeypatch.setattr(verl_check, "entry_points", lambda group: [])
    assert "no installed distribution has the entry point `assay`" in verl_check.problems()[1]


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
