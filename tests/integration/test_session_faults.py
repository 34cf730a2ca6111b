"""A fault of the evaluator in the middle of a dialogue, inside of trainers' own
code: it is no reward, and never 0.

Skipped where a trainer is not installed; verifiers: test_session_verifiers, NeMo
Gym: test_environment_servers.
"""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from app.client import Client
from app.domain.collection.stop_reasons import StopReason
from app.integrations.trl_rollout import KernelRollouts
from tests.integration import tiny_trainer
from tests.integration.test_session_trainers import (
    FAILS,
    PASSES,
    REFERENCE,
    SPEC,
    Script,
    _worker,  # noqa: F401 (a fixture)
    trained_rows,
    turn_trainer,
)
from tests.integration.test_session_verl import Engine, verl_batches, verl_config

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("_worker"),
]  # warnings of other packages

FAULT = "```python\n# fault\nclass ModelNew: pass\n```"


def test_trl_gives_the_trajectory_no_advantage_and_others_none_of_its_reward(
    connected: Client, tmp_path: Path
) -> None:
    pytest.importorskip("trl", minversion="1.16")
    tokenizer = tiny_trainer.tokenizer()
    script = Script(tokenizer, [[PASSES], [FAILS, FAULT], [FAILS, FAILS]])
    rollouts = KernelRollouts([REFERENCE], SPEC, run="trloo", model="tiny", generate=script)
    trainer = turn_trainer(tmp_path, rollouts)
    for text, advantages, keep in trained_rows(trainer, tokenizer):
        found = [round(each, 4) for each in dict.fromkeys(advantages[keep].tolist())]
        # returns of the first turns: -0.1 and -0.6; of the second one, which is alone: -0.3
        assert found == ([0.0] if "fault" in text else [0.5] if "passes" in text else [-0.5, -0.3])
    logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    assert logged["reward"] == pytest.approx((-0.1 - 0.6) / 2)


def test_trl_leaves_out_a_trajectory_that_a_budget_ended(connected: Client, tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.16")
    script = Script(tiny_trainer.tokenizer(), [[PASSES], [FAILS], [FAILS]])
    rollouts = KernelRollouts(
        [REFERENCE], SPEC | {"budgets": {"rollout": {"calls": 1}}}, generate=script
    )
    trainer = turn_trainer(tmp_path, rollouts)
    told: list[dict[str, Any]] = []
    trainer.rollout_func = lambda *asked: told.append(rollouts(*asked)) or told[-1]
    trainer.train()
    assert told[0]["stop_reasons"] == ["solved", "budget", "budget"]
    assert told[0]["turn_rewards"] == [[pytest.approx(-0.1)], [None], [None]]


def test_verl_leaves_the_trajectory_out(
    connected: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("verl")
    pytest.importorskip("transfer_queue")
    from verl.workers.rollout.replica import TokenOutput

    from workers.training import verl_plugin

    verl_plugin.register()
    tokenizer = tiny_trainer.tokenizer()
    engine, calls = Engine(tokenizer), iter([FAILS, FAULT, PASSES])

    async def generate(**_: Any) -> Any:
        ids = [*tokenizer(next(calls))["input_ids"], tokenizer.eos_token_id]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))

    monkeypatch.setattr(engine, "generate", generate)
    [(keys, fields)] = verl_batches(verl_config(tmp_path, tokenizer), engine, 2, monkeypatch)
    assert keys == ["p_1_0"]
    assert [round(float(each), 4) for each in fields["rm_scores"][0] if each] == [-0.1]


def test_skyrl_is_told_not_a_number(connected: Client) -> None:
    gym = pytest.importorskip("skyrl_gym")
    if "kernel_assay" not in gym.envs.registration.registry:
        gym.register(id="kernel_assay", entry_point="app.integrations.skyrl:KernelEnv")
    row = {
        "reward_spec": {"ground_truth": REFERENCE},
        "extra_info": {"entry_point": "Model", "backend": "triton"},
    }
    env = gym.make("kernel_assay", env_config={"spec": SPEC, "run": "sky"}, extras=row)
    env.init([{"role": "user", "content": "?"}])
    first, second = env.step(FAILS), env.step(FAULT)
    assert (first["reward"], first["metadata"]["valid"]) == (-0.3, True)
    assert math.isnan(second["reward"])
    assert (second["done"], second["metadata"]["valid"]) == (True, False)
    assert second["metadata"]["stop_reason"] == StopReason.EVALUATOR_ERROR
    env.close()


def test_openenv_has_no_reward(connected: Client) -> None:
    pytest.importorskip("openenv")
    from app.integrations.openenv import KernelAction, KernelEnvironment

    environment = KernelEnvironment(SPEC)
    environment.reset(reference=REFERENCE, entry_point="Model")

    async def played() -> list[Any]:
        return [
            await asyncio.to_thread(environment.step, KernelAction(text=text))
            for text in (FAILS, FAULT)
        ]

    first, second = asyncio.run(played())
    assert (first.reward, first.done) == (-0.3, False)
    assert (second.reward, second.done, second.stop_reason) == (
        None,
        True,
        StopReason.EVALUATOR_ERROR,
    )
