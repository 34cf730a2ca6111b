"""verl's own `main_ppo` on the CPU, with Ray, FSDP2 and the plug-in, from stored problems to an SFT
set: problems → RL prompts → two training steps → stored rollouts → `assay report` → SFT set, with
nothing touched by hand between.

The policy is a random transformer of a few thousand weights whose vocabulary has whole answers
beside letters; a cold start teaches it to answer at all.  Its samples, log probabilities and
gradients are its own.  Skipped without verl.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from app import export
from app.client import Client, KernelSession
from app.client.session import as_spec
from app.domain.dataset.selection import Kind
from app.domain.problem import Problem
from app.export import Spec
from app.export.writers import rows_of
from app.settings import Settings
from tests.integration import fakes, tiny_trainer
from tests.integration.cli import assay
from tests.integration.test_rollouts import stored
from tests.integration.test_training_way import RIGHT, WRONG, answer, prompts

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
]  # warnings of other packages

ROOT = Path(__file__).parents[2]
SPEC: dict[str, Any] = {
    "strategy": {"turns": 2},
    "stops": {"solved": True},
    "sampling": {"max_tokens": 8},
    "reward": "calculate_reward_like_kernel",
    "options": {"timing_budget_s": 0.2},
}
STEPS, SAMPLES = 2, 8
ANSWERS = (answer(RIGHT), answer(WRONG))
CONTEXT = 64
"""Last tokens of the prompts in the cold start: all of them would take a minute."""


@pytest.fixture(autouse=True)
def _verl() -> None:
    pytest.importorskip("verl", reason="verl is not installed: pip install '.[trainers]'")
    pytest.importorskip(
        "transfer_queue", reason="TransferQueue, which verl does not declare, is not installed"
    )


@pytest.fixture
def _pretending(start_worker: Callable[..., Popen[bytes]]) -> None:
    start_worker(module=fakes.WORKER)


@pytest.fixture
def _evaluating(start_worker: Callable[..., Popen[bytes]]) -> None:
    """A real worker on the CPU device; it evaluates each of the two answers once."""
    start_worker(module="workers.worker.celery_app")


def policy(folder: Path, asked: list[list[dict[str, str]]]) -> str:
    """A model that answers the prompts with one of ANSWERS and an end, about as
    often each; its folder.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = tiny_trainer.tokenizer()
    tokenizer.add_tokens(list(ANSWERS))
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=32768,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=1,
        )
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    openings = [
        tokenizer.apply_chat_template(each, add_generation_prompt=True)["input_ids"]
        for each in asked
    ]
    lines = [
        [*ids[-CONTEXT:], *tokenizer(said)["input_ids"], 1] for ids in openings for said in ANSWERS
    ]
    for _ in range(60):
        optimiser.zero_grad()
        for ids in lines:
            said = model(torch.tensor([ids])).logits[0, -3:-1].log_softmax(-1)
            (-said.gather(1, torch.tensor([ids[-2:]]).T).mean()).backward()
        optimiser.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def train(client: Client, folder: Path, *more: str) -> str:
    """Output of a training; its answers come from the model that `policy` makes in `folder`."""
    files = prompts(client, "verl_rl", folder / "prompts")
    row = next(iter(rows_of(Path(files[0]))))
    session = KernelSession(client, SPEC, store=False).open(
        Problem(name="p", reference=row["reward_model"]["ground_truth"].encode())
    )
    model = policy(folder / "model", [session.messages, row["prompt"]])
    told = [
        f"data.train_files=[{','.join(files)}]",
        f"data.val_files=[{','.join(files)}]",
        f"actor_rollout_ref.model.path={model}",
        f"actor_rollout_ref.rollout.n={SAMPLES}",
        "actor_rollout_ref.actor.optim.lr=0.01",
        f"trainer.total_training_steps={STEPS}",
        "data.max_response_length=8192",
    ]
    recipes = [
        "--config-dir",
        str(ROOT / "workers/training/recipes"),
        "--config-name",
        "verl_dry_run",
    ]
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *recipes, *told, *more]
    added = {
        "VERL_USE_EXTERNAL_MODULES": "workers.training.verl_cpu",
        "PYTHONPATH": str(ROOT),
        "RAY_TMPDIR": "/tmp",  # paths of sockets have to be short
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **added},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def figures(output: str, step: int) -> dict[str, float]:
    """verl's own figures of a step, from its console."""
    [line] = re.findall(rf"\bstep:{step} - (.*)", output)
    return {
        name: float(value)
        for name, value in re.findall(r"(\S+?):(?:np\.\w+\()?(-?[\d.]+(?:e[+-]?\d+)?|nan)\b", line)
    }


