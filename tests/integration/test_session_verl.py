"""Sessions inside of verl's agent loop, on the CPU with a random model.  Skipped without verl."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.client import Client
from tests.integration import tiny_trainer
from tests.integration.test_session_trainers import (
    FAILS,
    PASSES,
    REFERENCE,
    SCRIPT,
    SPEC,
    _worker,  # noqa: F401 (a fixture)
    stored,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of other packages


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
def test_verl_leaves_out_trajectories_with_an_answer_that_was_broken_off(
    connected: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without tokens its reward would be put on a token of the turn before; a part of an
    answer says nothing about the model.
    """
    pytest.importorskip("verl")
    pytest.importorskip("transfer_queue")
    from verl.workers.rollout.replica import TokenOutput

    from workers.training import verl_plugin

    verl_plugin.register()
    tokenizer = tiny_trainer.tokenizer()
    cut = FAILS[:20]
    engine, calls = Engine(tokenizer), iter([FAILS, None, cut, PASSES])

    async def generate(**_: Any) -> Any:
        text = next(calls)
        ids = [] if text is None else [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        reason = "aborted" if text in (None, cut) else "completed"
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason=reason)

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
    steps = [(each["min_global_steps"], each["max_global_steps"]) for each in versions]
    assert steps == [(1, 1), (1, 2), (1, 2), (1, 2)]
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