def loop(folder: Path, url: str) -> str:
    """Configuration of the agent loop."""
    target = "app.integrations.verl_agent_loop.KernelAgentLoop"
    one = {"name": "kernel_assay", "_target_": target, "spec": SPEC, "run": "ppo", "url": url}
    path = folder / "loop.yaml"
    path.write_text(json.dumps([one]))
    return f"actor_rollout_ref.rollout.agent.agent_loop_config_path={path}"


@pytest.mark.usefixtures("_evaluating")
def test_sessions_train_a_policy_and_become_an_sft_set(
    client: Client, remote_url: str, settings: Settings, tmp_path: Path
) -> None:
    output = train(client, tmp_path, loop(tmp_path, remote_url))
    told = [figures(output, step) for step in range(1, STEPS + 1)]
    assert max(each["actor/grad_norm"] for each in told) > 0  # 0 where all answers are alike
    assert all(
        each["rollout_corr/rollout_rs_masked_fraction"] == 0 for each in told
    )  # the engine has the weights
    rollouts = stored(client.database, "ppo")
    assert {(one["name"], one["step"]) for one in rollouts} == {
        (f"ppo step {step}", step) for step in (1, 2)
    }
    assert {one["problem"] for one in rollouts} == {"row_softmax"}
    labels = {one["label"] for one in rollouts}
    assert len(labels) == STEPS * SAMPLES
    assert {label.rpartition("/")[2] for label in labels} == {
        str(sample) for sample in range(SAMPLES)
    }
    assert len({label.rpartition("/")[0] for label in labels}) == STEPS
    assert_report_and_sft_set(client, settings, "ppo", tmp_path / "sft")
    assert len(labels) < len(rollouts) <= as_spec(SPEC).most_attempts * len(labels)


@pytest.mark.usefixtures("_pretending")
def test_verls_reward_loop_scores_a_training_through_our_functions(
    client: Client, remote_url: str, settings: Settings, tmp_path: Path
) -> None:
    function = "reward.custom_reward_function"
    output = train(
        client,
        tmp_path,
        "actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path=null",
        "data.max_response_length=8",
        "reward.reward_manager.source=importlib",
        "reward.reward_manager.module.path=pkg://app.integrations.verl_manager",
        "reward.reward_manager.name=KernelRewardManager",
        f"{function}.path=pkg://app.integrations.verl",
        f"{function}.name=compute_score",
        f"+{function}.reward_kwargs.run=hooks",
        f"+{function}.reward_kwargs.url={remote_url}",
        f"+{function}.reward_kwargs.reward=calculate_reward_like_kernel",
    )
    assert max(figures(output, step)["actor/grad_norm"] for step in range(1, STEPS + 1)) > 0
    rollouts = stored(client.database, "hooks")
    assert sorted(one["step"] for one in rollouts) == sorted([*range(1, STEPS + 1)] * SAMPLES)
    assert len({(one["step"], one["label"]) for one in rollouts}) == len(rollouts)
    assert {one["label"].rpartition("/")[2] for one in rollouts} == {
        str(sample) for sample in range(SAMPLES)
    }
    assert all(one["messages"][0]["role"] == "user" for one in rollouts)
    assert_report_and_sft_set(client, settings, "hooks", tmp_path / "sft")


def assert_report_and_sft_set(client: Client, settings: Settings, run: str, out: Path) -> None:
    """The command's figures, and an SFT set of the right answers alone, which verl's
    own data set reads.
    """
    rollouts = stored(client.database, run)
    assert {one["response"].decode() for one in rollouts} >= set(ANSWERS)
    right = sum(one["response"].decode() == ANSWERS[0] for one in rollouts)
    said = assay(settings, "report", "--where", f'run ~ "{run}"', "--json")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert [each["group"].split(" level")[0] for each in told] == [
        f"run {run} step {step}" for step in (1, 2)
    ]
    assert sum(each["samples"] for each in told) == len(rollouts)
    assert sum(each["fast_p"]["0"]["count"] for each in told) == right > 0
    how: dict[str, Any] = {"kind": Kind.TRAJECTORY, "include_benchmarks": True, "val_fraction": 0.0}
    export.export(
        client.database, Spec(format="verl_sft_masked", where=f'run ~ "{run}"', **how), out
    )
    assert export.verify(out) == []
    rows = [row for file in sorted(out.glob("data/train*")) for row in rows_of(file)]
    trained = [one["content"] for row in rows for one in row["dialogue"] if one["train"]]
    assert trained
    assert set(trained) == {ANSWERS[0]}
